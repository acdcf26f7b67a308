/**
 * Carries out what was planned: one operation at a time for each volume, or for each pod's mount of it, and a delay after a
 * failure before the same is tried again.
 *
 * ```text
 *             start                     success
 *   absent ───────────▶ running ───────────────────▶ absent
 *                        │   ▲ failure: 0.5, 1, 2 … 122 s
 *                        ▼   │ start, when the delay is over, or at once for an operation of another name
 *                      backing off ──retryNow──▶ the delay is over, and doubles at the next failure all the same
 * ```
 *
 * Two operations exclude each other when they are about the same volume and the same pod. One without a pod is about the whole
 * volume and excludes them all.
 */
import { BackOff } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Timer, Timers } from '../base/timers.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { showDuration } from '../kube/values/times.ts';
import { type NotifyVolumes, podRef } from './notices.ts';
import {
  OperationError,
  type OperationKey,
  type OperationKind,
  type OperationTable,
  isPanic,
  operationTimeout,
} from './operation.ts';
import type { OperationAction } from './plan.ts';
import type { PodUid, VolumeName } from './volume-name.ts';
import { VolumeError } from '../plugins/plugin.ts';

interface OperationsDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  /** The volume may be worked on again: an operation ended, or the delay after a failure is over. */
  readonly freed: (volume: VolumeName) => void;
  readonly notify: NotifyVolumes;
  /** Undefined for one that is known no more. */
  readonly podOf: (podUid: PodUid) => Pod | undefined;
}

/** Busy: another operation runs. Backing off: the same failed a moment ago. Either way `freed` reports when it may start. */
export type StartResult = 'started' | 'busy' | 'backing-off';

/** The kubelet's numbers; the odd two seconds make a delay from here recognisable. */
const retries = { firstMs: 500, msMax: 122_000 };
/** A mount may wait ten minutes for its device and has as long again for the rest. What takes longer hangs. */
const operationMsMax = 20 * 60_000;
/** From the third failure on it is stuck: what was in its way for a moment would be gone. */
const stuckMs = 1_000;

/** What is known of a key while its operation runs, and after it failed. */
interface Entry {
  key: OperationKey;
  /** Only an operation of the same name waits for the delay. */
  name: string;
  isRunning: boolean;
  failedAt: number;
  readonly backOff: BackOff;
  lastError: string;
  /** Before the delay is over: the reason for the failure may be gone. */
  mayRetryNow: boolean;
}

interface Operation {
  readonly action: OperationAction;
  readonly kind: OperationKind<OperationAction>;
  readonly key: OperationKey;
  readonly controller: AbortController;
  readonly startedAt: number;
  done: Promise<void>;
}

/**
 * Operations of one name that began within a second share one AbortController, because a signal costs more than all other
 * bookkeeping of a short operation: when one of them is overdue, those that still run are too.
 */
interface Cohort {
  readonly startedAt: number;
  readonly controller: AbortController;
}
const cohortMs = 1_000;

export class Operations {
  readonly #deps: OperationsDeps;
  readonly #table: OperationTable;
  readonly #entries = new Map<VolumeName, Entry[]>();
  /** In the order of their starts, so the first is the first to be overdue. */
  readonly #running = new Set<Operation>();
  /** The newest of each name. */
  readonly #cohorts = new Map<string, Cohort>();
  #overdue: Timer | undefined;
  #isClosed = false;

  constructor(deps: OperationsDeps, table: OperationTable) {
    this.#deps = deps;
    this.#table = table;
  }

  /** Starts the operation for an action, in the background. */
  start(action: OperationAction): StartResult {
    // The table has for each kind an operation that takes actions of that kind.
    const kind = this.#table[action.kind] as OperationKind<OperationAction>;
    const key = kind.key(action);
    const previous = this.#matching(key);
    if (previous?.isRunning === true || this.#isClosed) return 'busy';
    if (previous !== undefined && this.#isBackingOff(previous)) {
      if (previous.name === kind.name) return 'backing-off';
      previous.name = kind.name;
      previous.backOff.reset();
    }
    const entry = previous ?? this.#add(key, kind.name);
    entry.isRunning = true;
    entry.key = key;
    const startedAt = this.#deps.clock.now();
    const { controller } = this.#cohortOf(kind.name, startedAt);
    const operation: Operation = { action, kind, key, controller, startedAt, done: Promise.resolve() };
    this.#running.add(operation);
    this.#overdue ??= this.#deps.timers.after(operationMsMax, () => this.#stopOverdue());
    operation.done = this.#execute(operation, entry);
    return 'started';
  }

  /** An operation runs for the volume, or for any pod's mount of it. */
  isBusy(volume: VolumeName): boolean {
    return this.#matching({ volume })?.isRunning ?? false;
  }

  /** What the operation failed for may be gone: it may start now, though another failure doubles its delay. */
  retryNow(key: OperationKey): void {
    for (const entry of this.#entries.get(key.volume) ?? []) if (matches(entry.key, key)) entry.mayRetryNow = true;
  }

  /** What they all depend on is back. */
  retryAllNow(): void {
    for (const entries of this.#entries.values()) for (const entry of entries) entry.mayRetryNow = true;
  }

  /** The volume needs no more work, so how often it failed does not matter any more. */
  forget(volume: VolumeName): void {
    const running = this.#entries.get(volume)?.filter(({ isRunning }) => isRunning) ?? [];
    if (running.length > 0) this.#entries.set(volume, running);
    else this.#entries.delete(volume);
  }

  /** The last failure, of the whole volume or of this pod's mount of it, while a retry is due. */
  failureOf(key: OperationKey): { readonly error: string; readonly retryAt: number } | undefined {
    const entry = this.#matching(key);
    if (entry === undefined || entry.isRunning || entry.backOff.lastMs === 0) return undefined;
    return { error: entry.lastError, retryAt: entry.failedAt + entry.backOff.lastMs };
  }

  get running(): number {
    return this.#running.size;
  }

  /** Starts nothing more, stops what runs and resolves when all of it has ended. */
  async close(reason: unknown): Promise<void> {
    this.#isClosed = true;
    this.#overdue?.cancel();
    for (const { controller } of this.#running) controller.abort(reason);
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  #cohortOf(name: string, now: number): Cohort {
    const newest = this.#cohorts.get(name);
    const isOf = newest !== undefined && newest.startedAt <= now && now < newest.startedAt + cohortMs;
    if (isOf && !newest.controller.signal.aborted) return newest;
    const cohort = { startedAt: now, controller: new AbortController() };
    this.#cohorts.set(name, cohort);
    return cohort;
  }

  async #execute(operation: Operation, entry: Entry): Promise<void> {
    const { kind, action, key, controller } = operation;
    let failure: Error | undefined;
    try {
      // Not within the call that starts it: a plan must not find the states changed half-way.
      await Promise.resolve();
      controller.signal.throwIfAborted();
      await kind.run(action, controller.signal);
    } catch (thrown) {
      failure = isPanic(thrown) ? panic(thrown) : (thrown as Error);
    }
    const isStuck = failure !== undefined && entry.backOff.lastMs >= stuckMs && !this.#isClosed;
    const holders = isStuck ? await holdersOf(kind, action) : undefined;
    this.#running.delete(operation);
    if (failure === undefined) this.#drop(entry);
    else this.#failed(entry, failure);
    this.#report(operation, entry, failure, holders);
    this.#deps.freed(key.volume);
  }

  #failed(entry: Entry, failure: Error): void {
    const { clock, timers, freed } = this.#deps;
    const { volume } = entry.key;
    entry.isRunning = false;
    entry.mayRetryNow = false;
    entry.failedAt = clock.now();
    entry.lastError = messageOf(failure);
    const delayMs = entry.backOff.next();
    // A retry is allowed strictly after the delay.
    if (!this.#isClosed) timers.after(delayMs + 1, () => freed(volume));
  }

  /** A metric for each operation, and for a failure a log line and the Events that users see. */
  #report(
    { action, kind, key, startedAt }: Operation,
    entry: Entry,
    error: Error | undefined,
    holders: readonly string[] | undefined,
  ): void {
    const { clock, notify, podOf } = this.#deps;
    if (error !== undefined && this.#isClosed) return; // a node that stops is not a failure of a pod
    const { name, failureEvent } = kind;
    const { volume } = key;
    const status = error === undefined ? 'success' : 'fail-unknown';
    const tookMs = clock.now() - startedAt;
    const { plugin, isMigrated } = subjectOf(action);
    notify({ kind: 'OperationEnded', operation: name, volume, plugin, isMigrated, status, tookMs });
    if (error === undefined) return;
    const podUid = key.podUid ?? ('mount' in action ? action.mount.podUid : undefined);
    const pods =
      error instanceof VolumeError && error.reason === panicReason ? [] : (failureEvent?.podsOf(action) ?? []);
    const failed = error instanceof OperationError ? error : undefined;
    const message = failed?.simple ?? messageOf(error);
    const of = podUid === undefined ? undefined : podOf(podUid);
    notify({
      kind: 'OperationFailed',
      operation: name,
      volume,
      podUid,
      pod: of && podRef(of),
      retryAt: entry.failedAt + entry.backOff.lastMs,
      error,
      hasEvent: pods.length > 0,
      ...(holders && { stuck: { holders, message } }),
    });
    if (failureEvent === undefined) return;
    const reason = failed?.eventReason ?? failureEvent.reason;
    for (const pod of pods) notify({ kind: 'PodEvent', type: 'Warning', pod: podRef(pod), reason, message });
  }

  #stopOverdue(): void {
    const { clock, timers } = this.#deps;
    this.#overdue = undefined;
    for (const { controller, startedAt, kind } of this.#running) {
      const dueAt = startedAt + operationMsMax;
      if (dueAt > clock.now()) {
        this.#overdue = timers.at(dueAt, () => this.#stopOverdue());
        return;
      }
      controller.abort(operationTimeout(kind.name, showDuration(operationMsMax)));
    }
  }

  #add(key: OperationKey, name: string): Entry {
    const backOff = new BackOff(retries);
    const entry: Entry = { key, name, isRunning: false, failedAt: 0, backOff, lastError: '', mayRetryNow: false };
    const others = this.#entries.get(key.volume);
    if (others === undefined) this.#entries.set(key.volume, [entry]);
    else others.push(entry);
    return entry;
  }

  #drop(entry: Entry): void {
    const { volume } = entry.key;
    const rest = this.#entries.get(volume)?.filter((other) => other !== entry) ?? [];
    if (rest.length > 0) this.#entries.set(volume, rest);
    else this.#entries.delete(volume);
  }

  /** One that runs wins over all, then the one with this very key, then the oldest. */
  #matching(key: OperationKey): Entry | undefined {
    let found: Entry | undefined;
    for (const entry of this.#entries.get(key.volume) ?? []) {
      if (!matches(entry.key, key)) continue;
      if (entry.isRunning) return entry;
      if (found === undefined || entry.key.podUid === key.podUid) found = entry;
    }
    return found;
  }

  #isBackingOff({ failedAt, backOff: { lastMs: delayMs }, mayRetryNow }: Entry): boolean {
    const passedMs = this.#deps.clock.now() - failedAt;
    // If the clock was set back, do not extend the delay.
    return !mayRetryNow && delayMs > 0 && passedMs >= 0 && passedMs <= delayMs;
  }
}

/** For keys of the same volume. */
function matches(a: OperationKey, b: OperationKey): boolean {
  return a.podUid === undefined || b.podUid === undefined || a.podUid === b.podUid;
}

/** Where the operation failed for its names, nothing can be looked for. */
async function holdersOf(kind: Operation['kind'], action: OperationAction): Promise<readonly string[] | undefined> {
  try {
    return await kind.holders?.(action);
  } catch {
    return undefined;
  }
}

function subjectOf(action: OperationAction): { readonly plugin: string; readonly isMigrated: boolean } {
  const { spec, ...subject } = 'mount' in action ? action.mount : 'pluginName' in action ? action : action.volume;
  const isMigrated = spec?.volume === undefined && spec?.isMigrated === true;
  return { plugin: 'plugin' in subject ? subject.plugin.name : subject.pluginName, isMigrated };
}

const panicReason = 'OperationPanic';

/** A bug in an operation or a plugin. It is logged with its stack and costs only the volume it happened to. */
function panic(cause: unknown): VolumeError {
  const stack = cause instanceof Error ? (cause.stack ?? '') : '';
  const message = `recovered from panic ${goQuote(String(cause))}. (err=${messageOf(cause)}) Call stack:\n${stack}`;
  return new VolumeError(panicReason, message, { cause });
}
