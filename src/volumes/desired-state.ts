/**
 * What should be mounted on this node: the volumes, and for each volume the pods that want it. The populator writes it and
 * the reconciler reads it. It knows nothing of what is mounted now and does no I/O; every method is one step.
 *
 * ```text
 *              want                            refresh
 *   absent ───────────▶ wanted at revision 1 ───────────▶ wanted at revision 2 …
 *      ▲                        │                                │
 *      └────────forget──────────┴────────────────────────────────┘
 * ```
 *
 * A mount that was made at an older revision is out of date and is made again: that is the whole of "remount required".
 * SELinux labels do not exist here: every volume counts as having the empty one.
 */
import { isDeepStrictEqual } from 'node:util';
import { allContainers } from '../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type VolumeSpec, inlineSpec, specName } from '../kube/references/volume-spec.ts';
import { Quantity } from '../kube/values/quantity.ts';
import type { Follow } from '../plugins/plugin.ts';
import {
  type MountId,
  type PluginMatch,
  type Plugins,
  type PodUid,
  type VolumeName,
  identify,
  podUidOf,
} from './volume-name.ts';

export interface DesiredVolume {
  readonly volume: VolumeName;
  readonly isAttachable: boolean;
  readonly isDeviceMountable: boolean;
  /** The group that the PersistentVolume's annotation gives the pods, or the empty string. */
  readonly gid: string;
  /** The node's status, as the API server has it, says that this node uses the volume. */
  readonly isReportedInUse: boolean;
  /** The PersistentVolume's capacity; 0 where there is none. */
  readonly sizeBytes: bigint;
  /** What the status of its claim said of the size; 0: nothing. */
  readonly claimedBytes: bigint;
  /** Never empty. */
  readonly mounts: ReadonlyMap<PodUid, DesiredMount>;
}

export interface DesiredMount extends MountId, PluginMatch {
  readonly pod: Pod;
  readonly spec: VolumeSpec;
  /** What its plugin says its content comes from; undefined: it is made once and never refreshed. */
  readonly follows: readonly Follow[] | undefined;
  /** The pod's words for the volume, in the order in which they came. */
  readonly podVolumeNames: readonly string[];
  /** When the mount, or its newest refresh by the pod's own sync, was asked for. */
  readonly requestedAt: number;
  readonly revision: number;
  /** What the newest refreshes were for; empty for the first mount. */
  readonly changes: readonly SeenChange[];
}

/** A change that a mount has to show, and when this node received it. */
export interface SeenChange {
  readonly object: ObjectRef;
  readonly resourceVersion?: string | undefined;
  readonly seenAt: number;
}

interface WantedVolume {
  readonly pod: Pod;
  readonly spec: VolumeSpec;
  readonly podVolumeName: string;
  readonly gid: string;
}

interface DesiredStateDeps {
  readonly plugins: Plugins;
  readonly now: () => number;
  /** Called for every mount that may need work, so that a change costs what it touches and no more. */
  readonly touched: (id: MountId) => void;
  /** An attachable volume came or went. */
  readonly inUseChanged: () => void;
}

/** The set accepts another error while its size is at most this, as the kubelet's does. */
const errorsKept = 10;
/** Of a volume that many objects change at once, the trace keeps the newest. */
const changesKept = 8;

interface VolumeEntry extends DesiredVolume {
  isAttachable: boolean;
  isReportedInUse: boolean;
  sizeBytes: bigint;
  claimedBytes: bigint;
  readonly mounts: Map<PodUid, DesiredMount>;
}

export class DesiredState {
  readonly #deps: DesiredStateDeps;
  readonly #volumes = new Map<VolumeName, VolumeEntry>();
  readonly #volumesOfPod = new Map<PodUid, Set<VolumeName>>();
  readonly #objects = new ObjectIndex();
  readonly #errors = new Map<PodUid, Set<string>>();
  #lastRevision = 0;

  constructor(deps: DesiredStateDeps) {
    this.#deps = deps;
  }

  /**
   * Asks for a mount. Asking again replaces pod and spec by the newest and is otherwise without effect: to have the
   * content written again, call `refresh`. Throws when no plugin knows the volume.
   */
  want({ pod, spec, podVolumeName, gid }: WantedVolume): VolumeName {
    const podUid = podUidOf(pod);
    const { volume, plugin, source, isAttachable, isDeviceMountable } = identify(this.#deps.plugins, podUid, spec);
    const entry: VolumeEntry = this.#volumes.get(volume) ?? {
      volume,
      isAttachable,
      isDeviceMountable,
      gid,
      isReportedInUse: false,
      sizeBytes: storageBytes(spec.persistentVolume?.spec.capacity),
      claimedBytes: 0n,
      mounts: new Map(),
    };
    const isNew = !this.#volumes.has(volume);
    this.#volumes.set(volume, entry);
    const known = entry.mounts.get(podUid);
    const names = known?.podVolumeNames ?? [];
    const follows = followsOf({ plugin, source }, known);
    this.#put(entry, {
      volume,
      podUid,
      pod,
      spec,
      plugin,
      source,
      follows,
      podVolumeNames: names.includes(podVolumeName) ? names : [...names, podVolumeName],
      requestedAt: known === undefined || follows !== undefined ? this.#deps.now() : known.requestedAt,
      revision: known?.revision ?? this.#newRevision(),
      changes: known?.changes ?? [],
    });
    if (isNew && isAttachable) this.#deps.inUseChanged();
    return volume;
  }

  /** Only for pods whose containers are gone: what is forgotten here gets unmounted. */
  forget({ volume, podUid }: MountId): void {
    this.#errors.delete(podUid);
    const entry = this.#volumes.get(volume);
    const mount = entry?.mounts.get(podUid);
    if (entry === undefined || mount === undefined) return;
    entry.mounts.delete(podUid);
    this.#objects.remove(mount);
    if (entry.mounts.size === 0) {
      this.#volumes.delete(volume);
      if (entry.isAttachable) this.#deps.inUseChanged();
    }
    const ofPod = this.#volumesOfPod.get(podUid);
    ofPod?.delete(volume);
    if (ofPod?.size === 0) this.#volumesOfPod.delete(podUid);
    this.#deps.touched(mount);
  }

  /** Has a mount set up again, whatever its plugin says. Does nothing for one that is not wanted. */
  refresh({ volume, podUid }: MountId, change?: SeenChange): void {
    const entry = this.#volumes.get(volume);
    const mount = entry?.mounts.get(podUid);
    if (entry === undefined || mount === undefined) return;
    const changes = change === undefined ? mount.changes : [...mount.changes, change].slice(-changesKept);
    entry.mounts.set(podUid, { ...mount, changes, revision: this.#newRevision() });
    this.#deps.touched(mount);
  }

  /** The changes up to this revision are on disk: the next refresh is not about them. */
  shown({ volume, podUid }: MountId, changes: readonly SeenChange[]): void {
    const entry = this.#volumes.get(volume);
    const mount = entry?.mounts.get(podUid);
    if (entry === undefined || mount === undefined || changes.length === 0) return;
    const told = new Set(changes);
    entry.mounts.set(podUid, { ...mount, changes: mount.changes.filter((change) => !told.has(change)) });
  }

  /** The pod was changed. Only volumes that show what has changed of it are refreshed. */
  updatePod(pod: Pod): void {
    const volumes = new Map((pod.spec.volumes ?? []).map((volume) => [volume.name, volume]));
    for (const mount of this.mountsOf(podUidOf(pod))) {
      const entry = this.#volumes.get(mount.volume);
      const volume = volumes.get(mount.podVolumeNames.at(-1) ?? '');
      if (entry === undefined || mount.pod === pod) continue;
      const spec = mount.spec.volume === undefined || volume === undefined ? mount.spec : inlineSpec(volume);
      const source = mount.plugin.sourceOf(spec);
      // A volume that became another kind is not this mount's any more; it goes with its pod.
      const renewed =
        source === undefined
          ? { ...mount, pod }
          : { ...mount, pod, spec, source, follows: followsOf({ ...mount, source }, mount) };
      this.#put(entry, renewed, false);
      if (!isDeepStrictEqual(spec, mount.spec) || showsDifferently(mount, pod)) this.refresh(mount);
    }
  }

  /** Exactly these are reported; every other one is not. */
  markReportedInUse(reported: ReadonlySet<string>): void {
    for (const entry of this.#volumes.values()) {
      const isReportedInUse = reported.has(entry.volume);
      if (entry.isReportedInUse === isReportedInUse) continue;
      entry.isReportedInUse = isReportedInUse;
      this.#touchAll(entry);
    }
  }

  setSize(volume: VolumeName, sizeBytes: bigint, claimedBytes: bigint): void {
    const entry = this.#volumes.get(volume);
    if (entry === undefined) return;
    entry.claimedBytes = claimedBytes;
    if (entry.sizeBytes === sizeBytes) return;
    entry.sizeBytes = sizeBytes;
    this.#touchAll(entry);
  }

  setAttachable(volume: VolumeName, isAttachable: boolean): void {
    const entry = this.#volumes.get(volume);
    if (entry === undefined || entry.isAttachable === isAttachable) return;
    entry.isAttachable = isAttachable;
    this.#deps.inUseChanged();
    this.#touchAll(entry);
  }

  /** What kept the volume from being as it is wanted may be over. */
  touch(volume: VolumeName): void {
    const entry = this.#volumes.get(volume);
    if (entry !== undefined) this.#touchAll(entry);
  }

  volume(volume: VolumeName): DesiredVolume | undefined {
    return this.#volumes.get(volume);
  }

  mount({ volume, podUid }: MountId): DesiredMount | undefined {
    return this.#volumes.get(volume)?.mounts.get(podUid);
  }

  volumes(): Iterable<DesiredVolume> {
    return this.#volumes.values();
  }

  /** A list of its own, as of now. */
  mountsOf(podUid: PodUid): readonly DesiredMount[] {
    const mounts: DesiredMount[] = [];
    for (const volume of this.#volumesOfPod.get(podUid) ?? []) {
      const mount = this.#volumes.get(volume)?.mounts.get(podUid);
      if (mount !== undefined) mounts.push(mount);
    }
    return mounts;
  }

  /** From the pod's words to the node's names. */
  namesOf(podUid: PodUid): ReadonlyMap<string, VolumeName> {
    const names = new Map<string, VolumeName>();
    for (const { podVolumeNames, volume } of this.mountsOf(podUid))
      for (const name of podVolumeNames) names.set(name, volume);
    return names;
  }

  hasSpecName(podUid: PodUid, name: string): boolean {
    return this.mountsOf(podUid).some(({ spec }) => specName(spec) === name);
  }

  pods(): Iterable<PodUid> {
    return this.#volumesOfPod.keys();
  }

  hasPod(podUid: PodUid): boolean {
    return this.#volumesOfPod.has(podUid);
  }

  mountsFollowing(object: ObjectRef): readonly MountId[] {
    return this.#objects.following(object);
  }

  addError(podUid: PodUid, text: string): void {
    const errors = this.#errors.get(podUid) ?? new Set();
    this.#errors.set(podUid, errors);
    if (errors.size <= errorsKept) errors.add(text);
  }

  /** Each error is reported once. */
  popErrors(podUid: PodUid): readonly string[] {
    const errors = [...(this.#errors.get(podUid) ?? [])].sort();
    this.#errors.delete(podUid);
    return errors;
  }

  podsWithErrors(): Iterable<PodUid> {
    return this.#errors.keys();
  }

  #put(entry: VolumeEntry, mount: DesiredMount, touch = true): void {
    const { volume, podUid } = mount;
    const known = entry.mounts.get(podUid);
    entry.mounts.set(podUid, mount);
    this.#volumesOfPod.set(podUid, (this.#volumesOfPod.get(podUid) ?? new Set()).add(volume));
    if (known?.follows !== mount.follows) {
      if (known !== undefined) this.#objects.remove(known);
      this.#objects.add(mount);
    }
    if (touch) this.#deps.touched(mount);
  }

  #touchAll({ mounts }: VolumeEntry): void {
    for (const mount of mounts.values()) this.#deps.touched(mount);
  }

  #newRevision(): number {
    this.#lastRevision += 1;
    return this.#lastRevision;
  }
}

/** The list that is known, where it is the same, so that nothing is indexed again without need. */
function followsOf({ plugin, source }: PluginMatch, known: DesiredMount | undefined): DesiredMount['follows'] {
  // Asked again also for the same source: a driver's object may say something else by now.
  const follows = plugin.follows?.(source);
  return isDeepStrictEqual(follows, known?.follows) ? known?.follows : follows;
}

/** Whether the pod differs in something that the mount shows of it. */
function showsDifferently({ follows = [], pod: before }: DesiredMount, after: Pod): boolean {
  return follows.some(
    (follow) => 'pod' in follow && !isDeepStrictEqual(shownPart(before, follow.pod), shownPart(after, follow.pod)),
  );
}

function shownPart({ metadata, spec }: Pod, part: 'labels' | 'annotations' | 'resources'): unknown {
  if (part !== 'resources') return metadata[part] ?? {};
  return allContainers(spec).map((container) => ('resources' in container ? container.resources : undefined));
}

/** An object of the API that volumes show. */
export interface ObjectRef {
  readonly kind: string;
  /** Empty for kinds that have none. */
  readonly namespace: string;
  readonly name: string;
}

/** From an object to the mounts that follow it, so that a change of one costs as much as it has mounts. */
class ObjectIndex {
  readonly #mounts = new Map<string, Map<VolumeName, Set<PodUid>>>();

  add(mount: DesiredMount): void {
    const { volume, podUid } = mount;
    for (const key of followedKeys(mount)) {
      const users = this.#mounts.get(key) ?? new Map<VolumeName, Set<PodUid>>();
      this.#mounts.set(key, users.set(volume, (users.get(volume) ?? new Set()).add(podUid)));
    }
  }

  remove(mount: DesiredMount): void {
    const { volume, podUid } = mount;
    for (const key of followedKeys(mount)) {
      const users = this.#mounts.get(key);
      const pods = users?.get(volume);
      pods?.delete(podUid);
      if (pods?.size === 0) users?.delete(volume);
      if (users?.size === 0) this.#mounts.delete(key);
    }
  }

  /** A new list: callers change what is wanted while they go through it. */
  following({ kind, namespace, name }: ObjectRef): readonly MountId[] {
    const found = new Map<VolumeName, Set<PodUid>>();
    for (const key of [keyOf(kind, namespace, name), kind]) {
      for (const [volume, pods] of this.#mounts.get(key) ?? []) {
        found.set(volume, new Set([...(found.get(volume) ?? []), ...pods]));
      }
    }
    return [...found].flatMap(([volume, pods]) => [...pods].map((podUid) => ({ volume, podUid })));
  }
}

/** The kind alone stands for every object of it. */
function followedKeys({ follows = [], pod }: DesiredMount): readonly string[] {
  return follows.flatMap((follow) => {
    if (!('object' in follow)) return [];
    const { kind, name, isClusterWide = false } = follow.object;
    if (name === undefined) return [kind];
    return [keyOf(kind, isClusterWide ? '' : (pod.metadata.namespace ?? ''), name)];
  });
}

function keyOf(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`;
}

/** What a PersistentVolume or the status of a claim says it can hold; 0 where it says nothing. */
export function storageBytes(capacity: Readonly<Record<string, string | number>> | undefined): bigint {
  const storage = capacity?.['storage'];
  return storage === undefined ? 0n : Quantity.parse(storage).value();
}
