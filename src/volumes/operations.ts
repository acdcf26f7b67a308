/**
 * Lets operations run that do not get in each other's way, and makes one that failed wait before it is tried again. What
 * the operations do is not known here.
 *
 * ```text
 *             start                     success
 *   absent ───────────▶ running ───────────────────▶ absent
 *                        │   ▲ failure: 0.5, 1, 2 … 122 s
 *                        ▼   │ start, when the time is over, or at once for an operation of another name
 *                      backing off ──forgive──▶ the time is over, the delay stays
 * ```
 *
 * Two operations exclude each other when they are about the same volume and agree in pod and in node, where saying nothing
 * agrees with everything. An operation without a volume excludes none.
 */
import { BackOff } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Timer, Timers } from '../base/timers.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { goTime, showDuration } from '../kube/values/times.ts';
import { type NotifyVolumes, podRef } from './notices.ts';
import {
  OperationError,
  type OperationKey,
  type OperationKind,
  type OperationTable,
  OperationTimeoutError,
  isPanic,
} from './operation.ts';
import type { OperationAction } from './plan.ts';
import { podUidOf } from './volume-name.ts';

interface Operation {
  readonly key: OperationKey;
  /** `volume_mount`: a failure makes only an operation of the same name wait. */
  readonly name: string;
  /** Must stop soon after the signal aborts: until it has, nothing else is done with the volume. */
  run(signal: AbortSignal): Promise<void>;
}

export interface OperationEnd {
  readonly operation: Operation;
  readonly tookMs: number;
  readonly failure?: OperationFailure;
  /** It was told to stop because everything stops. */
  readonly isClosing: boolean;
}

interface OperationFailure {
  readonly error: Error;
  readonly failedAt: number;
  readonly delayMs: number;
}

interface PendingOperationsDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  /** The volume may be worked on again: an operation ended, or the time after a failure is over. */
  readonly freed: (volume: string) => void;
  readonly ended: (end: OperationEnd) => void;
}

type Refusal = AlreadyExecutingError | BackOffError;

/** The kubelet's numbers; the odd two seconds make a delay from here recognisable. */
const retries = { firstMs: 500, msMax: 122_000 };
/** A mount may wait ten minutes for its device and has as long again for the rest. What takes longer hangs. */
const operationMsMax = 20 * 60_000;

interface Entry {
  key: OperationKey;
  name: string;
  isRunning: boolean;
  failedAt: number;
  readonly backOff: BackOff;
  lastError: string;
  /** May be retried before the delay is over: the reason for the failure may be gone. */
  isForgiven: boolean;
}

/**
 * Operations of one name that began within a second share what stops them, because a signal costs more than all other
 * bookkeeping of a short operation: when one of them is overdue, those that still run are too.
 */
interface Cohort {
  readonly startedAt: number;
  readonly controller: AbortController;
}
const cohortMs = 1_000;

interface Running {
  readonly operation: Operation;
  readonly controller: AbortController;
  readonly startedAt: number;
  done: Promise<void>;
}

export class PendingOperations {
  readonly #deps: PendingOperationsDeps;
  readonly #entries = new Map<string, Entry[]>();
  /** In the order of their starts, so the first is the first to be overdue. */
  readonly #running = new Set<Running>();
  /** The newest of each name. */
  readonly #cohorts = new Map<string, Cohort>();
  #overdue: Timer | undefined;
  #isClosed = false;

  constructor(deps: PendingOperationsDeps) {
    this.#deps = deps;
  }

  /** Starts the operation, in the background, or says why not. */
  start(operation: Operation): Refusal | undefined {
    const { key, name } = operation;
    const previous = this.#matching(key);
    if (previous?.isRunning === true || this.#isClosed) return new AlreadyExecutingError(key);
    if (previous !== undefined && this.#isBackingOff(previous)) {
      if (previous.name === name) return new BackOffError(key, failureOf(previous));
      previous.name = name;
      previous.backOff.reset();
    }
    const entry = previous ?? this.#add(operation);
    entry.isRunning = true;
    entry.key = key;
    this.#launch(operation, entry);
    return undefined;
  }

  isPending(key: OperationKey): boolean {
    return this.#matching(key)?.isRunning ?? false;
  }

  isSafeToRetry(key: OperationKey, name: string): boolean {
    const entry = this.#matching(key);
    if (entry === undefined) return true;
    return !entry.isRunning && !(entry.name === name && this.#isBackingOff(entry));
  }

  /** What the operation is waiting for may have come: it can be tried now, though another failure doubles its delay. */
  forgive(key: OperationKey): void {
    for (const entry of this.#entries.get(key.volume) ?? []) if (matches(entry.key, key)) entry.isForgiven = true;
  }

  /** What they all depend on is back. */
  forgiveAll(): void {
    for (const entries of this.#entries.values()) for (const entry of entries) entry.isForgiven = true;
  }

  /** The volume is of no interest any more, so neither is how often it failed. */
  forget(volume: string): void {
    const running = this.#entries.get(volume)?.filter(({ isRunning }) => isRunning) ?? [];
    if (running.length > 0) this.#entries.set(volume, running);
    else this.#entries.delete(volume);
  }

  /** The last failure that is still being waited for, of the whole volume or of this pod's mount of it. */
  failureOf(
    key: OperationKey,
  ): { readonly name: string; readonly error: string; readonly retryAt: number } | undefined {
    const entry = this.#matching(key);
    if (entry === undefined || entry.backOff.lastMs === 0) return undefined;
    return { name: entry.name, error: entry.lastError, retryAt: entry.failedAt + entry.backOff.lastMs };
  }

  get running(): number {
    return this.#running.size;
  }

  /** Starts nothing more, stops what is going on and resolves when nothing is left of it. */
  async close(reason: unknown): Promise<void> {
    this.#isClosed = true;
    this.#overdue?.cancel();
    for (const { controller } of this.#running) controller.abort(reason);
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  #launch(operation: Operation, entry: Entry): void {
    const { clock, timers } = this.#deps;
    const startedAt = clock.now();
    const running: Running = {
      operation,
      controller: this.#cohortOf(operation, startedAt).controller,
      startedAt,
      done: Promise.resolve(),
    };
    this.#running.add(running);
    this.#overdue ??= timers.after(operationMsMax, () => this.#stopOverdue());
    running.done = this.#execute(running, entry);
  }

  #cohortOf({ name }: Operation, now: number): Cohort {
    const newest = this.#cohorts.get(name);
    const isOf = newest !== undefined && newest.startedAt <= now && now < newest.startedAt + cohortMs;
    if (isOf && !newest.controller.signal.aborted) return newest;
    const cohort = { startedAt: now, controller: new AbortController() };
    this.#cohorts.set(name, cohort);
    return cohort;
  }

  async #execute(running: Running, entry: Entry): Promise<void> {
    const { operation, controller, startedAt } = running;
    let failure: Error | undefined;
    try {
      // Not within the call that starts it: whoever decides must not find the states changed half-way.
      await Promise.resolve();
      controller.signal.throwIfAborted();
      await operation.run(controller.signal);
    } catch (thrown) {
      failure = isPanic(thrown) ? new OperationPanicError(thrown) : (thrown as Error);
    }
    this.#running.delete(running);
    const tookMs = this.#deps.clock.now() - startedAt;
    if (failure === undefined) {
      this.#drop(entry);
      this.#deps.ended({ operation, tookMs, isClosing: this.#isClosed });
    } else {
      const { failedAt, delayMs } = failureOf(this.#failed(entry, failure));
      const isClosing = this.#isClosed;
      this.#deps.ended({ operation, tookMs, failure: { error: failure, failedAt, delayMs }, isClosing });
    }
    this.#deps.freed(operation.key.volume);
  }

  #failed(entry: Entry, failure: Error): Entry {
    const { clock, timers, freed } = this.#deps;
    const { volume } = entry.key;
    entry.isRunning = false;
    entry.isForgiven = false;
    entry.failedAt = clock.now();
    const delayMs = entry.backOff.next();
    entry.lastError = messageOf(failure);
    // A retry is allowed strictly after the delay.
    if (!this.#isClosed) timers.after(delayMs + 1, () => freed(volume));
    return entry;
  }

  #stopOverdue(): void {
    const { clock, timers } = this.#deps;
    this.#overdue = undefined;
    for (const { controller, startedAt, operation } of this.#running) {
      const dueAt = startedAt + operationMsMax;
      if (dueAt > clock.now()) {
        this.#overdue = timers.at(dueAt, () => this.#stopOverdue());
        return;
      }
      controller.abort(new OperationTimeoutError(operation.name, operationMsMax));
    }
  }

  #add({ key, name }: Operation): Entry {
    const entry: Entry = {
      key,
      name,
      isRunning: false,
      failedAt: 0,
      backOff: new BackOff(retries),
      lastError: '',
      isForgiven: false,
    };
    const { volume } = key;
    if (volume === '') return entry;
    const others = this.#entries.get(volume);
    if (others === undefined) this.#entries.set(volume, [entry]);
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
      if (found === undefined || (entry.key.podUid === key.podUid && entry.key.node === key.node)) found = entry;
    }
    return found;
  }

  #isBackingOff({ failedAt, backOff: { lastMs: delayMs }, isForgiven }: Entry): boolean {
    const passedMs = this.#deps.clock.now() - failedAt;
    // A clock that was set back makes nobody wait for the time that comes twice.
    return !isForgiven && delayMs > 0 && passedMs >= 0 && passedMs <= delayMs;
  }
}

function failureOf({ failedAt, backOff, lastError }: Entry): { failedAt: number; delayMs: number; lastError: string } {
  return { failedAt, delayMs: backOff.lastMs, lastError };
}

/** Of keys that name the same volume. */
function matches(a: OperationKey, b: OperationKey): boolean {
  const pods = a.podUid === '' || b.podUid === '' || a.podUid === b.podUid;
  return pods && (a.node === '' || b.node === '' || a.node === b.node);
}

/** This node has no operation for what is wanted of it. */
class OperationMissingError extends MountletError {
  readonly reason = 'OperationMissing';
  constructor(kind: string, volume: string) {
    super(`Cannot ${kind} volume "${volume}": this node has no operation for that`);
  }
}

/** An operation that still knows what it is for. */
interface ActionOperation extends Operation {
  readonly action: OperationAction;
  readonly kind: OperationKind<OperationAction>;
}

export class Operations {
  readonly #table: OperationTable;
  readonly #pending: PendingOperations;

  constructor(table: OperationTable, pending: PendingOperations) {
    this.#table = table;
    this.#pending = pending;
  }

  /** In the background. A volume that is busy or backing off is touched again when it is free. */
  start(action: OperationAction): Refusal | undefined {
    // The table has for each kind an operation that takes actions of that kind.
    const kind = (this.#table[action.kind] ?? missing(action.kind)) as OperationKind<OperationAction>;
    const operation: ActionOperation = {
      key: kind.key(action),
      name: kind.name,
      action,
      kind,
      run: (signal) => kind.run(action, signal),
    };
    return this.#pending.start(operation);
  }

  isBusy(volume: string): boolean {
    return this.#pending.isPending({ volume, podUid: '', node: '' });
  }

  forget(volume: string): void {
    this.#pending.forget(volume);
  }
}

/** Tells of every operation that ended: a metric for each, and for a failure a log line and what users see of it. */
export function tellEnd({ operation, tookMs, failure, isClosing }: OperationEnd, notify: NotifyVolumes): void {
  if (failure !== undefined && isClosing) return; // a node that stops is no failure of a pod
  const { name, key } = operation;
  const { action, kind } = operation as ActionOperation;
  const status = failure === undefined ? 'success' : 'fail-unknown';
  notify({ kind: 'OperationEnded', operation: name, volume: key.volume, plugin: pluginOf(action), status, tookMs });
  if (failure === undefined) return;
  const { error, failedAt, delayMs } = failure;
  const message = noRetriesMessage(key, { failedAt, delayMs, lastError: messageOf(error) });
  const podUid = key.podUid === '' && 'mount' in action ? podUidOf(action.mount.pod) : key.podUid;
  const pods = error instanceof OperationPanicError ? [] : (kind.failureEvent?.podsOf(action) ?? []);
  notify({
    kind: 'OperationFailed',
    operation: name,
    volume: key.volume,
    podUid,
    message,
    retryAt: failedAt + delayMs,
    error,
    hasEvent: pods.length > 0,
  });
  if (kind.failureEvent === undefined) return;
  const text = error instanceof OperationError ? error.simple : messageOf(error);
  const reason = (error instanceof OperationError ? error.eventReason : undefined) ?? kind.failureEvent.reason;
  for (const pod of pods) {
    notify({ kind: 'PodEvent', type: 'Warning', pod: podRef(pod), reason, message: text });
  }
}

function pluginOf(action: OperationAction): string {
  if ('mount' in action) return action.mount.plugin.name;
  return 'pluginName' in action ? action.pluginName : action.volume.pluginName;
}

function missing(kind: OperationAction['kind']): OperationKind<OperationAction> {
  return {
    name: kind,
    key: (action): OperationKey => ({
      volume: typeof action.volume === 'string' ? action.volume : action.volume.volume,
      podUid: 'mount' in action ? action.mount.podUid : '',
      node: '',
    }),
    failureEvent: { reason: 'FailedMount', podsOf: (action) => ('mount' in action ? [action.mount.pod] : []) },
    run: (action) =>
      Promise.reject(
        new OperationMissingError(kind, typeof action.volume === 'string' ? action.volume : action.volume.volume),
      ),
  };
}

/** Something else is going on with the same volume; it is tried again when that is over. */
export class AlreadyExecutingError extends MountletError {
  readonly reason = 'OperationRunning';
  constructor(key: OperationKey) {
    super(`Failed to create operation with name ${keyText(key)}. An operation with that name is already executing.`);
  }
}

interface FailedBefore {
  readonly failedAt: number;
  readonly delayMs: number;
  readonly lastError: string;
}

/** It failed a moment ago; it is tried again when the time is over. */
export class BackOffError extends MountletError {
  readonly reason = 'OperationBackingOff';
  constructor(key: OperationKey, { failedAt, delayMs, lastError }: FailedBefore) {
    super(
      `Failed to create operation with name ${goQuote(keyText(key))}. An operation with that name failed at ` +
        `${goTime(failedAt)}. No retries permitted until ${goTime(failedAt + delayMs)} (${showDuration(delayMs)}). ` +
        `Last error: ${goQuote(lastError)}.`,
    );
  }
}

export function noRetriesMessage(key: OperationKey, { failedAt, delayMs, lastError }: FailedBefore): string {
  return (
    `Operation for ${goQuote(keyText(key))} failed. No retries permitted until ${goTime(failedAt + delayMs)} ` +
    `(durationBeforeRetry ${showDuration(delayMs)}). Error: ${lastError}`
  );
}

/** A bug in an operation or a plugin. It is told with its stack and costs only the volume it happened to. */
class OperationPanicError extends MountletError {
  readonly reason = 'OperationPanic';
  constructor(thrown: unknown) {
    const stack = thrown instanceof Error ? (thrown.stack ?? '') : '';
    super(`recovered from panic ${goQuote(String(thrown))}. (err=${messageOf(thrown)}) Call stack:\n${stack}`, {
      cause: thrown,
    });
  }
}

function keyText({ volume, podUid, node }: OperationKey): string {
  return `{volumeName:${volume} podName:${podUid} nodeName:${node}}`;
}
