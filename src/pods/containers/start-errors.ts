/** Why containers do not run, and how long they wait before they are started again. */
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { MountletError } from '../../base/errors.ts';

/** Reason and message are those of the container's waiting state. */
export class ContainerStartError extends MountletError {
  readonly reason: string;
  /** Set for a container that waits for the end of its back-off. */
  readonly retryAtMs: number | undefined;

  constructor(reason: string, message: string, options: ErrorOptions & { readonly retryAtMs?: number } = {}) {
    super(message, options);
    this.reason = reason;
    this.retryAtMs = options.retryAtMs;
  }
}

export interface StartError {
  readonly reason: string;
  readonly message: string;
}

/** As the kubelet's. What a node with many broken pods drops here is recorded again at their next try. */
const entriesMax = 1000;

/** The last error of each container, until it starts: its status shows it for as long as the container waits. */
export class StartErrors {
  readonly #entries = new Map<string, StartError>();

  set(podUid: string, container: string, error: StartError): void {
    const key = keyOf(podUid, container);
    this.#entries.delete(key);
    this.#entries.set(key, error);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > entriesMax && oldest !== undefined) this.#entries.delete(oldest);
  }

  get(podUid: string, container: string): StartError | undefined {
    return this.#entries.get(keyOf(podUid, container));
  }

  clear(podUid: string, container: string): void {
    this.#entries.delete(keyOf(podUid, container));
  }
}

function keyOf(podUid: string, container: string): string {
  return `${podUid}_${container}`;
}

interface FailureEntry {
  readonly backOff: BackOff;
  readonly updatedAtMs: number;
}

/** Delays that double with every failure of the same thing, and start over when it has not failed for long. */
export class FailureBackOff {
  readonly #initialMs: number;
  readonly #delayMsMax: number;
  readonly #clock: Clock;
  readonly #entries = new Map<string, FailureEntry>();

  constructor(initialMs: number, delayMsMax: number, clock: Clock) {
    this.#initialMs = initialMs;
    this.#delayMsMax = delayMsMax;
    this.#clock = clock;
  }

  /** When the wait ends for what failed at `failedAtMs`; undefined if there is nothing to wait for. */
  until(key: string, failedAtMs: number): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || this.#isStale(entry, failedAtMs)) return undefined;
    const untilMs = failedAtMs + entry.backOff.lastMs;
    return this.#clock.now() < untilMs ? untilMs : undefined;
  }

  delayMsOf(key: string): number {
    return this.#entries.get(key)?.backOff.lastMs ?? 0;
  }

  /** Counts a failure, so that the next wait is longer. */
  next(key: string, failedAtMs: number): void {
    const before = this.#entries.get(key);
    const isNew = before === undefined || this.#isStale(before, failedAtMs);
    const backOff = isNew ? new BackOff({ firstMs: this.#initialMs, msMax: this.#delayMsMax }) : before.backOff;
    backOff.next();
    this.#entries.set(key, { backOff, updatedAtMs: this.#clock.now() });
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }

  /** Drops what can have no effect any more; called by housekeeping, so the number of entries has a bound. */
  collectGarbage(): void {
    const now = this.#clock.now();
    for (const [key, entry] of this.#entries) if (this.#isStale(entry, now)) this.#entries.delete(key);
  }

  #isStale({ updatedAtMs }: FailureEntry, atMs: number): boolean {
    return atMs - updatedAtMs > 2 * this.#delayMsMax;
  }
}
