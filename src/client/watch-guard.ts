/**
 * Finds watches that the server has forgotten. A quiet watch and a dead one look alike, so only two things count: the server let the
 * time pass that it was given for the whole watch, or it used to send bookmarks and stopped. One timer serves all watches.
 */
import type { Clock } from '../base/clock.ts';
import type { WatchStream } from './watch-stream.ts';
import { WatchStalledError } from './watch-stream.ts';

export interface GuardSettings {
  /** After the time the server was given for a watch. */
  readonly graceMs: number;
  /** Where bookmarks were seen. Servers send one about every minute; after this, several are missing. */
  readonly silenceMsMax: number;
}

export const guardDefaults: GuardSettings = { graceMs: 30_000, silenceMsMax: 300_000 };

// How much later than exactly a stalled watch may be noticed.
const checkEveryMs = 5_000;

interface Guarded {
  readonly what: string;
  readonly openedAt: number;
  readonly timeoutMs: number;
  bytes: number;
  heardAt: number;
}

export class WatchGuard {
  readonly #clock: Clock;
  readonly #settings: GuardSettings;
  readonly #watches = new Map<WatchStream, Guarded>();
  #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(clock: Clock, settings: GuardSettings) {
    this.#clock = clock;
    this.#settings = settings;
  }

  /** `timeoutMs` is what the server was told; Infinity where it was told nothing. */
  add(stream: WatchStream, what: string, timeoutMs: number): void {
    const now = this.#clock.now();
    this.#watches.set(stream, { what, openedAt: now, timeoutMs, bytes: 0, heardAt: now });
    this.#running ??= this.#run();
  }

  remove(stream: WatchStream): void {
    this.#watches.delete(stream);
  }

  get size(): number {
    return this.#watches.size;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      while (this.#watches.size > 0) {
        await this.#clock.sleep(checkEveryMs, this.#stop.signal);
        for (const [stream, guarded] of this.#watches) this.#check(stream, guarded);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    } finally {
      this.#running = undefined;
    }
  }

  #check(stream: WatchStream, guarded: Guarded): void {
    const now = this.#clock.now();
    if (guarded.bytes !== stream.bytes) {
      guarded.bytes = stream.bytes;
      guarded.heardAt = now;
    }
    const { graceMs, silenceMsMax } = this.#settings;
    const isOverdue = now - guarded.openedAt > guarded.timeoutMs + graceMs;
    const isSilent = stream.hasBookmarks && now - guarded.heardAt > silenceMsMax;
    if (!isOverdue && !isSilent) return;
    this.#watches.delete(stream);
    stream.fail(new WatchStalledError(guarded.what, now - guarded.heardAt));
  }
}
