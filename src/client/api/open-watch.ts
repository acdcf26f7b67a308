/** Opens one watch: until the server accepts it, its answer is a refusal to be read; from then on it is a stream of events. */
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import type { HttpHead, HttpRequest, HttpSink, Transport } from '../transport/transport.ts';
import { readError } from './api-answer.ts';
import { type WatchLimits, WatchLostError, WatchStream } from './watch-stream.ts';

interface OpenWatchDeps {
  readonly transport: Transport;
  readonly guard: WatchGuard;
  readonly limits: WatchLimits;
}

// Of a refusal to watch; a Status is a few hundred bytes.
const errorChunksMax = 64;

export async function openWatch(
  { transport, guard, limits }: OpenWatchDeps,
  request: HttpRequest,
  what: string,
  times: WatchTimes,
  signal: AbortSignal,
): Promise<WatchStream> {
  // It may have aborted while the credentials were read, and would not do so again.
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const cancel = new AbortController();
    const stopListening = onAbort(signal, () => cancel.abort(signal.reason));
    const finished = (): void => {
      stopListening();
      guard.remove(stream);
    };
    const stream = new WatchStream(what, limits, (reason) => cancel.abort(reason));
    let refusal: { readonly head: HttpHead; readonly body: Buffer[] } | undefined;
    guard.add(stream, what, times);
    const sink: HttpSink = {
      head: (head) => {
        guard.answered(stream);
        if (head.status === 200) resolve(stream);
        else refusal = { head, body: [] };
      },
      data: (chunk) => {
        if (refusal === undefined) stream.receive(chunk);
        else if (refusal.body.length < errorChunksMax) refusal.body.push(chunk);
      },
      end: () => {
        finished();
        if (refusal === undefined) stream.complete();
        else reject(readError(refusal.head, Buffer.concat(refusal.body), what));
      },
      failed: (error) => {
        finished();
        stream.fail(error);
        reject(error);
      },
    };
    transport.send(request, sink, cancel.signal).catch((error: unknown) => {
      finished();
      reject(error);
    });
  });
}

export interface GuardSettings {
  /** After the time the server was given for a watch. */
  readonly graceMs: number;
  /** Where bookmarks were seen. Servers send one about every minute; after this, several are missing. */
  readonly silenceMsMax: number;
}

export const guardDefaults: GuardSettings = { graceMs: 30_000, silenceMsMax: 300_000 };

// How much later than exactly a stalled watch may be noticed.
const checkEveryMs = 5_000;

/** What the server was given or should keep to; Infinity where there is no limit. */
interface WatchTimes {
  /** For the whole watch. */
  readonly timeoutMs: number;
  /** For the beginning of the answer. */
  readonly answerMsMax: number;
}

interface Guarded extends WatchTimes {
  readonly what: string;
  readonly openedAt: number;
  isAnswered: boolean;
  bytes: number;
  heardAt: number;
}

/**
 * Finds watches that the server has forgotten. A quiet watch and a dead one look alike, so only three things count: the server let the
 * time pass that it was given for the whole watch, or for the start of its answer; or it used to send bookmarks and stopped. One timer serves all watches.
 */
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

  add(stream: WatchStream, what: string, times: WatchTimes): void {
    const now = this.#clock.now();
    this.#watches.set(stream, { ...times, what, openedAt: now, isAnswered: false, bytes: 0, heardAt: now });
    this.#running ??= this.#run();
  }

  answered(stream: WatchStream): void {
    const guarded = this.#watches.get(stream);
    if (guarded !== undefined) guarded.isAnswered = true;
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
    const isUnanswered = !guarded.isAnswered && now - guarded.openedAt > guarded.answerMsMax;
    if (!isOverdue && !isSilent && !isUnanswered) return;
    this.#watches.delete(stream);
    const seconds = Math.round((now - guarded.heardAt) / 1000);
    const text = `Heard nothing for ${seconds} s in "${guarded.what}": the watch was given up`;
    stream.fail(new WatchLostError('WatchStalled', text));
  }
}
