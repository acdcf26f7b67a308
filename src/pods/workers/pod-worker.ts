/**
 * The worker of one pod: runs its steps one after another, always with the newest that is known of the pod, and repeats a step
 * that failed. What the steps do is not known here. The state never goes back:
 *
 *   syncing ──(deleted, ended, killed, orphaned)──▶ terminating ──(no container runs)──▶ terminated ──(cleaned up)──▶ finished
 */
import { jittered } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { isStaticPod, podFullName } from '../../kube/kinds/pod/pod-identity.ts';
import { isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { ContainerStartError, ReportedError } from '../containers/start-errors.ts';
import type { Eviction } from '../status/pod-status.ts';

export type PodState = 'syncing' | 'terminating' | 'terminated' | 'finished';

export interface PodWork {
  readonly kind: 'create' | 'update' | 'sync' | 'kill';
  /** Undefined for a pod that only the runtime knows. */
  readonly pod: Pod | undefined;
  readonly runtimePod?: RuntimePod | undefined;
  readonly graceSeconds?: number | undefined;
  readonly eviction?: Eviction | undefined;
}

/** How a pod ends. */
interface Ending {
  readonly graceSeconds: number;
  readonly eviction: Eviction | undefined;
}

/** Each step may be repeated, and stops when its signal aborts. */
export interface PodSteps {
  /** Moves the pod toward what is wanted. True: everything has ended for good, and the pod is not synced again. */
  sync(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<boolean>;
  /** When to sync again at the latest, whatever the last sync came to: at the pod's deadline. */
  deadlineMs(pod: Pod): number | undefined;
  /** Ends every container. */
  terminate(pod: Pod, runtimePod: RuntimePod | undefined, ending: Ending, signal: AbortSignal): Promise<void>;
  /** Ends a pod that only the runtime knows. */
  terminateOrphan(runtimePod: RuntimePod, graceSeconds: number, signal: AbortSignal): Promise<void>;
  /** Releases what the pod had on this node. No container runs any more. */
  cleanUp(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<void>;
}

export interface PodStepFailed {
  readonly kind: 'PodStepFailed';
  readonly podUid: string;
  readonly fullName: string;
  readonly state: PodState;
  readonly message: string;
  /** An Event of the pod says the same. */
  readonly hasEvent: boolean;
}

export interface PodWorkerDeps {
  readonly steps: PodSteps;
  readonly runtime: { get(podUid: string, signal: AbortSignal): Promise<RuntimePod | undefined> };
  /** The pod as its source has it now; undefined when no source has it any more. */
  readonly newest: (podUid: string) => Pod | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly events: EventSink;
  readonly notify: (notice: PodStepFailed) => void;
}

/** What a worker needs of the workers of other pods. */
interface PodWorkerOwner {
  readonly moved: (worker: PodWorker) => void;
  readonly forget: (worker: PodWorker) => void;
  /** Static pods of one name run one at a time. False: it is not this pod's turn yet. */
  readonly takeTurn: (worker: PodWorker) => boolean;
}

export class PodWorker {
  readonly uid: string;
  readonly fullName: string;
  state: PodState = 'syncing';
  /** The terminating step was begun, so nothing is started any more. */
  hasBegunTerminating = false;
  /** A pod with this UID was added again after this one had to end. */
  isRestartRequested = false;
  /** What the runtime had of the pod when its status was computed last. */
  seen: RuntimePod | undefined;
  readonly #deps: PodWorkerDeps;
  readonly #owner: PodWorkerOwner;
  readonly #settings: RequeueSettings;
  readonly #signal: AbortSignal;
  /** False while a static pod waits for its turn. */
  #isStarted = false;
  /** The pod had ended when it was first seen: the runtime knows whether anything is left to end. */
  #wasTerminal: boolean;
  #graceSeconds: number | undefined;
  #eviction: Eviction | undefined;
  /** The newest work, not taken yet. Older work is dropped. */
  #pending: PodWork | undefined;
  #active: PodWork | undefined;
  /** When to repeat the active work if none comes; undefined while a step runs. */
  #dueAtMs: number | undefined;
  #step: AbortController | undefined;
  readonly #wake = new WakeSignal();

  constructor(
    uid: string,
    { pod, runtimePod }: PodWork,
    deps: PodWorkerDeps,
    owner: PodWorkerOwner,
    settings: RequeueSettings,
    signal: AbortSignal,
  ) {
    this.uid = uid;
    this.fullName = pod === undefined ? `${runtimePod?.name}_${runtimePod?.namespace}` : podFullName(pod);
    this.#wasTerminal = isTerminalPhase(pod?.status?.phase);
    this.#deps = deps;
    this.#owner = owner;
    this.#settings = settings;
    this.#signal = signal;
  }

  /** The newest that is known of the pod; undefined if only the runtime knows it. */
  get pod(): Pod | undefined {
    return this.#pending?.pod ?? this.#active?.pod;
  }

  /** Replaces the work that was not taken yet. A step that runs is interrupted if the pod has to end sooner than it knew. */
  update(work: PodWork): void {
    if (this.state === 'finished' || (this.state === 'terminated' && work.pod === undefined)) return;
    const pod = work.pod ?? this.pod;
    const mustEnd = this.state === 'syncing' && endsPod(work);
    if (mustEnd) this.#move('terminating');
    let isShortened = false;
    if (this.state === 'terminating') {
      const { seconds, shortened } = effectiveGrace(this.#graceSeconds, pod, work.graceSeconds);
      isShortened = shortened;
      this.#graceSeconds = seconds;
      this.#eviction ??= work.eviction;
    }
    this.#pending = { ...work, pod };
    if (mustEnd || isShortened) this.#interrupt('The pod has to end');
    this.#wake.wake();
  }

  /** Syncs the pod again though nothing is new about it. */
  sync(): void {
    const { pod } = this;
    if (this.state === 'finished' || this.#pending !== undefined || pod === undefined) return;
    this.#pending = { kind: 'sync', pod };
    this.#wake.wake();
  }

  containersChanged(): void {
    this.sync();
    // Cleaning up waits for what a container that started late may hold.
    if (this.state === 'terminated') this.#interrupt('A container changed');
  }

  /** Ends a pod that no source wants any more. True: it has finished, or nothing of it was started. */
  endOrphan(): boolean {
    if (this.state === 'finished') return true;
    if (!this.#isStarted && this.pod !== undefined) {
      this.state = 'finished';
      this.#wake.wake();
      return true;
    }
    if (this.state === 'syncing') {
      this.#beginTerminating(this.#active?.pod);
      this.#pending ??= this.#active;
      this.#interrupt('The pod is no longer wanted');
      this.#wake.wake();
    }
    return false;
  }

  /** Another static pod of this name has finished: do not wait for the retry. */
  retryTurn(): void {
    if (this.#dueAtMs !== undefined) this.#dueAtMs = this.#deps.clock.now();
    this.#wake.wake();
  }

  /** Resolves when the pod has finished or this program ends. */
  async run(): Promise<void> {
    // Started again after a failure of this loop: repeat what it was about.
    if (this.#active !== undefined) this.#pending ??= { ...this.#active, kind: 'sync' };
    while (this.state !== 'finished') {
      const work = await this.#next();
      if (work === undefined) return;
      if (!this.#isStarted && !this.#start(work)) continue;
      this.#active = work;
      const outcome = await this.#attempt(work);
      if (this.#signal.aborted) return;
      if (outcome !== undefined) this.#dueAtMs = this.#deps.clock.now() + this.#delayMs(outcome);
    }
  }

  /** The newest work, or the last one again when it is due; undefined when this program ends. */
  async #next(): Promise<PodWork | undefined> {
    const { clock } = this.#deps;
    while (!this.#signal.aborted && this.state !== 'finished') {
      const isDue = this.#dueAtMs !== undefined && clock.now() >= this.#dueAtMs;
      const waitsForTurn = !this.#isStarted && this.#dueAtMs !== undefined && this.state === 'syncing';
      const work = isDue || !waitsForTurn ? this.#pending : undefined;
      const repeated = isDue && this.#active !== undefined ? ({ ...this.#active, kind: 'sync' } as const) : undefined;
      if (work !== undefined || repeated !== undefined) {
        if (work !== undefined) this.#pending = undefined;
        this.#dueAtMs = undefined;
        return work ?? repeated;
      }
      const delayMs = this.#dueAtMs === undefined ? Infinity : Math.max(this.#dueAtMs - clock.now(), 0);
      await this.#wake.sleep(delayMs, clock, this.#signal);
    }
    return undefined;
  }

  #start(work: PodWork): boolean {
    if (work.pod !== undefined && isStaticPod(work.pod)) {
      if (this.state !== 'syncing') {
        // It waited for its turn until it was no longer wanted.
        this.#move('finished');
        return false;
      }
      if (!this.#owner.takeTurn(this)) {
        this.#pending ??= work;
        this.#dueAtMs = this.#deps.clock.now() + jittered(this.#settings.retryMs, jitterSpread, this.#deps.random);
        return false;
      }
    }
    this.#isStarted = true;
    return true;
  }

  /** Undefined: the step was interrupted by newer work, or the pod has finished. */
  async #attempt(work: PodWork): Promise<StepOutcome | undefined> {
    this.#step = new AbortController();
    const signal = AbortSignal.any([this.#signal, this.#step.signal]);
    const { uid, fullName, state } = this;
    if (state === 'terminating') this.hasBegunTerminating = true;
    try {
      return await this.#act(work, signal);
    } catch (error) {
      if (signal.aborted) return this.#pending === undefined ? { kind: 'movedOn' } : undefined;
      const hasEvent = isReported(error);
      this.#deps.notify({ kind: 'PodStepFailed', podUid: uid, fullName, state, message: messageOf(error), hasEvent });
      const { pod } = this;
      const againAtMs = state === 'syncing' && pod !== undefined ? this.#deps.steps.deadlineMs(pod) : undefined;
      return { kind: 'failed', error, againAtMs };
    } finally {
      this.#step = undefined;
    }
  }

  async #act(work: PodWork, signal: AbortSignal): Promise<StepOutcome | undefined> {
    const { steps, newest } = this.#deps;
    const pod = work.pod && (newest(this.uid) ?? work.pod);
    if (pod === undefined) {
      if (work.runtimePod !== undefined) await steps.terminateOrphan(work.runtimePod, this.#graceSeconds ?? 0, signal);
      this.#move('finished');
      this.#owner.forget(this);
      return undefined;
    }
    const runtimePod = await this.#runtimePod(pod, signal);
    if (this.#wasTerminal && isOver(runtimePod)) {
      this.hasBegunTerminating = true;
      if (this.state === 'terminating') this.#move('terminated');
    }
    this.#wasTerminal = false;
    switch (this.state) {
      case 'syncing': {
        const isOverForGood = await steps.sync(pod, runtimePod, signal);
        if (!isOverForGood) return { kind: 'done', againAtMs: steps.deadlineMs(pod) };
        if (this.state === 'syncing') {
          this.hasBegunTerminating = true;
          this.#beginTerminating(pod);
        }
        return { kind: 'movedOn' };
      }
      case 'terminating':
        await steps.terminate(
          pod,
          runtimePod,
          { graceSeconds: this.#graceSeconds ?? 0, eviction: this.#eviction },
          signal,
        );
        this.#move('terminated');
        return { kind: 'movedOn' };
      case 'terminated':
        await steps.cleanUp(pod, await this.#withoutLateContainers(pod, runtimePod, signal), signal);
        this.#move('finished');
        return undefined;
      case 'finished':
        return undefined;
    }
  }

  /** A container that started after the pod had ended would hold what is to be cleaned up. */
  async #withoutLateContainers(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    signal: AbortSignal,
  ): Promise<RuntimePod | undefined> {
    if (runtimePod?.containers.some(({ state }) => state.kind === 'running') !== true) return runtimePod;
    await this.#deps.steps.terminate(pod, runtimePod, { graceSeconds: 0, eviction: this.#eviction }, signal);
    return await this.#runtimePod(pod, signal);
  }

  async #runtimePod(pod: Pod, signal: AbortSignal): Promise<RuntimePod | undefined> {
    try {
      return await this.#deps.runtime.get(this.uid, signal);
    } catch (error) {
      signal.throwIfAborted();
      const message = `error determining status: ${messageOf(error)}`;
      this.#deps.events.record({ pod, type: 'Warning', reason: 'FailedSync', message });
      throw error;
    }
  }

  #beginTerminating(pod: Pod | undefined): void {
    this.#graceSeconds = effectiveGrace(this.#graceSeconds, pod, undefined).seconds;
    this.#move('terminating');
  }

  #move(state: PodState): void {
    this.state = state;
    this.#owner.moved(this);
  }

  #interrupt(why: string): void {
    this.#step?.abort(new Error(why));
  }

  #delayMs(outcome: StepOutcome): number {
    return requeueDelayMs(outcome, this.#settings, this.#deps.clock.now(), this.#deps.random);
  }
}

function endsPod({ kind, pod }: PodWork): boolean {
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return true;
  return isTerminalPhase(pod.status?.phase) || kind === 'kill';
}

/** Nothing of it runs and nothing shared is left. */
export function isOver(runtimePod: RuntimePod | undefined): boolean {
  if (runtimePod === undefined) return true;
  return runtimePod.state === 'notReady' && runtimePod.containers.every(({ state }) => state.kind !== 'running');
}

interface GracePeriod {
  readonly seconds: number;
  /** What waits for the old grace has to stop waiting. */
  readonly shortened: boolean;
}

/**
 * How long a pod may take to end. `current` is undefined before there is a grace; it only shrinks. Zero is for a pod that was
 * deleted without grace, which is killed at once; without such a deletion a pod has a second at least.
 */
export function effectiveGrace(
  current: number | undefined,
  pod: Pod | undefined,
  overrideSeconds: number | undefined,
): GracePeriod {
  const wanted = [current, pod?.metadata.deletionGracePeriodSeconds, overrideSeconds].flatMap((one) => one ?? []);
  const seconds =
    wanted.length === 0 ? Math.max(pod?.spec.terminationGracePeriodSeconds ?? 0, 1) : Math.max(Math.min(...wanted), 0);
  return { seconds, shortened: current !== undefined && seconds !== current };
}

type StepOutcome =
  | { readonly kind: 'movedOn' }
  | { readonly kind: 'done'; readonly againAtMs: number | undefined }
  | { readonly kind: 'failed'; readonly error: unknown; readonly againAtMs: number | undefined };

export interface RequeueSettings {
  /** `syncFrequency`: 60 s. */
  readonly resyncMs: number;
  /** 10 s: long enough that a pod that cannot start costs little, short enough that a user who mends it sees it start. */
  readonly retryMs: number;
}

/** For a pod whose deadline passed while its sync failed: what failed may fail again at once. */
const lateMs = 1000;
/** Pods that started together do not stay in step. */
const jitterSpread = 0.5;

/** When a pod is synced again after a step, if nothing happens before that. */
export function requeueDelayMs(
  outcome: StepOutcome,
  { resyncMs, retryMs }: RequeueSettings,
  nowMs: number,
  random: () => number,
): number {
  switch (outcome.kind) {
    case 'movedOn':
      return 0;
    case 'done': {
      const { againAtMs = Infinity } = outcome;
      return Math.min(jittered(resyncMs, jitterSpread, random), Math.max(againAtMs - nowMs, 0));
    }
    case 'failed': {
      const { error, againAtMs = Infinity } = outcome;
      const retryAtMs = earliestRetry(error);
      const delay = retryAtMs === undefined ? retryMs : Math.max(retryAtMs - nowMs, 0);
      const retry = jittered(Math.min(delay, resyncMs), jitterSpread, random);
      return Math.min(retry, Math.max(againAtMs - nowMs, lateMs));
    }
  }
}

function earliestRetry(error: unknown): number | undefined {
  if (error instanceof ContainerStartError && error.retryAtMs !== undefined) return error.retryAtMs;
  if (error instanceof AggregateError) {
    const times = error.errors.flatMap((one) => earliestRetry(one) ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }
  return error instanceof Error && error.cause !== undefined ? earliestRetry(error.cause) : undefined;
}

/** Each container that did not start has its Event. */
function isReported(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isReported);
  return error instanceof ContainerStartError || error instanceof ReportedError;
}
