/**
 * The answer to a watch as an async iterable of events. It reads lines, parses each once, and keeps what was not fetched yet within
 * bounds: a reader that falls behind loses the watch and not the connection, which others use. What an event means is the
 * reflector's business.
 *
 * Whatever arrived before the end is delivered first, so that a watch can be resumed at the last version that was read.
 */
import { ClientError } from '../transport/transport.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { status } from '../../kube/schema/meta.ts';
import { decode } from '../../kube/schema/schema.ts';
import { errorFromStatus } from './api-errors.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

export interface WatchEvent {
  /** ADDED, MODIFIED, DELETED or BOOKMARK, or one we do not know. ERROR is thrown. */
  readonly type: string;
  readonly object: JsonObject;
}

/** The stream is gone, but every event until then was read. `reason`: WatchCut, WatchStalled or WatchOverflow. */
export class WatchLostError extends ClientError {}

export interface WatchLimits {
  /** A reader this far behind is stuck: ten thousand events are a minute of the busiest cluster. */
  readonly eventsMax: number;
  /** Text of the events that were not fetched yet. */
  readonly queuedBytesMax: number;
  /** One event. The largest object a server stores has about 1.5 MiB, in JSON at most twice that. */
  readonly eventBytesMax: number;
}

export const watchLimits: WatchLimits = {
  eventsMax: 10_000,
  queuedBytesMax: 64 * 1024 * 1024,
  eventBytesMax: 16 * 1024 * 1024,
};

interface Queued {
  readonly event: WatchEvent;
  readonly bytes: number;
}

interface Reader {
  readonly resolve: (result: IteratorResult<WatchEvent, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

const newline = 0x0a;
/** An event of this size was long work to parse, and is long work for its reader: everything else goes on in between. */
const largeBytes = 64 * 1024;

export class WatchStream implements AsyncIterableIterator<WatchEvent, undefined> {
  readonly #what: string;
  readonly #limits: WatchLimits;
  readonly #cancel: (reason: unknown) => void;
  #queue: Queued[] = [];
  #fetched = 0;
  #queuedBytes = 0;
  #part: Buffer[] = [];
  #partBytes = 0;
  #reader: Reader | undefined;
  #end: { readonly error: unknown } | undefined;
  #hasBookmarks = false;
  #bytes = 0;

  /** `cancel` ends the request, for this reason. */
  constructor(what: string, limits: WatchLimits, cancel: (reason: unknown) => void) {
    this.#what = what;
    this.#limits = limits;
    this.#cancel = cancel;
  }

  /** The server sends bookmarks here, so a long silence means something. */
  get hasBookmarks(): boolean {
    return this.#hasBookmarks;
  }

  /** Grows whenever something arrives. */
  get bytes(): number {
    return this.#bytes;
  }

  /** For the connection: more of the answer. */
  receive(chunk: Buffer): void {
    if (this.#end !== undefined) return;
    this.#bytes += chunk.length;
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const line = chunk.subarray(start, end);
      start = end + 1;
      this.#line(this.#partBytes === 0 ? line : this.#completed(line));
      if (this.#hasEnded) return;
    }
    if (start === chunk.length) return;
    // Copied, because a part of a chunk would keep all of it in memory for as long as the watch is quiet.
    this.#part.push(start === 0 ? chunk : Buffer.from(chunk.subarray(start)));
    this.#partBytes += chunk.length - start;
    if (this.#partBytes > this.#limits.eventBytesMax) this.fail(this.#broken('an event is too large'));
  }

  /** For the connection: the answer is complete. */
  complete(): void {
    if (this.#partBytes > 0) this.#line(this.#completed(Buffer.alloc(0)), true);
    this.#finish(undefined);
  }

  /** The first reason counts. */
  fail(error: unknown): void {
    if (this.#end !== undefined) return;
    this.#cancel(error);
    this.#finish(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** One reader at a time. */
  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    const queued = this.#queue[this.#fetched];
    if (queued !== undefined) {
      this.#fetched += 1;
      this.#queuedBytes -= queued.bytes;
      if (this.#fetched === this.#queue.length) {
        this.#queue = [];
        this.#fetched = 0;
      }
      return Promise.resolve({ done: false, value: queued.event });
    }
    if (this.#end === undefined) return new Promise((resolve, reject) => (this.#reader = { resolve, reject }));
    const { error } = this.#end;
    this.#end = { error: undefined }; // thrown once
    return error === undefined ? Promise.resolve({ done: true, value: undefined }) : Promise.reject(error);
  }

  return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.#cancel('unread');
    this.#queue = [];
    this.#finish(undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  #completed(rest: Buffer): Buffer {
    const whole = Buffer.concat([...this.#part, rest]);
    this.#part = [];
    this.#partBytes = 0;
    return whole;
  }

  #line(line: Buffer, isLast = false): void {
    const text = line.toString('utf8').trim();
    if (text === '') return;
    const event = parse(text);
    if (event === undefined)
      return this.fail(
        isLast
          ? new WatchLostError('WatchCut', `Cannot read on in "${this.#what}": it was cut off in an event`)
          : this.#broken('a line is no event'),
      );
    if (event.type === 'ERROR') return this.fail(errorFromStatus(decode(status, event.object).value));
    this.#hasBookmarks ||= event.type === 'BOOKMARK';
    this.#deliver({ event, bytes: line.length });
  }

  #deliver(queued: Queued): void {
    const reader = this.#reader;
    if (reader !== undefined) {
      this.#reader = undefined;
      const deliver = (): void => reader.resolve({ done: false, value: queued.event });
      if (queued.bytes < largeBytes) return deliver();
      return void setImmediate(deliver);
    }
    const waiting = this.#queue.length - this.#fetched;
    const { eventsMax, queuedBytesMax } = this.#limits;
    if (waiting >= eventsMax || this.#queuedBytes + queued.bytes > queuedBytesMax) {
      const text = `Gave up "${this.#what}" with ${waiting} events unread: its reader is too slow`;
      return this.fail(new WatchLostError('WatchOverflow', text));
    }
    this.#queue.push(queued);
    this.#queuedBytes += queued.bytes;
  }

  get #hasEnded(): boolean {
    return this.#end !== undefined;
  }

  #finish(error: unknown): void {
    if (this.#end !== undefined) return;
    this.#part = [];
    this.#partBytes = 0;
    const reader = this.#reader;
    this.#reader = undefined;
    this.#end = { error: reader === undefined ? error : undefined };
    if (reader === undefined) return;
    if (error === undefined) reader.resolve({ done: true, value: undefined });
    else reader.reject(error);
  }

  #broken(problem: string): ClientError {
    return new ClientError('WatchBroken', `Cannot read on in "${this.#what}": ${problem}`);
  }
}

/** Undefined for anything but an event. The text is not quoted anywhere: it may be a Secret. */
function parse(text: string): WatchEvent | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(json) || typeof json['type'] !== 'string' || !isRecord(json['object'])) return undefined;
  return { type: json['type'], object: json['object'] };
}
