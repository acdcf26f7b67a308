/**
 * The volume manager: everything in this room, wired. The agent reports what has changed (a pod, an object, the node's
 * status) and pod workers wait for what they need.
 *
 * ```text
 *   podChanged ─▶ populator ─▶ desired state ◀── objectChanged, tokenDue
 *                                   │ touched
 *                              reconciler ─▶ operations ─▶ actual state ─▶ waits
 * ```
 */
import { onAbort } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import { runTask } from '../base/run-task.ts';
import { Timers } from '../base/timers.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { VolumePlugin } from '../plugins/plugin.ts';
import { ActualState } from './actual-state.ts';
import { attachVolume, detachVolume, verifyAttached } from './attach.ts';
import { DesiredState, type ObjectRef } from './desired-state.ts';
import { type BlockMapper, mapVolume, unmapDevice, unmapVolume } from './block.ts';
import { type ClaimWriter, ExpandInUse, NodeExpander } from './expand.ts';
import { mountOperation } from './mount.ts';
import type { NotifyVolumes } from './notices.ts';
import type {
  DeviceProbe,
  MountHolders,
  NodeReader,
  OperationDeps,
  OperationTable,
  SubPathCleaner,
} from './operation.ts';
import { Operations } from './operations.ts';
import { OrphanedPods, type PodsOnDisk } from './orphans.ts';
import type { PlanContext } from './plan.ts';
import { type ClaimSource, type PodSource, type PodStates, Populator } from './populator.ts';
import { VolumeQueries } from './queries.ts';
import { Reconciler } from './reconciler.ts';
import { Reconstruction } from './reconstruction.ts';
import { unmountDevice, unmountVolume } from './unmount.ts';
import { type MountId, type Plugins, type PodUid } from './volume-name.ts';
import { VolumeWaits } from './waits.ts';

export interface VolumeManagerDeps {
  readonly plugins: Plugins & { all(): Iterable<VolumePlugin> };
  readonly pods: PodSource;
  readonly states: PodStates;
  readonly claims: ClaimSource;
  readonly node: NodeReader;
  readonly subPaths: SubPathCleaner;
  readonly devices: DeviceProbe;
  readonly mountHolders: MountHolders;
  readonly clock: Clock;
  readonly notify: NotifyVolumes;
  /** The directories of pods: what an earlier process left there is found, and what is not needed is removed. */
  readonly podsOnDisk?: PodsOnDisk | undefined;
  /** Binds raw block devices for pods. */
  readonly blockMapper: BlockMapper;
  /** Records on claims that their volumes were grown. */
  readonly claimWriter: ClaimWriter;
}

export interface VolumeManagerSettings {
  /** The node's root directory. */
  readonly root: string;
  /** A controller attaches storage to this node. Without one, only what the node connects by itself can be mounted. */
  readonly controllerAttach: boolean;
  /** How often everything is planned and refreshed without a reason. */
  readonly sweepMs: number;
}

export class VolumeManager {
  readonly #deps: VolumeManagerDeps;
  readonly #settings: VolumeManagerSettings;
  readonly #timers: Timers;
  readonly #desired: DesiredState;
  readonly #actual: ActualState;
  readonly #operations: Operations;
  readonly #populator: Populator;
  readonly #reconciler: Reconciler;
  readonly #waits: VolumeWaits;
  readonly #reconstruction?: Reconstruction;
  readonly #orphans?: OrphanedPods;
  readonly queries: VolumeQueries;

  constructor(deps: VolumeManagerDeps, settings: VolumeManagerSettings) {
    this.#deps = deps;
    this.#settings = settings;
    const { clock, plugins, notify } = deps;
    const timers = new Timers(clock);
    const inUseChanged = (): void => deps.node.volumesInUseChanged?.();
    const now = (): number => clock.now();
    const desired = new DesiredState({ plugins, now, touched: (id) => this.#touched(id), inUseChanged });
    const actual = new ActualState(plugins, (podUid) => this.#mountsChanged(podUid), inUseChanged);
    const operations = new Operations(
      { clock, timers, freed: (volume) => this.#reconciler.touch(volume), notify, podOf: (uid) => deps.pods.pod(uid) },
      this.#table({ ...deps, root: settings.root, desired, actual, timers, now }),
    );
    const context = this.#planContext();
    this.#timers = timers;
    this.#desired = desired;
    this.#actual = actual;
    this.#operations = operations;
    this.#reconciler = new Reconciler({
      desired,
      actual,
      operations,
      context,
      timers,
      nodeName: deps.node.name,
      notify,
    });
    this.#populator = new Populator({
      ...deps,
      desired,
      actual,
      timers,
      resolved: (podUid) => this.#resolved(podUid),
      completed: () => this.#mayUnmountMore(),
    });
    this.queries = new VolumeQueries({ root: settings.root, desired, actual, operations, populator: this.#populator });
    this.#waits = new VolumeWaits({ desired, actual, timers, populator: this.#populator });
    if (deps.podsOnDisk === undefined) return;
    const found = { ...deps, ...settings, disk: deps.podsOnDisk, desired, actual, operations };
    this.#reconstruction = new Reconstruction({ ...found, populator: this.#populator });
    this.#orphans = new OrphanedPods(found);
  }

  /** Lives until the signal aborts; then stops what is going on and resolves when nothing of it is left. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#reconstruction?.scan(signal);
    this.#reconciler.touchAll();
    // Whatever ends first, by the signal or by a failure, takes the others with it; timers serve them to the last.
    const [stop, timers] = [new AbortController(), new AbortController()];
    const abort = (): void => stop.abort(signal.reason);
    const stopListening = onAbort(signal, abort);
    if (signal.aborted) abort();
    const ringing = this.#timers.run(timers.signal);
    const owned = (task: string, body: (ended: AbortSignal) => Promise<void>): Promise<void> =>
      runTask(task, body, this.#deps, stop.signal);
    const parts = [
      this.#populator.run(stop.signal),
      this.#reconciler.run(stop.signal),
      owned('the sweep of volumes', (ended) => this.#sweep(ended)),
    ];
    const [reconstruction, orphans] = [this.#reconstruction, this.#orphans];
    if (reconstruction !== undefined) {
      parts.push(
        owned('the status of volumes found', (ended) => reconstruction.run(() => this.#nodeStatusApplied(), ended)),
      );
    }
    if (orphans !== undefined) parts.push(owned('directories of pods that are gone', (ended) => orphans.run(ended)));
    try {
      await Promise.race([Promise.all(parts), ringing]);
    } finally {
      stopListening();
      stop.abort(signal.reason);
      await Promise.allSettled(parts);
      await this.#operations.close(stop.signal.reason);
      this.#waits.end();
      timers.abort();
      await ringing;
    }
  }

  // What has changed.

  /** A pod came, went, was changed, or its worker got further with it. */
  podChanged(podUid: PodUid): void {
    this.#populator.touch(podUid);
    this.#orphans?.touch(podUid);
  }

  /** A pod source was read to its end, or what runs was compared with what is wanted: it may be known now what has no owner. */
  sourcesChanged(): void {
    this.#populator.sourcesChanged();
    this.#mayUnmountMore();
  }

  /**
   * An object has changed, or exists at last. Exactly the mounts that show it are refreshed, at once, also those that
   * failed and would have to wait: this may be what they failed for.
   */
  objectChanged(object: ObjectRef, resourceVersion?: string): void {
    const seenAt = this.#deps.clock.now();
    for (const id of this.#desired.mountsFollowing(object)) {
      // What a pod reads that is about to end does not matter, and its objects often go with it.
      if (this.#deps.states.shouldContainersBeTerminating(id.podUid)) continue;
      this.#operations.retryNow(id);
      this.#desired.refresh(id, { object, resourceVersion, seenAt });
    }
  }

  /** The API server is back: what failed for lack of it need not wait. */
  retryNow(): void {
    this.#operations.retryAllNow();
    this.#populator.touchAll();
    this.#reconciler.touchAll();
  }

  /** A token of the pod is to be replaced. */
  tokenDue(podUid: PodUid): void {
    for (const mount of this.#desired.mountsOf(podUid)) {
      if (mount.follows?.some((follow) => 'token' in follow) === true) this.#desired.refresh(mount);
    }
  }

  /** The node's status was read: a controller may have attached what a pod waits for. */
  nodeChanged(): void {
    for (const { volume, isAttachable } of this.#desired.volumes()) {
      if (isAttachable && this.#actual.volume(volume) === undefined) this.#reconciler.touch(volume);
    }
  }

  // What pod workers wait for.

  /** Rejects with VolumesNotMountedError, or AttachLimitError when the pod can never start here. */
  waitForMounted(pod: Pod, signal: AbortSignal): Promise<void> {
    return this.#waits.untilMounted(pod, signal);
  }

  waitForUnmounted(pod: Pod, signal: AbortSignal): Promise<void> {
    return this.#waits.untilUnmounted(pod, signal);
  }

  waitForAllUnmounted(pods: readonly Pod[], signal: AbortSignal): Promise<void> {
    return this.#waits.untilAllUnmounted(pods, signal);
  }

  /** When nothing of the pod is mounted, and nothing may be. */
  waitForReleased(podUid: PodUid, signal: AbortSignal): Promise<void> {
    return this.#waits.untilReleased(podUid, signal);
  }

  waitForAllReleased(signal: AbortSignal): Promise<void> {
    return this.#waits.untilAllReleased(signal);
  }

  // What there is: see `queries`.

  /** The node's status, as the API server has it, lists exactly these. */
  markReportedInUse(volumes: Iterable<string>): void {
    this.#desired.markReportedInUse(new Set(volumes));
  }

  /** Until then the node's status keeps the list of volumes in use that it has. */
  areStatesSynced(): boolean {
    return this.#reconstruction?.isApplied() ?? true;
  }

  /** Something of the pod is mounted, or may be, by what is known here or by what is on disk. */
  podVolumesExist(podUid: PodUid): boolean {
    return this.#orphans?.podVolumesExist(podUid) ?? this.queries.hasPossiblyMounted(podUid);
  }

  /** How many operations run now. */
  get operationsRunning(): number {
    return this.#operations.running;
  }

  hasAddedPods(): boolean {
    return this.#populator.hasAddedPods;
  }

  #table(deps: OperationDeps): OperationTable {
    const { blockMapper, claimWriter } = this.#deps;
    const expander = new NodeExpander(deps, claimWriter);
    return {
      verify: verifyAttached(deps),
      attach: attachVolume(deps),
      mount: mountOperation(deps, expander),
      map: mapVolume(deps, blockMapper, expander),
      expand: new ExpandInUse(deps, expander),
      unmount: unmountVolume(deps),
      unmap: unmapVolume(deps, blockMapper),
      unmountDevice: unmountDevice(deps),
      unmapDevice: unmapDevice(deps, blockMapper),
      detach: detachVolume(deps),
    };
  }

  /** Its answers are live: plans are made from how things are when they are made. */
  #planContext(): PlanContext {
    const { plugins, node } = this.#deps;
    const mayUnmount = (): boolean => this.#populator.hasAddedPods && this.areStatesSynced();
    return {
      get mayUnmount() {
        return mayUnmount();
      },
      isUnresolved: (podUid) => this.#populator.isUnresolved(podUid),
      controllerAttach: this.#settings.controllerAttach,
      plugins,
      isListedAttached(volume) {
        const current = node.current();
        return current && (current.status?.volumesAttached?.some(({ name }) => name === volume) ?? false);
      },
    };
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#deps.clock.sleep(this.#settings.sweepMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      }
      this.#populator.sourcesChanged();
      await this.#reconciler.sweep(signal);
      this.#orphans?.touchAll();
    }
  }

  /** The status of the node is known to all that a restart found, so it may list what is in use. */
  #nodeStatusApplied(): void {
    this.#deps.node.volumesInUseChanged?.();
    this.#mayUnmountMore();
  }

  /** All pods are known, or all that a restart found: what had to wait for both may go on now. */
  #mayUnmountMore(): void {
    this.#reconciler.touchAll();
    this.#reconstruction?.cleanFailed();
    this.#orphans?.touchAll();
  }

  #touched({ volume, podUid }: MountId): void {
    this.#reconciler.touch(volume);
    this.#waits.check(podUid);
    // The last volume of a pod that has gone: its directory may go too, and not only at the next sweep.
    if (!this.#desired.hasPod(podUid)) this.#orphans?.touch(podUid);
  }

  #mountsChanged(podUid: PodUid): void {
    this.#populator.mountsChanged(podUid);
    this.#waits.check(podUid);
    this.#orphans?.touch(podUid);
  }

  #resolved(podUid: PodUid): void {
    for (const { volume } of this.#actual.possiblyMountedOf(podUid)) this.#reconciler.touch(volume);
    this.#waits.check(podUid);
    this.#reconstruction?.cleanFailed();
  }
}
