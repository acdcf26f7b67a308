/**
 * Watches: what a client may ask for, where its stream begins and when it ends. Handing out the changes is the hub's business.
 * A watch that cannot be served from where it asks is told so by an ERROR event and ended.
 */
import type { Clock } from '../../base/clock.ts';
import type { ResponseStream } from '../http/exchange.ts';
import { objectKey, objectPrefix } from '../object-key.ts';
import { StatusError, expired } from '../status.ts';
import { CompactedError } from '../store/store-errors.ts';
import type { Store, StoredObject } from '../store/store.ts';
import type { WatchHub } from '../watch-hub.ts';
import type { Representation as EventForm } from '../watch-event.ts';
import type { Watcher } from '../watcher.ts';
import type { ApiRequest, Reply } from './api-request.ts';
import type { ListOptions } from './list-options.ts';
import { listOptions } from './list-options.ts';
import type { Representation } from './negotiate.ts';
import { tableOptions } from './representation.ts';
import type { Encoding } from './representation.ts';
import type { Selection } from './selection.ts';
import { selectionOf } from './selection.ts';
import { waitForRevision } from './wait-for-revision.ts';
import type { WatchForm, WatchForms } from './watch-forms.ts';
import { eventLine } from './watch-forms.ts';
import { parseStored } from '../stored-value.ts';

export interface WatchDeps {
  readonly store: Store;
  readonly hub: WatchHub;
  readonly forms: WatchForms;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  /** Ends all watches, cleanly. */
  readonly stopping: AbortSignal;
  /** Hears of every event that goes out. */
  readonly sent: (events: number) => void;
}

const bookmarkBeforeEndMs = 2_000;
const defaultTimeoutMs = 30 * 60_000;

export async function watch(deps: WatchDeps, request: ApiRequest, representation: Representation): Promise<Reply> {
  const options = listOptions(request.query, true);
  const selection = selectionOf(request.served, options, request.info.name);
  if (representation.as === 'table') tableOptions(request.query);
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-cache, private' };
  const stream = request.exchange.openStream(200, headers);
  try {
    await new Watching(deps, request, representation, options, selection, stream).run();
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
  readonly #encoding: Encoding;
  readonly #options: ListOptions;
  readonly #selection: Selection;
  readonly #stream: ResponseStream;
  readonly #ended = new AbortController();
  #failure: unknown;

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
    this.#encoding = { representation, resource: request.served, query: request.query, now: 0 };
    this.#options = options;
    this.#selection = selection;
    this.#stream = stream;
  }

  /** Resolves when the watch is over: its time is up, its reader gone, or the server stops. */
  async run(): Promise<void> {
    const { store, forms, clock, stopping } = this.#deps;
    const { resourceVersion = 0 } = this.#options;
    const end = (): void => this.#ended.abort();
    this.#request.exchange.onClose(end);
    stopping.addEventListener('abort', end, { once: true });
    const { labelSelector, fieldSelector } = this.#options;
    const { group, version, plural } = this.#request.served;
    const key = [group, version, plural, this.#request.info.name, labelSelector, fieldSelector].join('\n');
    const [selection, release] = forms.selection(key, this.#selection);
    let watcher: Watcher | undefined;
    try {
      if (resourceVersion > store.revision) await waitForRevision(store, resourceVersion, clock, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      const form = forms.form(this.#encoding, clock);
      const { after, initial } = this.#start(form);
      const wantsBookmarks = this.#options.allowWatchBookmarks;
      const asked = { prefix: this.#prefix, after, selection, representation: form.events, wantsBookmarks, initial };
      watcher = this.#deps.hub.watch(asked, {
        write: (bytes) => {
          this.#deps.sent(countLines(bytes));
          return this.#stream.write(bytes);
        },
        end: (reason, error) => {
          this.#failure = error;
          // Cut off in the middle, so that the reader does not take it for a complete stream.
          if (reason !== 'closed') this.#stream.destroy();
          end();
        },
      });
      const opened = watcher;
      this.#stream.onDrain(() => opened.resume());
      await this.#untilEnd(watcher);
    } catch (error) {
      if (error instanceof CompactedError) {
        throw expired(`too old resource version: ${resourceVersion} (${error.compactedRevision})`);
      }
      if (!this.#ended.signal.aborted) throw error;
    } finally {
      watcher?.stop();
      release();
      stopping.removeEventListener('abort', end);
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** A watch of one object is not woken by the others. */
  get #prefix(): string {
    const { resource, info } = this.#request;
    const { name } = this.#selection;
    const hasAddress = !resource.namespaced || info.namespace !== '';
    if (name === undefined || name === '' || name.includes('/') || !hasAddress) {
      return objectPrefix(resource, info.namespace);
    }
    return objectKey(resource, info.namespace, name);
  }

  /** From which revision to go on, and what there is before, if that was asked for. */
  #start(form: WatchForm): { readonly after: number; readonly initial: Iterable<Uint8Array> } {
    const { resourceVersion = 0, sendInitialEvents, allowWatchBookmarks } = this.#options;
    const { store } = this.#deps;
    if (!(sendInitialEvents ?? resourceVersion === 0)) {
      return { after: resourceVersion === 0 ? store.revision : resourceVersion, initial: [] };
    }
    const { items, revision } = this.#present();
    const marked = sendInitialEvents === true && allowWatchBookmarks;
    return { after: revision, initial: this.#initialEvents(items, form, marked ? revision : undefined) };
  }

  #present(): { readonly items: readonly StoredObject[]; readonly revision: number } {
    const prefix = this.#prefix;
    const { store } = this.#deps;
    if (prefix.endsWith('/')) return store.list({ prefix });
    const stored = store.get(prefix);
    return { items: stored === undefined ? [] : [stored], revision: store.revision };
  }

  *#initialEvents(
    items: readonly StoredObject[],
    form: WatchForm,
    endRevision: number | undefined,
  ): Generator<Uint8Array> {
    for (const { value } of items) {
      if (!this.#selection.isEverything && !this.#selection.matches(parseStored(value))) continue;
      yield eventLine('ADDED', form.text(value));
    }
    if (endRevision !== undefined) yield endOfInitialEvents(form.events, endRevision);
  }

  async #untilEnd(watcher: Watcher): Promise<void> {
    const { clock, chance, hub } = this.#deps;
    const { timeoutSeconds = 0, allowWatchBookmarks } = this.#options;
    const durationMs = timeoutSeconds > 0 ? timeoutSeconds * 1000 : defaultTimeoutMs * (1 + chance());
    const { signal } = this.#ended;
    const pause = (ms: number): Promise<void> => clock.sleep(Math.min(ms, longestSleepMs), signal).catch(() => {});
    if (allowWatchBookmarks && durationMs > bookmarkBeforeEndMs) {
      await pause(durationMs - bookmarkBeforeEndMs);
      if (!signal.aborted) hub.bookmark(watcher);
      await pause(bookmarkBeforeEndMs);
    } else await pause(durationMs);
  }
}

// Timers of Node overflow beyond 24 days.
const longestSleepMs = 2 ** 31 - 1;

/** A bookmark that also says: the objects before it were there already. */
function endOfInitialEvents(form: EventForm, revision: number): Uint8Array {
  const event = JSON.parse(Buffer.from(form.bookmark(revision)).toString()) as {
    object: { kind: string; metadata: object; rows?: { object?: { metadata: object } }[] };
  };
  const annotations = { 'k8s.io/initial-events-end': 'true' };
  const { object } = event;
  const row = object.rows?.[0]?.object;
  if (row !== undefined) row.metadata = { ...row.metadata, annotations };
  else object.metadata = { ...object.metadata, annotations };
  return eventLine('BOOKMARK', JSON.stringify(object));
}

const newline = 0x0a;

/** Every event is one line, and JSON has no line breaks of its own. */
function countLines(bytes: Uint8Array): number {
  let count = 0;
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count += 1;
  return count;
}
