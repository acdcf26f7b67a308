/** Directories of pods that exist only in a test. The real ones are in disk/pod-trees.ts and have tests of their own. */
import { MountletError } from '../base/errors.ts';
import { escapePluginName } from '../kube/unique-names.ts';
import type { PodOnDisk, PodsOnDisk, SkippedEntry, VolumeOnDisk } from '../volumes/pods-on-disk.ts';

interface FakePod {
  readonly volumes: VolumeOnDisk[];
  readonly devices: VolumeOnDisk[];
}

/** What the real ones throw. */
export class PodTreeProblem extends MountletError {
  readonly reason = 'PodDirectory';
}

export class FakePodsOnDisk implements PodsOnDisk {
  readonly trees = new Map<string, FakePod>();
  readonly skipped: SkippedEntry[] = [];
  readonly mounted = new Set<string>();
  /** Thrown by the next look at all pods. */
  failure: Error | undefined;

  /** What an earlier process left for a pod: a volume, or with `volumeDevices` a raw device. */
  leave(podUid: string, plugin: string, name: string, below: 'volumes' | 'volumeDevices' = 'volumes'): void {
    const pluginDirectory = escapePluginName(plugin);
    const path = this.pathOf(podUid, `${below}/${pluginDirectory}/${name}`);
    const tree = this.trees.get(podUid) ?? { volumes: [], devices: [] };
    this.trees.set(podUid, tree);
    (below === 'volumes' ? tree.volumes : tree.devices).push({ pluginDirectory, name, path });
  }

  pods(): { readonly names: readonly string[]; readonly skipped: readonly SkippedEntry[] } {
    if (this.failure !== undefined) throw this.failure;
    return { names: [...this.trees.keys()], skipped: this.skipped };
  }

  has(podUid: string): boolean {
    return this.trees.has(podUid);
  }

  scan(): readonly PodOnDisk[] {
    const { names, skipped } = this.pods();
    const pods = names.map((podUid) => ({ podUid, volumes: [], devices: [], ...this.trees.get(podUid), skipped: [] }));
    return [{ podUid: '', volumes: [], devices: [], skipped }, ...pods];
  }

  volumePaths(podUid: string): readonly string[] {
    return this.trees.get(podUid)?.volumes.map(({ path }) => path) ?? [];
  }

  mountPoints(podUid: string): ReadonlySet<string> {
    return new Set([...this.mounted].filter((path) => path.startsWith(`${this.pathOf(podUid)}/`)));
  }

  subPaths(): readonly { readonly volumeName: string; readonly path: string }[] {
    return [];
  }

  removeDirectory(): void {}

  removeSubPath(): void {}

  removeEmptyVolumes(): void {}

  entries(): readonly string[] {
    return [];
  }

  removeEntry(): void {}

  removePod(podUid: string): void {
    this.trees.delete(podUid);
  }

  pathOf(podUid: string, name = ''): string {
    return `/root/pods/${podUid}${name === '' ? '' : `/${name}`}`;
  }
}
