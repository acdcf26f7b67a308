/**
 * Keeps the desired state equal to the pods: adds the volumes of pods that may start containers and removes those of pods
 * whose containers are gone. It decides about one pod at a time, when something about that pod has changed; two decisions
 * about one pod never overlap, and a claim that is read slowly holds up its own pod alone.
 *
 * ```text
 *              first attempt                        all volumes were resolved
 *   unseen ───────────────────▶ unseen, some failed ────────────────────────▶ done
 *     ▲                           └─ tried again soon                         │  ▲
 *     │                                                             reprocess │  │ tried once, whether it
 *     └─────────────── its volumes were removed ──────────────────────────────┴──▶ due   succeeds or not
 * ```
 */
import { setImmediate } from 'node:timers/promises';
import { KeyedBackOff } from '../base/back-off.ts';
import { CoalescingQueue } from '../base/coalescing-queue.ts';
import { messageOf, OperatingError } from '../base/errors.ts';
import { Semaphore } from '../base/semaphore.ts';
import type { Timers } from '../base/timers.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { usedVolumes } from '../kube/references/pod-references.ts';
import {
  type VolumeSpec,
  type VolumeUse,
  boundClaim,
  claimNameOf,
  inlineSpecOf,
  processingFailed,
  specOfClaim,
} from '../kube/references/volume-spec.ts';
import type { ActualState } from './actual-state.ts';
import { type DesiredMount, type DesiredState, storageBytes } from './desired-state.ts';
import { type NotifyVolumes, podRef } from './notices.ts';
import { type PodUid, type VolumeName, canAttach, podUidOf } from './volume-name.ts';

interface PopulatorDeps {
  readonly pods: PodSource;
  readonly states: PodStates;
  readonly claims: ClaimSource;
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly timers: Timers;
  readonly notify: NotifyVolumes;
  /** A pod's volumes were looked through: those who wait for the pod may find an error, or their volumes. */
  readonly resolved: (podUid: PodUid) => void;
  /** Every pod that the sources had was looked at: what is unwanted now may be unmounted. */
  readonly completed: () => void;
}

/** Claims are read live, two requests each; more at once would only queue in front of the API server. */
const claimReadersMax = 16;
/** A pod that no worker waits for yet: the kubelet's pause at first, and then less often than a pod's own sync. */
const retries = { firstMs: 100, msMax: 10_000 };
/** Pods without claims cost microseconds; other work gets its turn between so many of them. */
const podsPerTurn = 32;

interface Work {
  again: boolean;
  done: Promise<void>;
}

export class Populator {
  readonly #deps: PopulatorDeps;
  readonly #queue = new CoalescingQueue<PodUid | typeof readiness>();
  readonly #work = new Map<PodUid, Work>();
  readonly #claimReaders = new Semaphore(claimReadersMax);
  readonly #resolved = new Map<PodUid, 'due' | 'done'>();
  readonly #retries = new KeyedBackOff<PodUid>(retries);
  readonly #unresolved = new Set<PodUid>();
  readonly #resolutions = new Map<PodUid, ReadonlyMap<string, Resolution>>();
  /** Finished, still known, and never mounted: they stay wanted until they were, as the kubelet has it. */
  readonly #finished = new Set<PodUid>();
  #hasAddedPods = false;
  #completion: Promise<void> | undefined;

  constructor(deps: PopulatorDeps) {
    this.#deps = deps;
  }

  /** Never goes back to false. */
  get hasAddedPods(): boolean {
    return this.#hasAddedPods;
  }

  /** Some volume of the pod is not known, so an unwanted mount of it may be that one. */
  isUnresolved(podUid: PodUid): boolean {
    return this.#unresolved.has(podUid);
  }

  /** How the pod's volumes were resolved last, by the pod's words for them. */
  resolutionsOf(podUid: PodUid): ReadonlyMap<string, Resolution> {
    return this.#resolutions.get(podUid) ?? new Map();
  }

  /** The pod came, went, was changed, or got further. */
  touch(podUid: PodUid): void {
    this.#queue.add(podUid);
  }

  /** The pod's mounts have changed. */
  mountsChanged(podUid: PodUid): void {
    if (this.#finished.has(podUid)) this.touch(podUid);
  }

  /** Looks through the pod's volumes again and has their content written again. */
  reprocess(podUid: PodUid): void {
    this.#resolved.set(podUid, 'due');
    this.touch(podUid);
  }

  /** Everything is looked at again; also without a report of a change. */
  touchAll(): void {
    for (const pod of this.#deps.pods.pods()) this.touch(podUidOf(pod));
    for (const podUid of this.#deps.desired.pods()) this.touch(podUid);
    for (const podUid of this.#resolved.keys()) this.touch(podUid);
    for (const podUid of this.#deps.desired.podsWithErrors()) this.touch(podUid);
  }

  /** The pod sources may be complete now. */
  sourcesChanged(): void {
    this.touchAll();
    // Also where there is no pod at all.
    this.#queue.add(readiness);
  }

  async run(signal: AbortSignal): Promise<void> {
    this.sourcesChanged();
    await this.#take(signal);
    await Promise.all([this.#completion, ...[...this.#work.values()].map(({ done }) => done)]);
  }

  async #take(signal: AbortSignal): Promise<void> {
    let inTurn = 0;
    for await (const podUid of this.#queue.take(signal)) {
      if (podUid !== readiness) void this.#process(podUid, signal);
      this.#completeSoon(signal);
      inTurn += 1;
      if (inTurn % podsPerTurn === 0) await setImmediate();
    }
  }

  /** As soon as all sources are ready, one look at every pod that they have then; whatever is looked at later is news. */
  #completeSoon(signal: AbortSignal): void {
    if (this.#completion !== undefined || !this.#deps.pods.areSourcesReady()) return;
    this.#completion = this.#complete([...this.#deps.pods.pods()], signal);
  }

  async #complete(pods: readonly Pod[], signal: AbortSignal): Promise<void> {
    const looking: Promise<void>[] = [];
    for (const [index, pod] of pods.entries()) {
      looking.push(this.#process(podUidOf(pod), signal));
      if (index % podsPerTurn === podsPerTurn - 1) await setImmediate();
    }
    await Promise.all(looking);
    if (signal.aborted) return;
    this.#hasAddedPods = true;
    this.#deps.notify({ kind: 'DesiredStateComplete' });
    this.#deps.completed();
  }

  #process(podUid: PodUid, signal: AbortSignal): Promise<void> {
    const running = this.#work.get(podUid);
    if (running !== undefined) {
      running.again = true;
      return running.done;
    }
    const work: Work = { again: true, done: Promise.resolve() };
    this.#work.set(podUid, work);
    work.done = this.#repeat(podUid, work, signal).catch((error: unknown) => {
      // Only a bug gets here. It costs this pod alone.
      this.#work.delete(podUid);
      const retryMs = this.#failed(podUid, false);
      this.#deps.notify({ kind: 'TaskFailed', task: `volumes of pod ${podUid}`, error, retryMs });
    });
    return work.done;
  }

  async #repeat(podUid: PodUid, work: Work, signal: AbortSignal): Promise<void> {
    while (work.again && !signal.aborted) {
      work.again = false;
      const pod = this.#deps.pods.pod(podUid);
      if (pod !== undefined && this.#mayAdd(podUid)) await this.#add(pod, signal);
      if (!signal.aborted) this.#removeGone(podUid);
    }
    this.#work.delete(podUid);
  }

  /** Right after a start the containers of a terminating pod may still run: its volumes are in use. */
  #mayAdd(podUid: PodUid): boolean {
    const { states } = this.#deps;
    if (this.#hasAddedPods) return !states.shouldContainersBeTerminating(podUid);
    return !states.shouldRuntimeBeRemoved(podUid);
  }

  async #add(pod: Pod, signal: AbortSignal): Promise<void> {
    const { desired, resolved } = this.#deps;
    const podUid = podUidOf(pod);
    const before = this.#resolved.get(podUid);
    if (before === 'done') return desired.updatePod(pod);
    // Asked for again while this goes on, it is looked through again.
    if (before === 'due') this.#resolved.set(podUid, 'done');
    const succeeded = await this.#addVolumes(pod, signal);
    if (signal.aborted) return;
    if (succeeded) this.#succeeded(podUid);
    else this.#failed(podUid, before !== undefined);
    resolved(podUid);
  }

  #succeeded(podUid: PodUid): void {
    const { desired, actual } = this.#deps;
    if (!this.#resolved.has(podUid)) this.#resolved.set(podUid, 'done');
    this.#unresolved.delete(podUid);
    this.#retries.reset(podUid);
    desired.popErrors(podUid);
    for (const mount of desired.mountsOf(podUid)) {
      if (mount.follows !== undefined && actual.mount(mount) !== undefined) desired.refresh(mount);
    }
  }

  /** A pod that a worker waits for is tried again when the worker asks again; any other, after a while. */
  #failed(podUid: PodUid, wasSeen: boolean): number {
    this.#unresolved.add(podUid);
    if (wasSeen) return 0;
    const retryMs = this.#retries.next(podUid);
    this.#deps.timers.after(retryMs, () => this.touch(podUid));
    return retryMs;
  }

  async #addVolumes(pod: Pod, signal: AbortSignal): Promise<boolean> {
    const { desired, notify } = this.#deps;
    const used = usedVolumes(pod);
    const errors: string[] = [];
    const resolutions = new Map<string, Resolution>();
    for (const volume of pod.spec.volumes ?? []) {
      const { name } = volume;
      const use = { mounted: used.mounted.has(name), asDevice: used.devices.has(name) };
      if (!use.mounted && !use.asDevice) continue;
      const seen = (claim: PersistentVolumeClaim | undefined): void =>
        void resolutions.set(name, { claimPhase: claim?.status?.phase });
      try {
        const resolved = resolveInline(pod, volume) ?? (await this.#readClaim(pod, volume, use, seen, signal));
        const unique = desired.want({ pod, spec: resolved.spec, podVolumeName: name, gid: resolved.gid });
        this.#noteSize(unique, resolved);
      } catch (error) {
        if (signal.aborted) return false;
        // Whatever a manifest brings about costs its own pod: nothing here may end the node.
        const message = messageOf(error);
        errors.push(message);
        resolutions.set(name, { ...resolutions.get(name), message });
        notify({ kind: 'VolumeNotProcessed', pod: podRef(pod), podVolumeName: name, message });
      }
    }
    this.#resolutions.set(podUidOf(pod), resolutions);
    // All at once: the worker reads everything that is wrong, not the first thing only.
    for (const message of errors) desired.addError(podUidOf(pod), message);
    return errors.length === 0;
  }

  async #readClaim(
    pod: Pod,
    volume: Volume,
    use: VolumeUse,
    seen: (claim: PersistentVolumeClaim | undefined) => void,
    signal: AbortSignal,
  ): Promise<ResolvedVolume> {
    const release = await this.#claimReaders.acquire(signal);
    try {
      return await resolveClaim(pod, volume, use, this.#deps.claims, seen, signal);
    } finally {
      release();
    }
  }

  /** A volume that grew is grown on the node too, unless this pod may not write to it. */
  #noteSize(volume: VolumeName, { spec, claim }: ResolvedVolume): void {
    if (spec.persistentVolume === undefined || claim === undefined || spec.readOnly) return;
    const claimedBytes = storageBytes(claim.status?.capacity);
    this.#deps.desired.setSize(volume, storageBytes(spec.persistentVolume.spec.capacity), claimedBytes);
    this.#deps.actual.initializeSize(volume, claimedBytes);
  }

  #removeGone(podUid: PodUid): void {
    const { pods, states, desired, actual, resolved } = this.#deps;
    const exists = pods.pod(podUid) !== undefined;
    const isOver = states.shouldRuntimeBeRemoved(podUid);
    this.#finished.delete(podUid);
    for (const mount of desired.mountsOf(podUid)) {
      if (exists && this.#noLongerAttachable(mount)) desired.setAttachable(mount.volume, false);
      else if (!isOver) continue;
      else if (exists && actual.mount(mount) === undefined) this.#finished.add(podUid);
      else {
        desired.forget(mount);
        this.#resolved.delete(podUid);
      }
    }
    // Nothing of the pod runs, so nothing of what it has mounted is in use.
    if (isOver && this.#unresolved.delete(podUid)) resolved(podUid);
    if (exists) return;
    desired.popErrors(podUid);
    this.#resolutions.delete(podUid);
    if (!isOver || desired.hasPod(podUid)) return;
    this.#resolved.delete(podUid);
    this.#retries.reset(podUid);
  }

  #noLongerAttachable(mount: DesiredMount): boolean {
    return this.#deps.desired.volume(mount.volume)?.isAttachable === true && !canAttach(mount, mount.spec);
  }
}

/** Stands in the queue for a check whether all sources are ready. */
const readiness = Symbol('readiness of the pod sources');

/** Which pods there are and how far they have got: what the populator asks of the pod workers. */
export interface PodSource {
  pods(): Iterable<Pod>;
  pod(uid: PodUid): Pod | undefined;
  /** Every source of pods was read in full at least once. Never goes back. */
  areSourcesReady(): boolean;
}

export interface PodStates {
  /** No container of the pod can start any more. Of a pod that is not known: true once pods have been synced. */
  shouldContainersBeTerminating(uid: PodUid): boolean;
  /** No container of the pod runs any more. Of a pod that is not known: true once pods have been synced. */
  shouldRuntimeBeRemoved(uid: PodUid): boolean;
}

/**
 * Where claims and PersistentVolumes are read, without a cache: a claim that was bound a moment ago counts as bound. The rules
 * about what was read are in kube/references/volume-spec.ts. Both must give up by themselves: until every pod was looked at
 * once, nothing on the node is unmounted.
 */
export interface ClaimSource {
  /** Undefined when there is none; rejects when that cannot be found out. */
  claim(namespace: string, name: string, signal: AbortSignal): Promise<PersistentVolumeClaim | undefined>;
  persistentVolume(name: string, signal: AbortSignal): Promise<PersistentVolume | undefined>;
}

/** What is known of a volume that had to be looked up. */
export interface Resolution {
  readonly claimPhase?: string | undefined;
  /** Why it could not be resolved. */
  readonly message?: string;
}

interface ResolvedVolume {
  readonly spec: VolumeSpec;
  /** The group that the PersistentVolume gives the pods that use it, or the empty string. */
  readonly gid: string;
  readonly claim?: PersistentVolumeClaim;
}

/** A volume that is written out in the pod, which needs no reading; undefined for one behind a claim. */
function resolveInline(pod: Pod, volume: Volume): ResolvedVolume | undefined {
  if (claimNameOf(pod, volume) !== undefined) return undefined;
  return { spec: inlineSpecOf(volume, pod.metadata.namespace ?? ''), gid: '' };
}

async function resolveClaim(
  pod: Pod,
  volume: Volume,
  use: VolumeUse,
  source: ClaimSource,
  seen: (claim: PersistentVolumeClaim | undefined) => void,
  signal: AbortSignal,
): Promise<ResolvedVolume> {
  const { namespace = '' } = pod.metadata;
  const read = async <T>(what: string, reading: Promise<T>): Promise<T> => {
    try {
      return await reading;
    } catch (cause) {
      signal.throwIfAborted();
      const why = `failed to fetch ${what} from API server: ${messageOf(cause)}`;
      throw new OperatingError('FailedMount', processingFailed(pod, volume, why), { cause });
    }
  };
  const claimName = claimNameOf(pod, volume) ?? '';
  const claim = await read('PVC', source.claim(namespace, claimName, signal));
  seen(claim);
  const bound = boundClaim(pod, volume, claim);
  const found = await read(`PV ${bound.volumeName}`, source.persistentVolume(bound.volumeName, signal));
  const spec = specOfClaim(pod, volume, use, bound, found);
  const gid = spec.persistentVolume.metadata.annotations?.['pv.beta.kubernetes.io/gid'] ?? '';
  return { spec, gid, claim: bound.claim };
}
