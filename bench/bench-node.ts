/** A volume manager with the real plugins in a real directory; its pods and objects are in memory, where no server delays them. */
import { ScriptedBlockMapper } from '../src/testing/fakes/scripted-block-mapper.ts';
import { ScriptedClaimWriter } from '../src/testing/worlds/volume-world.ts';
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../src/base/clock.ts';
import type { Mounts } from '../src/disk/mounts/mounts.ts';
import type { ConfigMap } from '../src/kube/kinds/config-map.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import type { Secret } from '../src/kube/kinds/secret.ts';
import { volumeDirectory } from '../src/kube/values/node-layout.ts';
import { PluginRegistry, standardPlugins } from '../src/plugins/registry.ts';
import { FakePods } from '../src/testing/worlds/volume-world.ts';
import { VolumeManager, type VolumeManagerDeps } from '../src/volumes/volume-manager.ts';
import { podUidOf } from '../src/volumes/volume-name.ts';

export const files = ['a.conf', 'b.conf', 'c.conf'];
const fileBytes = 1_024;
const namespace = 'shop';

/** Each file begins with its version. */
export function contentOf(version: number): string {
  return `${version}\n`.padEnd(fileBytes, 'x');
}

export interface BenchNodeSettings {
  readonly root: string;
  readonly mounts: Mounts;
  readonly sweepMs?: number;
  /** What only some nodes have, as the finding of what an earlier process left. */
  readonly deps?: Partial<VolumeManagerDeps>;
}

export class BenchNode {
  readonly manager: VolumeManager;
  readonly #root: string;
  readonly #pods = new FakePods();
  readonly #configMaps = new Map<string, ConfigMap>();
  readonly #secrets = new Map<string, Secret>();
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #mounted = 0;
  #mountsAwaited = { count: 0, arrived: (): void => {} };
  #refreshed: () => void = () => {};

  constructor({ root, mounts, sweepMs = 60_000, deps }: BenchNodeSettings) {
    this.#root = root;
    const node = { metadata: { name: 'node' }, status: { allocatable: { memory: '8Gi' } } };
    const plugins = standardPlugins({
      root,
      mounts,
      privateTmpfs: () => undefined,
      now: () => Date.now(),
      random: () => randomInt(2 ** 32),
      notify: () => {},
      configMaps: { get: async (_namespace, name) => this.#configMaps.get(name) },
      secrets: { get: async (_namespace, name) => this.#secrets.get(name) },
      nodes: { get: async () => node },
    });
    this.manager = new VolumeManager(
      {
        plugins: PluginRegistry.of(plugins).registry,
        pods: this.#pods,
        states: this.#pods,
        claims: { claim: async () => undefined, persistentVolume: async () => undefined },
        node: { name: 'node', current: () => node, read: async () => node },
        subPaths: { clean: async () => {} },
        devices: { isDevice: async () => false, isOpen: async () => false },
        mountHolders: async () => [],
        blockMapper: new ScriptedBlockMapper(),
        claimWriter: new ScriptedClaimWriter(new Map()),
        clock: systemClock,
        notify: (notice) => {
          if (notice.kind === 'VolumeMounted') this.#oneMounted();
          else if (notice.kind === 'VolumeRefreshed') this.#refreshed();
          else if (notice.kind === 'PodEvent') throw new Error(`A benchmark cannot go on: ${notice.message}`);
        },
        ...deps,
      },
      { root, controllerAttach: true, sweepMs },
    );
  }

  setConfigMap(name: string, version: number): void {
    const data = Object.fromEntries(files.map((file) => [file, contentOf(version)]));
    this.#configMaps.set(name, { metadata: { name, namespace }, data });
  }

  setSecret(name: string, version: number): void {
    const encoded = Buffer.from(contentOf(version)).toString('base64');
    this.#secrets.set(name, {
      metadata: { name, namespace },
      data: Object.fromEntries(files.map((f) => [f, encoded])),
    });
  }

  addPods(pods: Iterable<Pod>): void {
    for (const pod of pods) this.#pods.put(pod);
  }

  start(): void {
    this.#running = this.manager.run(this.#stop.signal);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node stops'));
    await this.#running;
  }

  /** Tells of all pods, as their source would, and waits until so many volumes in all are mounted. */
  async mountAll(pods: readonly Pod[], count: number): Promise<void> {
    const arrived = this.untilMounted(count);
    this.addPods(pods);
    for (const pod of pods) this.manager.podChanged(podUidOf(pod));
    await arrived;
  }

  async untilMounted(count: number): Promise<void> {
    if (this.#mounted >= count) return;
    const mounted = new Promise<void>((arrived) => (this.#mountsAwaited = { count, arrived }));
    await Promise.race([mounted, this.#running.then(() => Promise.reject(new Error('The node ended')))]);
  }

  /** One ConfigMap changes; resolves when as many refreshed volumes were reported. */
  change(name: string, volumes: number): Promise<void> {
    return new Promise((resolve) => {
      let left = volumes;
      this.#refreshed = () => {
        left -= 1;
        if (left === 0) resolve();
      };
      this.manager.objectChanged({ kind: 'ConfigMap', namespace, name });
    });
  }

  /** The version that a reader of the volume sees; throws unless all files have the same. */
  versionIn(podUid: string, volume: string, plugin = 'kubernetes.io/configmap'): number {
    const directory = volumeDirectory(this.#root, podUid, plugin, volume);
    const versions = files.map((file) => Number.parseInt(readFileSync(join(directory, file), 'latin1'), 10));
    const [first = NaN] = versions;
    if (versions.some((version) => version !== first)) throw new Error(`Mixed versions ${versions.join()}`);
    return first;
  }

  #oneMounted(): void {
    this.#mounted += 1;
    if (this.#mounted === this.#mountsAwaited.count) this.#mountsAwaited.arrived();
  }
}
