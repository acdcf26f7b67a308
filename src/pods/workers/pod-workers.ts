/**
 * One worker for each pod UID: its steps run one after another, those of different pods side by side. Every update only
 * changes what is to be done next; the worker takes the newest when it is free. What the steps do is not known here.
 */
import { jittered } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type TaskFailed, runTask } from '../../base/run-task.ts';
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import { isStaticPod, podFullName, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { effectiveGrace } from './grace-period.ts';
import { type PodRecord, type PodState, type PodWork, isOver, newRecord } from './pod-record.ts';
import { PodStates } from './pod-states.ts';
import type { PodSteps } from './pod-steps.ts';
import { type RequeueSettings, type StepOutcome, requeueDelayMs } from './requeue-delay.ts';
import { StaticPodTurns } from './static-pod-turns.ts';

interface PodWorkersDeps {
  readonly steps: PodSteps;
  readonly runtime: { get(podUid: string, signal: AbortSignal): Promise<RuntimePod | undefined> };
  /** The pod as its source has it now; undefined when no source has it any more. */
  readonly newest: (podUid: string) => Pod | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly events: EventSink;
  readonly notify: (notice: PodStepFailed | TaskFailed) => void;
  /** A pod passed from one state to the next; undefined: it has finished, and nothing is known of it any more. */
  readonly moved: (uid: string, state: PodState | undefined) => void;
}

export interface PodStepFailed {
  readonly kind: 'PodStepFailed';
  readonly podUid: string;
  readonly fullName: string;
  readonly state: PodState;
  readonly message: string;
}

export interface PodWorkerState {
  readonly state: PodState;
  /** No longer wanted by any source. */
  readonly isOrphan: boolean;
}

export class PodWorkers {
  readonly #deps: PodWorkersDeps;
  readonly #settings: RequeueSettings;
  readonly #signal: AbortSignal;
  readonly states = new PodStates();
  readonly #workers = new Map<string, Promise<void>>();
  readonly #turns = new StaticPodTurns();

  constructor(deps: PodWorkersDeps, settings: RequeueSettings, signal: AbortSignal) {
    this.#deps = deps;
    this.#settings = settings;
    this.#signal = signal;
  }

  update(work: PodWork): void {
    const uid = work.pod === undefined ? work.runtimePod?.uid : podUid(work.pod);
    if (uid === undefined || this.#signal.aborted) return;
    // Who knows nothing but what runs can do nothing but end it.
    if (work.pod === undefined && work.kind !== 'kill') return;
    let record = this.states.get(uid);
    const isFirst = record === undefined;
    if (record === undefined) {
      record = newRecord(uid, fullNameOf(work));
      record.seenTerminal = isTerminalPhase(work.pod?.status?.phase);
      this.states.add(record);
    }
    const known = work.pod ?? record.pending?.pod ?? record.active?.pod;
    if (!isFirst && record.state !== 'syncing' && work.kind === 'create') {
      record.isRestartRequested = true;
      return;
    }
    if (record.state === 'finished') return;
    if (record.state === 'terminated' && work.pod === undefined) return;
    const becameTerminating = record.state === 'syncing' && this.#shouldTerminate(record, work);
    if (becameTerminating) this.#move(record, 'terminating');
    let shortened = false;
    if (record.state === 'terminating') {
      const grace = effectiveGrace(record.graceSeconds, known, work.graceSeconds);
      record.graceSeconds = grace.seconds;
      shortened = grace.shortened;
      record.eviction ??= work.eviction;
    }
    record.isRuntimeOnly = known === undefined;
    record.pending = { ...work, pod: known };
    this.#start(record, known);
    if (becameTerminating || shortened) record.cancel?.abort(new Error('The pod has to end'));
    record.wakeUp.wake();
  }

  /** Looks at a pod again though nothing is new about it. Unknown and finished pods are left alone. */
  sync(uid: string): void {
    const record = this.states.get(uid);
    const pod = record?.pending?.pod ?? record?.active?.pod;
    if (record === undefined || record.state === 'finished' || record.pending !== undefined || pod === undefined)
      return;
    record.pending = { kind: 'sync', pod };
    record.wakeUp.wake();
  }

  /** A container of this pod started or ended. False: there is no worker that could look at it. */
  containersChanged(uid: string): boolean {
    const record = this.states.get(uid);
    if (record === undefined || record.state === 'finished') return false;
    this.sync(uid);
    // Cleaning up waits for what a container that started late may hold.
    if (record.state === 'terminated') record.cancel?.abort(new Error('A container changed'));
    return true;
  }

  /**
   * Compares with all pods that are wanted: forgets those that have finished and are not, ends those that run and are not.
   * Answers what is left.
   */
  retain(wanted: ReadonlySet<string>): ReadonlyMap<string, PodWorkerState> {
    this.states.markSynced();
    const left = new Map<string, PodWorkerState>();
    for (const record of this.states.records()) {
      const isOrphan = !wanted.has(record.uid);
      if ((isOrphan || record.isRestartRequested) && this.#forget(record, isOrphan)) continue;
      left.set(record.uid, { state: record.state, isOrphan });
    }
    return left;
  }

  /** Resolves when no worker is left: after the signal aborted, or when every pod has finished. */
  async settled(): Promise<void> {
    while (this.#workers.size > 0) await Promise.all(this.#workers.values());
  }

  #shouldTerminate(record: PodRecord, { kind, pod, eviction }: PodWork): boolean {
    if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) {
      record.isDeleted = true;
      return true;
    }
    if (isTerminalPhase(pod.status?.phase)) return true;
    if (kind !== 'kill') return false;
    record.eviction = eviction;
    return true;
  }

  #start(record: PodRecord, pod: Pod | undefined): void {
    if (this.#workers.has(record.uid)) return;
    if (pod !== undefined && isStaticPod(pod)) this.#turns.wait(record.fullName, record.uid);
    const work = (): Promise<void> => this.#work(record);
    const worker = runTask(`pod ${record.fullName}`, work, this.#deps, this.#signal).finally(() =>
      this.#workers.delete(record.uid),
    );
    this.#workers.set(record.uid, worker);
  }

  async #work(record: PodRecord): Promise<void> {
    // Begun again after a failure: what it was about is not lost.
    if (record.active !== undefined) record.pending ??= { ...record.active, kind: 'sync' };
    while (record.state !== 'finished') {
      const work = await this.#next(record);
      if (work === undefined) return;
      if (!record.isStarted && !this.#mayStart(record, work)) continue;
      record.isStarted = true;
      record.active = work;
      const outcome = await this.#step(record, work);
      if (this.#signal.aborted) return;
      if (outcome === undefined) continue;
      const delay = requeueDelayMs(outcome, this.#settings, this.#deps.clock.now(), this.#deps.random);
      record.dueAtMs = this.#deps.clock.now() + delay;
    }
  }

  /** The newest work, or the last one again when its time has come; undefined when this program ends. */
  async #next(record: PodRecord): Promise<PodWork | undefined> {
    const { clock } = this.#deps;
    while (!this.#signal.aborted && record.state !== 'finished') {
      const isDue = record.dueAtMs !== undefined && clock.now() >= record.dueAtMs;
      const isWaitingForTurn = !record.isStarted && record.dueAtMs !== undefined && record.state === 'syncing';
      if (record.pending !== undefined && (isDue || !isWaitingForTurn)) {
        const work = record.pending;
        record.pending = undefined;
        record.dueAtMs = undefined;
        return work;
      }
      if (isDue && record.active !== undefined) {
        record.dueAtMs = undefined;
        return { ...record.active, kind: 'sync' };
      }
      const delayMs = record.dueAtMs === undefined ? Infinity : Math.max(record.dueAtMs - clock.now(), 0);
      await record.wakeUp.sleep(delayMs, clock, this.#signal);
    }
    return undefined;
  }

  #mayStart(record: PodRecord, work: PodWork): boolean {
    const { pod } = work;
    if (pod === undefined || !isStaticPod(pod)) return true;
    if (record.state !== 'syncing') {
      // It waited for its turn until it was no longer wanted.
      this.#finish(record);
      return false;
    }
    if (this.#turns.take(record.fullName, record.uid, (uid) => this.states.stateOf(uid) === 'syncing')) return true;
    record.pending ??= work;
    record.dueAtMs = this.#deps.clock.now() + jittered(this.#settings.retryMs, 0.5, this.#deps.random);
    return false;
  }

  /** Undefined: it was interrupted, or is over; in both cases nothing has to be waited for. */
  async #step(record: PodRecord, work: PodWork): Promise<StepOutcome | undefined> {
    record.cancel = new AbortController();
    const signal = AbortSignal.any([this.#signal, record.cancel.signal]);
    const { state } = record;
    if (state === 'terminating') record.hasBegunTerminating = true;
    try {
      return await this.#act(record, work, signal);
    } catch (error) {
      if (signal.aborted) return record.pending === undefined ? { kind: 'movedOn' } : undefined;
      const { uid, fullName } = record;
      this.#deps.notify({ kind: 'PodStepFailed', podUid: uid, fullName, state, message: messageOf(error) });
      return { kind: 'failed', error };
    } finally {
      record.cancel = undefined;
    }
  }

  async #act(record: PodRecord, work: PodWork, signal: AbortSignal): Promise<StepOutcome | undefined> {
    const { steps, newest } = this.#deps;
    const orphan = work.runtimePod;
    const pod = work.pod && (newest(record.uid) ?? work.pod);
    if (pod === undefined) {
      if (orphan !== undefined) await steps.terminateOrphan(orphan, record.graceSeconds ?? 0, signal);
      this.#finish(record);
      this.#drop(record);
      return undefined;
    }
    const runtimePod = await this.#runtimePod(record, pod, signal);
    if (record.seenTerminal && isOver(runtimePod)) {
      record.hasBegunTerminating = true;
      if (record.state === 'terminating') this.#move(record, 'terminated');
    }
    record.seenTerminal = false;
    switch (record.state) {
      case 'syncing': {
        const { terminal, againAtMs } = await steps.sync(pod, runtimePod, signal);
        if (!terminal) return { kind: 'done', againAtMs };
        if (record.state === 'syncing') {
          record.graceSeconds = effectiveGrace(record.graceSeconds, pod, undefined).seconds;
          record.hasBegunTerminating = true;
          this.#move(record, 'terminating');
        }
        return { kind: 'movedOn' };
      }
      case 'terminating': {
        const { graceSeconds = 0, eviction } = record;
        await steps.terminate(pod, runtimePod, { graceSeconds, eviction }, signal);
        this.#move(record, 'terminated');
        return { kind: 'movedOn' };
      }
      case 'terminated':
        if (runtimePod?.containers.some(({ state }) => state.kind === 'running') === true) {
          // It started after the pod had ended, and would hold what is to be cleaned up.
          await steps.terminate(pod, runtimePod, { graceSeconds: 0, eviction: record.eviction }, signal);
          await steps.cleanUp(pod, await this.#runtimePod(record, pod, signal), signal);
        } else await steps.cleanUp(pod, runtimePod, signal);
        this.#finish(record);
        return undefined;
      case 'finished':
        return undefined;
    }
  }

  async #runtimePod(record: PodRecord, pod: Pod, signal: AbortSignal): Promise<RuntimePod | undefined> {
    try {
      return await this.#deps.runtime.get(record.uid, signal);
    } catch (error) {
      signal.throwIfAborted();
      const message = `error determining status: ${messageOf(error)}`;
      this.#deps.events.record({ pod, type: 'Warning', reason: 'FailedSync', message });
      throw error;
    }
  }

  #forget(record: PodRecord, isOrphan: boolean): boolean {
    if (record.state !== 'finished') {
      if (!isOrphan) return false;
      record.isDeleted = true;
      if (record.isStarted || record.isRuntimeOnly) {
        if (record.state === 'syncing') {
          record.graceSeconds = effectiveGrace(record.graceSeconds, record.active?.pod, undefined).seconds;
          this.#move(record, 'terminating');
          record.pending ??= record.active;
          record.cancel?.abort(new Error('The pod is no longer wanted'));
          record.wakeUp.wake();
        }
        return false;
      }
      record.state = 'finished';
      record.wakeUp.wake();
    }
    this.#drop(record);
    this.#release(record);
    return true;
  }

  #finish(record: PodRecord): void {
    this.#move(record, 'finished');
    this.#release(record);
  }

  #release(record: PodRecord): void {
    for (const uid of this.#turns.release(record.fullName, record.uid)) {
      const next = this.states.get(uid);
      if (next === undefined) continue;
      next.dueAtMs = next.dueAtMs === undefined ? undefined : this.#deps.clock.now();
      next.wakeUp.wake();
    }
  }

  #drop(record: PodRecord): void {
    this.states.remove(record);
    this.#deps.moved(record.uid, undefined);
  }

  #move(record: PodRecord, state: PodState): void {
    record.state = state;
    this.#deps.moved(record.uid, state);
  }
}

function fullNameOf({ pod, runtimePod }: PodWork): string {
  return pod === undefined ? `${runtimePod?.name}_${runtimePod?.namespace}` : podFullName(pod);
}
