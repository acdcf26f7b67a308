/**
 * One watch: what waits for its client, and when it has waited for too much. It prints nothing and chooses nothing; the bytes
 * that wait are shared with all other watchers of the same events.
 *
 *   replaying ──all replayed──▶ live ◀──all written── behind     replaying: first the replay, live events queue up meanwhile
 *       │                        └──sink is full──────▶ │        behind:    the sink is full, live events queue up
 *       └──────────────── queue over its bound ─────────┴──▶ ended ('slow')
 */
export type WatchEnd = 'slow' | 'failed' | 'closed';

/** Where events go. An HTTP response has almost this shape. */
export interface WatchSink {
  /** False when it is full: nothing more comes until `resume` is called. What was given is taken in any case. */
  write(bytes: Uint8Array): boolean;
  /** Called once, when the watch ends by itself: the client was too slow, the sink has thrown, or the hub was closed. */
  end(reason: WatchEnd, error?: unknown): void;
}

export interface WatcherLimits {
  /** Of events that wait while the sink is full. */
  readonly queuedEventsMax: number;
  readonly queuedBytesMax: number;
}

export const watcherDefaults: WatcherLimits = {
  // A client that is this far behind costs less when it comes back and reads the log from where it stopped.
  queuedEventsMax: 10_000,
  // Sixteen objects of the largest size. The bytes are shared, so a thousand slow watchers of the same do not take more.
  queuedBytesMax: 16 * 1024 * 1024,
};

/** A replay of thousands of events is cut in turns of the event loop, so that other clients are served between. */
const turnBytesMax = 256 * 1024;

interface Chunk {
  readonly bytes: Uint8Array;
  readonly events: number;
}

export class Watcher {
  /** Live changes up to this one are not for this watcher: it starts later, or its replay has them. */
  readonly startsAfter: number;
  readonly wantsBookmarks: boolean;
  readonly #sink: WatchSink;
  readonly #limits: WatcherLimits;
  readonly #ended: (watcher: Watcher) => void;
  #replay: Iterator<Uint8Array> | undefined;
  #queue: Chunk[] = [];
  #queuedEvents = 0;
  #queuedBytes = 0;
  #isFull = false;
  #isOver = false;
  #turn: NodeJS.Immediate | undefined;

  constructor(
    sink: WatchSink,
    limits: WatcherLimits,
    start: { readonly after: number; readonly replay: Iterable<Uint8Array>; readonly wantsBookmarks: boolean },
    ended: (watcher: Watcher) => void,
  ) {
    this.#sink = sink;
    this.#limits = limits;
    this.#ended = ended;
    this.startsAfter = start.after;
    this.wantsBookmarks = start.wantsBookmarks;
    this.#replay = start.replay[Symbol.iterator]();
  }

  /** All it was sent has gone to the sink, which takes more: the moment for a bookmark. */
  get isIdle(): boolean {
    return !this.#isOver && !this.#isFull && this.#replay === undefined && this.#queue.length === 0;
  }

  /** The sink is empty enough again. */
  resume(): void {
    this.#isFull = false;
    this.pump();
  }

  /** The client has gone. Nothing is written any more. */
  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#queue = [];
    this.#replay = undefined;
    clearImmediate(this.#turn);
    this.#ended(this);
  }

  end(reason: WatchEnd, error?: unknown): void {
    if (this.#isOver) return;
    this.stop();
    this.#sink.end(reason, error);
  }

  deliver(bytes: Uint8Array, events: number): void {
    if (this.isIdle) return this.#write(bytes);
    if (this.#isOver) return;
    this.#queue.push({ bytes, events });
    this.#queuedEvents += events;
    this.#queuedBytes += bytes.length;
    const { queuedEventsMax, queuedBytesMax } = this.#limits;
    if (this.#queuedEvents > queuedEventsMax || this.#queuedBytes > queuedBytesMax) this.end('slow');
  }

  /** Writes what waits, until the sink is full or this turn has had enough. */
  pump(): void {
    clearImmediate(this.#turn);
    let turnBytes = 0;
    while (!this.#isFull && !this.#isOver) {
      let next: Uint8Array | undefined;
      try {
        next = this.#next();
      } catch (error) {
        return this.end('failed', error);
      }
      if (next === undefined) return;
      turnBytes += next.length;
      this.#write(next);
      if (turnBytes > turnBytesMax && !this.#isFull && !this.isIdle) {
        this.#turn = setImmediate(() => this.pump());
        return;
      }
    }
  }

  #next(): Uint8Array | undefined {
    const replayed = this.#replay?.next();
    if (replayed !== undefined && replayed.done !== true) return replayed.value;
    this.#replay = undefined;
    const chunk = this.#queue.shift();
    if (chunk === undefined) return undefined;
    this.#queuedEvents -= chunk.events;
    this.#queuedBytes -= chunk.bytes.length;
    return chunk.bytes;
  }

  /** A sink that throws ends its own watch and no other. */
  #write(bytes: Uint8Array): void {
    try {
      if (!this.#sink.write(bytes)) this.#isFull = true;
    } catch (error) {
      this.end('failed', error);
    }
  }
}
