/**
 * Watches: a stream of events from a revision on, each change once and in order. A watch that cannot be served from where it
 * asks is told so by an ERROR event and ended; a reader that does not keep up is cut off, and never makes a writer wait.
 */
import type { Clock } from '../../base/clock.ts';
import type { ResponseStream } from '../http/exchange.ts';
import { objectPrefix } from '../object-key.ts';
import { apiVersionOf } from '../resources.ts';
import { StatusError, expired } from '../status.ts';
import { CompactedError } from '../store/store-errors.ts';
import type { Store } from '../store/store.ts';
import type { ApiRequest, Reply } from './api-request.ts';
import type { ListOptions } from './list-options.ts';
import { listOptions } from './list-options.ts';
import type { Representation } from './negotiate.ts';
import { objectText, tableOptions } from './representation.ts';
import type { Selection } from './selection.ts';
import { selectionOf } from './selection.ts';
import { waitForRevision } from './wait-for-revision.ts';
import type { WatchFeed } from './watch-feed.ts';
import type { SharedChange, WatchEvent } from './watch-events.ts';
import { eventLine } from './watch-events.ts';
import { parseStored } from './write-context.ts';

export interface WatchDeps {
  readonly store: Store;
  readonly feed: WatchFeed;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  /** Ends all watches, cleanly. */
  readonly stopping: AbortSignal;
  /** How many events of which resource were sent. */
  sent(request: ApiRequest, count: number): void;
}

// A reader this far behind will not catch up; it resumes from its last version, from the log instead of from our memory.
const pendingBytesMax = 16 * 1024 * 1024;
const bookmarkEveryMs = 60_000;
const bookmarkBeforeEndMs = 2_000;
const defaultTimeoutMs = 30 * 60_000;

export async function watch(deps: WatchDeps, request: ApiRequest, representation: Representation): Promise<Reply> {
  const options = listOptions(request.query, true);
  const selection = selectionOf(request.served, options, request.info.name);
  if (representation.as === 'table') tableOptions(request.query);
  const stream = request.exchange.openStream(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
  const watching = new Watching(deps, request, representation, options, selection, stream);
  try {
    await watching.run();
    stream.end();
  } catch (error) {
    if (!(error instanceof StatusError)) {
      stream.destroy();
      throw error;
    }
    stream.write(eventLine('ERROR', JSON.stringify(error.status)));
    stream.end();
  }
  return { kind: 'streamed' };
}

class Watching {
  readonly #deps: WatchDeps;
  readonly #request: ApiRequest;
  readonly #representation: Representation;
  readonly #options: ListOptions;
  readonly #selection: Selection;
  readonly #stream: ResponseStream;
  readonly #ended = new AbortController();
  #hasSentColumns = false;

  constructor(
    deps: WatchDeps,
    request: ApiRequest,
    representation: Representation,
    options: ListOptions,
    selection: Selection,
    stream: ResponseStream,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#representation = representation;
    this.#options = options;
    this.#selection = selection;
    this.#stream = stream;
  }

  /** Resolves when the watch is over: its time is up, its reader gone, or the server stops. */
  async run(): Promise<void> {
    const { store, feed, clock, stopping } = this.#deps;
    const { resourceVersion = 0 } = this.#options;
    const end = (): void => this.#ended.abort();
    this.#request.exchange.onClose(end);
    stopping.addEventListener('abort', end, { once: true });
    let close = (): void => {};
    try {
      if (resourceVersion > store.revision) await waitForRevision(store, resourceVersion, clock, this.#ended.signal);
      const start = this.#begin();
      close = feed.open(this.#prefix, start, (changes) => this.#send(changes));
      await this.#untilEnd(start);
    } catch (error) {
      if (error instanceof CompactedError) {
        throw expired(`too old resource version: ${resourceVersion} (${error.compactedRevision})`);
      }
      if (!this.#ended.signal.aborted) throw error;
    } finally {
      close();
      stopping.removeEventListener('abort', end);
    }
  }

  get #prefix(): string {
    return objectPrefix(this.#request.resource, this.#request.info.namespace);
  }

  /** Sends what there is, if that was asked for, and says from which revision to go on. */
  #begin(): number {
    const { resourceVersion = 0, sendInitialEvents, allowWatchBookmarks } = this.#options;
    const { store } = this.#deps;
    if (!(sendInitialEvents ?? resourceVersion === 0)) return resourceVersion === 0 ? store.revision : resourceVersion;
    const { items, revision } = store.list({ prefix: this.#prefix });
    let count = 0;
    for (const { value } of items) {
      if (!this.#selection.isEverything && !this.#selection.matches(parseStored(value))) continue;
      this.#stream.write(eventLine('ADDED', this.#converted(value)));
      count += 1;
    }
    this.#deps.sent(this.#request, count);
    if (allowWatchBookmarks && sendInitialEvents === true) {
      this.#bookmark(revision, { 'k8s.io/initial-events-end': 'true' });
    }
    return revision;
  }

  #send(changes: readonly SharedChange[]): void {
    let count = 0;
    for (const change of changes) {
      const event = change.eventFor(this.#selection);
      if (event === undefined) continue;
      this.#stream.write(this.#line(change, event));
      count += 1;
    }
    if (count > 0) this.#deps.sent(this.#request, count);
    if (this.#stream.pendingBytes > pendingBytesMax) {
      this.#stream.destroy();
      this.#ended.abort();
    }
  }

  #line(change: SharedChange, event: WatchEvent): Buffer {
    const isPlain = this.#representation.as === 'object' && this.#request.served.viewOf === undefined;
    return isPlain ? change.line(event) : eventLine(event.type, this.#converted(event.object));
  }

  #converted(text: string): string {
    const encoding = {
      representation: this.#representation,
      resource: this.#request.served,
      query: this.#request.query,
      now: this.#deps.clock.now(),
    };
    const converted = objectText(text, encoding, !this.#hasSentColumns);
    this.#hasSentColumns = true;
    return converted;
  }

  #bookmark(revision: number, annotations?: Readonly<Record<string, string>>): void {
    const { served } = this.#request;
    const metadata = { resourceVersion: String(revision), creationTimestamp: null, ...(annotations && { annotations }) };
    const plain = JSON.stringify({ kind: served.kind, apiVersion: apiVersionOf(served), metadata });
    const object = this.#representation.as === 'object' ? plain : this.#converted(plain);
    this.#stream.write(eventLine('BOOKMARK', object));
  }

  async #untilEnd(start: number): Promise<void> {
    const { clock, feed, chance } = this.#deps;
    const { timeoutSeconds = 0, allowWatchBookmarks } = this.#options;
    const durationMs = timeoutSeconds > 0 ? timeoutSeconds * 1000 : defaultTimeoutMs * (1 + chance());
    const end = clock.now() + durationMs;
    const { signal } = this.#ended;
    for (let left = durationMs; left > 0 && !signal.aborted; left = end - clock.now()) {
      const isLast = left <= bookmarkBeforeEndMs;
      const pause = isLast ? left : Math.min(bookmarkEveryMs, left - bookmarkBeforeEndMs);
      await clock.sleep(allowWatchBookmarks ? pause : left, signal).catch(() => {});
      if (allowWatchBookmarks && !signal.aborted && !isLast) this.#bookmark(Math.max(start, feed.revision));
    }
  }
}
