/** A volume manager in a world that a test controls: pods, claims, a node, plugins that touch nothing, and the time. */
import type { TestContext } from 'node:test';
import { applyStrategicMergePatch } from '../../apiserver/patch/strategic-merge-patch.ts';
import { MountletError } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import {
  type PersistentVolumeClaim,
  persistentVolumeClaimShape,
} from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { ClaimStatusPatch } from '../../kube/references/claim-resize.ts';
import { escapePluginName } from '../../kube/values/node-layout.ts';
import type { VolumePlugin } from '../../plugins/plugin.ts';
import { PluginRegistry } from '../../plugins/registry.ts';
import type { ClaimWriter } from '../../volumes/expand.ts';
import type { VolumeNotice } from '../../volumes/notices.ts';
import type { PodOnDisk, PodsOnDisk, SkippedEntry, VolumeOnDisk } from '../../volumes/orphans.ts';
import type { ClaimSource, PodSource, PodStates } from '../../volumes/populator.ts';
import { VolumeManager, type VolumeManagerDeps, type VolumeManagerSettings } from '../../volumes/volume-manager.ts';
import { type PodUid, asPodUid, podUidOf } from '../../volumes/volume-name.ts';
import { type PodParts, aContainer, aPod } from '../fakes/builders.ts';
import { FakeClock, settle } from '../fakes/fake-clock.ts';
import { ScriptedBlockMapper } from '../fakes/scripted-block-mapper.ts';
import { ScriptedPlugin } from '../fakes/scripted-plugin.ts';

/** Pods as workers see them: running until a test says otherwise, and gone when it removes them. */
export class FakePods implements PodSource, PodStates {
  readonly #pods = new Map<PodUid, Pod>();
  readonly terminating = new Set<string>();
  readonly terminated = new Set<string>();
  ready = true;

  put(pod: Pod): void {
    this.#pods.set(podUidOf(pod), pod);
  }

  remove(uid: string): void {
    this.#pods.delete(asPodUid(uid));
  }

  pods(): Iterable<Pod> {
    return [...this.#pods.values()];
  }

  pod(uid: PodUid): Pod | undefined {
    return this.#pods.get(uid);
  }

  areSourcesReady(): boolean {
    return this.ready;
  }

  shouldContainersBeTerminating(uid: PodUid): boolean {
    return this.terminating.has(uid) || this.shouldRuntimeBeRemoved(uid);
  }

  shouldRuntimeBeRemoved(uid: PodUid): boolean {
    return this.terminated.has(uid);
  }
}

/** Claims of the namespace `shop`, each bound to the PersistentVolume of the same name. */
export class FakeClaims implements ClaimSource {
  readonly claims = new Map<string, PersistentVolumeClaim>();
  readonly volumes = new Map<string, PersistentVolume>();
  failure: Error | undefined;
  reads = 0;

  bind(
    name: string,
    spec: Partial<PersistentVolume['spec']> = {},
    metadata: Partial<PersistentVolume['metadata']> = {},
  ): void {
    const csi = { driver: 'example.com', volumeHandle: name };
    const capacity = spec.capacity ?? { storage: '1Gi' };
    this.claims.set(name, {
      metadata: { name, namespace: 'shop', uid: `uid-${name}` },
      spec: { volumeName: name },
      status: { phase: 'Bound', capacity },
    });
    this.volumes.set(name, {
      metadata: { name, ...metadata },
      spec: {
        volumeMode: 'Filesystem',
        accessModes: ['ReadWriteMany'],
        csi,
        capacity,
        claimRef: { namespace: 'shop', name, uid: `uid-${name}` },
        ...spec,
      },
    });
  }

  async claim(namespace: string, name: string): Promise<PersistentVolumeClaim | undefined> {
    this.reads += 1;
    if (this.failure !== undefined) throw this.failure;
    return namespace === 'shop' ? this.claims.get(name) : undefined;
  }

  async persistentVolume(name: string): Promise<PersistentVolume | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return this.volumes.get(name);
  }
}

export interface VolumeWorldSettings extends Partial<VolumeManagerSettings> {
  readonly plugins?: readonly VolumePlugin[];
  readonly deps?: Partial<VolumeManagerDeps>;
}

export class VolumeWorld {
  readonly clock = new FakeClock();
  readonly pods = new FakePods();
  readonly claims = new FakeClaims();
  readonly plain = new ScriptedPlugin({ follows: () => [] });
  readonly disk: ScriptedPlugin;
  readonly notices: VolumeNotice[] = [];
  readonly subPathsCleaned: string[] = [];
  readonly openDevices = new Set<string>();
  readonly manager: VolumeManager;
  node: Node = { metadata: { name: 'node-1' }, status: {} };
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  /** With one plugin for volumes of a pod (`csi`) and one for storage that pods share. */
  constructor(test: Pick<TestContext, 'after'>, settings: VolumeWorldSettings = {}) {
    this.disk = new ScriptedPlugin({ kind: 'device' });
    const { plugins = [this.plain, this.disk], deps = {}, ...rest } = settings;
    const { registry } = PluginRegistry.of(plugins);
    this.manager = new VolumeManager(
      {
        plugins: registry,
        pods: this.pods,
        states: this.pods,
        claims: this.claims,
        node: { name: 'node-1', current: () => this.node, read: async () => this.node },
        subPaths: {
          clean: async (podUid, volumeName) => void this.subPathsCleaned.push(`${podUid}/${volumeName}`),
        },
        devices: {
          isDevice: async (path) => path.startsWith('/dev/'),
          isOpen: async (path) => this.openDevices.has(path),
        },
        clock: this.clock,
        notify: (notice) => this.notices.push(notice),
        mountHolders: async () => [],
        blockMapper: new ScriptedBlockMapper(),
        claimWriter: new ScriptedClaimWriter(this.claims.claims),
        ...deps,
      },
      { root: '/root', controllerAttach: true, sweepMs: 60_000, ...rest },
    );
    test.after(() => this.stop());
  }

  async start(): Promise<void> {
    this.#running = this.manager.run(this.#stop.signal);
    await this.settle();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node stops'));
    await this.#running;
  }

  async settle(): Promise<void> {
    await settle(20);
  }

  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.settle();
  }

  async put(...pods: readonly Pod[]): Promise<void> {
    for (const pod of pods) {
      this.pods.put(pod);
      this.manager.podChanged(podUidOf(pod));
    }
    await this.settle();
  }

  /** The pod's containers have ended and it is deleted. */
  async remove(...uids: readonly string[]): Promise<void> {
    for (const uid of uids) {
      this.pods.terminated.add(uid);
      this.pods.remove(uid);
      this.manager.podChanged(asPodUid(uid));
    }
    await this.settle();
  }

  /** The Events so far, `FailedMount: …`. */
  events(): readonly string[] {
    return this.notices.flatMap((notice) =>
      notice.kind === 'PodEvent' || notice.kind === 'ObjectEvent' ? [`${notice.reason}: ${notice.message}`] : [],
    );
  }

  /** `web/data: mounted`, for all that is wanted or there, sorted. */
  states(): readonly string[] {
    return this.manager.queries
      .statuses()
      .map(({ podUid, specName, state, isWanted }) => `${podUid}/${specName}: ${state}${isWanted ? '' : ', unwanted'}`)
      .sort();
  }
}

/** A pod that mounts all of these volumes; its name is its UID. */
export function podUsing(uid: string, volumes: readonly Volume[], parts: PodParts = {}): Pod {
  const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
  return aPod({
    containers: [aContainer({ volumeMounts })],
    volumes,
    ...parts,
    metadata: { name: uid, uid, ...parts.metadata },
  });
}

/** A pod that has all of these volumes as raw devices. */
export function podWithDevices(uid: string, volumes: readonly Volume[], parts: PodParts = {}): Pod {
  const volumeDevices = volumes.map(({ name }) => ({ name, devicePath: `/dev/${name}` }));
  return podUsing(uid, volumes, { containers: [aContainer({ volumeDevices })], ...parts });
}

export function plainVolume(name: string): Volume {
  return { name, csi: { driver: 'example.com' } };
}

export function claimVolume(name: string, claimName = name, readOnly = false): Volume {
  return { name, persistentVolumeClaim: { claimName, readOnly } };
}

/** Writes claims as an API server would, into those of a test, and fails on command. */
type JsonObject = Parameters<typeof applyStrategicMergePatch>[0];

export class ScriptedClaimWriter implements ClaimWriter {
  readonly #claims: Map<string, PersistentVolumeClaim>;
  readonly patches: ClaimStatusPatch[] = [];
  readonly #ends: (Error | undefined)[] = [];

  constructor(claims: Map<string, PersistentVolumeClaim>) {
    this.#claims = claims;
  }

  /** The next patches end like this, one after another; those after them succeed. */
  script(...ends: readonly (Error | undefined)[]): void {
    this.#ends.push(...ends);
  }

  async patchStatus(_namespace: string, name: string, patch: ClaimStatusPatch): Promise<PersistentVolumeClaim> {
    const end = this.#ends.shift();
    if (end !== undefined) throw end;
    this.patches.push(patch);
    const before = this.#claims.get(name) as unknown as JsonObject;
    const { status } = patch;
    const after = applyStrategicMergePatch(before, { status } as unknown as JsonObject, persistentVolumeClaimShape);
    this.#claims.set(name, after as unknown as PersistentVolumeClaim);
    return after as unknown as PersistentVolumeClaim;
  }
}

/** Directories of pods that exist only in a test. The real ones are in disk/pods/pod-trees.ts and have tests of their own. */
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
