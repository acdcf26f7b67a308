/**
 * The requests that are being answered, without those that last, and who of them has taken too long. One timer serves them all: a timer and a signal for
 * each would cost as much as the rest of a small request.
 */
import type { Clock } from '../base/clock.ts';

interface OpenRequest {
  timeIsUp(): void;
  serverStops(): void;
}

interface Entry {
  readonly request: OpenRequest;
  readonly lastTick: number;
}

/** How much longer than its time a request may last. Nobody waits for half a minute and minds a quarter of a second. */
const tickMs = 250;

export class OpenRequests {
  readonly #clock: Clock;
  readonly #entries = new Set<Entry>();
  readonly #closed = new AbortController();
  #ticks = 0;
  #ticking: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns what to call when it was answered. */
  enter(durationMs: number, request: OpenRequest): () => void {
    // The tick that is under way has begun already.
    const entry = { request, lastTick: this.#ticks + 1 + Math.ceil(durationMs / tickMs) };
    this.#entries.add(entry);
    this.#ticking ??= this.#tick();
    return () => this.#entries.delete(entry);
  }

  stop(): void {
    for (const { request } of this.#entries) request.serverStops();
  }

  /** When all are answered. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#ticking;
  }

  async #tick(): Promise<void> {
    const { signal } = this.#closed;
    while (this.#entries.size > 0 && !signal.aborted) {
      await this.#clock.sleep(tickMs, signal).catch(() => {});
      this.#ticks += 1;
      for (const { request, lastTick } of this.#entries) if (lastTick <= this.#ticks) request.timeIsUp();
    }
    this.#ticking = undefined;
  }
}
