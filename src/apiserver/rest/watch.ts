/**
 * Watches: what a client may ask for, where its stream begins and when it ends. Handing out the changes is the hub's business.
 * A watch that cannot be served from where it asks is told so by an ERROR event and ended.
 */
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { type Resource, apiVersionOf } from '../model/resource.ts';
import { type Selection, selectionOf } from '../model/selection.ts';
import { StatusError, expired } from '../model/status.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import { CompactedError } from '../store/store-errors.ts';
import type { Store, StoredObject } from '../store/store.ts';
import { waitForRevision } from '../watch/store-waits.ts';
import {
  type ChangeFilter,
  type EventForm,
  type WatchedChange,
  everything,
  jsonEvents,
  selecting,
} from '../watch/watch-event.ts';
import type { WatchHub } from '../watch/watch-hub.ts';
import type { Watcher } from '../watch/watcher.ts';
import type { ApiRequest, Reply, ResponseStream } from './api-request.ts';
import { type ListOptions, listOptions } from './list-options.ts';
import { type Encoding, type Representation, objectText, tableOptions } from './representation.ts';

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
    const stopListening = onAbort(stopping, end);
    const { labelSelector, fieldSelector } = this.#options;
    const { group, version, plural } = this.#request.served;
    const key = [group, version, plural, this.#request.info.name, labelSelector, fieldSelector].join('\n');
    const [filter, release] = forms.filter(key, this.#selection);
    let watcher: Watcher | undefined;
    try {
      if (resourceVersion > store.revision) await waitForRevision(store, resourceVersion, clock, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      const form = forms.form(this.#encoding, clock);
      const { after, initial } = this.#start(form);
      const wantsBookmarks = this.#options.allowWatchBookmarks;
      const asked = { prefix: this.#prefix, after, filter, form: form.events, wantsBookmarks, initial };
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
      stopListening();
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

/**
 * What watches have in common: one selection for each selector in use and one way of printing for each kind, so that the hub
 * selects and prints a change once for all who ask the same.
 */
interface Shared {
  readonly filter: ChangeFilter;
  users: number;
}

/** How one watch sees objects. */
interface WatchForm {
  readonly events: EventForm;
  /** A stored object's text as the watch shows it. */
  text(stored: string): string;
}

export class WatchForms {
  readonly #plain = new Map<Resource, WatchForm>();
  readonly #filters = new Map<string, Shared>();

  /** `key` names the selection: equal keys mean equal selections. Returns its filter and how to release it. */
  filter(key: string, selection: Selection): readonly [ChangeFilter, () => void] {
    if (selection.isEverything) return [everything, () => {}];
    const known = this.#filters.get(key);
    const shared = known ?? { filter: selecting((object) => selection.matches(object)), users: 0 };
    shared.users += 1;
    this.#filters.set(key, shared);
    return [
      shared.filter,
      () => {
        shared.users -= 1;
        if (shared.users === 0) this.#filters.delete(key);
      },
    ];
  }

  form(encoding: Encoding, clock: { now(): number }): WatchForm {
    const { resource, representation } = encoding;
    if (representation.as !== 'object' || resource.viewOf !== undefined) return converted(encoding, clock);
    const known = this.#plain.get(resource);
    if (known !== undefined) return known;
    const events = jsonEvents({ apiVersion: apiVersionOf(resource), kind: resource.kind });
    const plain = { events, text: (stored: string) => stored };
    this.#plain.set(resource, plain);
    return plain;
  }
}

/** The columns of a table go with the first event only, so this one cannot be shared. */
function converted(encoding: Encoding, clock: { now(): number }): WatchForm {
  const { resource } = encoding;
  const plain = jsonEvents({ apiVersion: apiVersionOf(resource), kind: resource.kind });
  let hasColumns = false;
  const convert = (text: string): string => {
    const result = objectText(text, { ...encoding, now: clock.now() }, !hasColumns);
    hasColumns = true;
    return result;
  };
  const events: EventForm = {
    event: (type, watched: WatchedChange) => {
      const { object } = JSON.parse(Buffer.from(plain.event(type, watched)).toString()) as { object: unknown };
      return eventLine(type, convert(JSON.stringify(object)));
    },
    bookmark: (revision) => {
      const { object } = JSON.parse(Buffer.from(plain.bookmark(revision)).toString()) as { object: unknown };
      // A view's bookmark is of its own kind already.
      const text = JSON.stringify(object);
      return eventLine('BOOKMARK', encoding.representation.as === 'object' ? text : convert(text));
    },
  };
  return { events, text: convert };
}

function eventLine(type: string, object: string): Buffer {
  return Buffer.from(`{"type":"${type}","object":${object}}\n`);
}
