/**
 * Moves the actual state toward the desired state: for every volume that was touched it plans from the two states, never from what
 * touched it, and starts what was planned. A doubled or late touch plans nothing wrong, and one that was lost is made good
 * by the next sweep.
 */
import { AssertionError } from 'node:assert';
import { setImmediate } from 'node:timers/promises';
import { CoalescingQueue } from '../base/coalescing-queue.ts';
import type { Timers } from '../base/timers.ts';
import type { ActualState, ActualVolume } from './actual-state.ts';
import { detachedMessage } from './attach.ts';
import type { DesiredState, DesiredVolume } from './desired-state.ts';
import type { NotifyVolumes } from './notices.ts';
import type { Operations } from './operations.ts';
import { type PlanContext, type VolumeAction, planDevice, planMount } from './plan.ts';
import type { PodUid, VolumeName } from './volume-name.ts';

interface ReconcilerDeps {
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly operations: Pick<Operations, 'start' | 'isBusy' | 'forget'>;
  readonly timers: Pick<Timers, 'after'>;
  readonly context: PlanContext;
  readonly nodeName: string;
  readonly notify: NotifyVolumes;
}

/**
 * Most plugins write files synchronously. After so many starts everybody else has a turn: pod workers, the API server's
 * answers, an update that came in meanwhile.
 */
const startsPerTurn = 4;
/** Of a sweep so many volumes are queued at a time, so that an update has to wait for no more than these. */
const sweptAtOnce = 16;

/** Only a bug makes a plan fail, and the same states fail again: what may help is that they change. */
const retryMs = 10_000;

export class Reconciler {
  readonly #deps: ReconcilerDeps;
  readonly #queue = new CoalescingQueue<VolumeName>();
  /** Of a shared volume that several pods wait for: who was tried last. One that always fails must not starve the others. */
  readonly #lastTried = new Map<VolumeName, PodUid>();
  #starts = 0;

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
  }

  touch(volume: VolumeName): void {
    this.#queue.add(volume);
  }

  touchAll(): void {
    for (const { volume } of this.#deps.desired.volumes()) this.touch(volume);
    for (const { volume } of this.#deps.actual.volumes()) this.touch(volume);
  }

  async run(signal: AbortSignal): Promise<void> {
    for await (const volume of this.#queue.take(signal)) {
      this.#attempt(volume);
      if (this.#starts < startsPerTurn) continue;
      this.#starts = 0;
      await setImmediate();
    }
  }

  /** Plans everything again and refreshes content that may have changed on disk, or whose change was missed. */
  async sweep(signal: AbortSignal): Promise<void> {
    const { desired, actual } = this.#deps;
    const volumes = new Set([...desired.volumes(), ...actual.volumes()].map(({ volume }) => volume));
    let queued = 0;
    for (const volume of volumes) {
      if (signal.aborted) return;
      for (const mount of desired.volume(volume)?.mounts.values() ?? []) {
        if (mount.follows !== undefined && actual.mountState(mount) === 'mounted') desired.refresh(mount);
      }
      this.touch(volume);
      queued += 1;
      if (queued % sweptAtOnce === 0) await this.#queue.drained();
    }
  }

  /** A volume that cannot be planned costs the others nothing. A broken invariant concerns them all and ends the process. */
  #attempt(volume: VolumeName): void {
    try {
      this.plan(volume);
    } catch (error) {
      if (error instanceof AssertionError) throw error;
      this.#deps.notify({ kind: 'TaskFailed', task: `volume ${volume}`, error, retryMs });
      this.#deps.timers.after(retryMs, () => this.touch(volume));
    }
  }

  /** What can be done with this volume now is started. */
  plan(volume: VolumeName): void {
    const { desired, actual, operations, context } = this.#deps;
    const wanted = desired.volume(volume);
    const present = actual.volume(volume);
    if (wanted === undefined && present === undefined) {
      this.#lastTried.delete(volume);
      return operations.forget(volume);
    }
    const planned: VolumeAction[] = [];
    // Unmounts first: storage that moves to another pod is released before that pod gets it.
    for (const podUid of present?.mounts.keys() ?? []) {
      if (wanted?.mounts.has(podUid) === true) continue;
      this.#start(planMount(podUid, wanted, present, context), planned);
    }
    if (wanted !== undefined) this.#planWanted(wanted, present, planned);
    else if (present !== undefined && !operations.isBusy(volume)) {
      this.#start(planDevice(wanted, present, context), planned);
    }
    // Nothing is left to do, so what failed before matters no more.
    if (planned.length === 0 && !operations.isBusy(volume)) operations.forget(volume);
  }

  #planWanted(wanted: DesiredVolume, present: ActualVolume | undefined, planned: VolumeAction[]): void {
    const { operations, context } = this.#deps;
    const { volume, mounts } = wanted;
    for (const podUid of mounts.size === 1 ? mounts.keys() : this.#inTurn(wanted)) {
      if (operations.isBusy(volume)) return;
      const action = planMount(podUid, wanted, present, context);
      const isMount = action?.kind === 'mount' || action?.kind === 'map';
      if (this.#start(action, planned) && isMount && mounts.size > 1) this.#lastTried.set(volume, podUid);
    }
  }

  #inTurn({ volume, mounts }: DesiredVolume): readonly PodUid[] {
    const pods = [...mounts.keys()];
    const last = this.#lastTried.get(volume);
    const next = last === undefined ? 0 : pods.indexOf(last) + 1;
    return [...pods.slice(next), ...pods.slice(0, next)];
  }

  #start(action: VolumeAction | undefined, planned: VolumeAction[]): boolean {
    if (action === undefined) return false;
    planned.push(action);
    if (action.kind === 'drop') {
      this.#drop(action.volume);
      return false;
    }
    const isStarted = this.#deps.operations.start(action) === 'started';
    if (isStarted) this.#starts += 1;
    return isStarted;
  }

  #drop(present: ActualVolume): void {
    const { actual, operations, notify, nodeName } = this.#deps;
    actual.remove(present.volume);
    operations.forget(present.volume);
    notify({ kind: 'VolumeDetached', volume: present.volume, message: detachedMessage(present, nodeName) });
  }
}
