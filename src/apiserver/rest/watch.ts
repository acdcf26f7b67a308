/**
 * Watches: what a client may ask for, where its stream begins and when it ends. The hub hands out the changes. A watch
 * that cannot be served from where it asks gets an ERROR event and ends.
 */
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { type Resource, apiVersionOf } from '../model/resource.ts';
import { type Selection, selectionOf } from '../model/selection.ts';
import { StatusError, expired } from '../model/status.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import { CompactedError } from '../store/store-errors.ts';
import type { ListResult, Store, StoredObject } from '../store/store.ts';
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
import { type Encoding, objectText, tableOptions } from './representation.ts';

export interface WatchDeps {
  readonly store: Store;
  readonly hub: WatchHub;
  readonly forms: WatchForms;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  /** Ends all watches, cleanly. */
  readonly stopping: AbortSignal;
  /** Called with the number of events that went out. */
  readonly sent: (events: number) => void;
}

const bookmarkBeforeEndMs = 2_000;
const defaultTimeoutMs = 30 * 60_000;

/** What the client asked for. */
interface Asked {
  readonly request: ApiRequest;
  readonly options: ListOptions;
  readonly selection: Selection;
}

export async function watch(deps: WatchDeps, request: ApiRequest): Promise<Reply> {
  const options = listOptions(request.query, true);
  const selection = selectionOf(request.served, options, request.info.name);
  if (request.representation.as === 'table') tableOptions(request.query);
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-cache, private' };
  const stream = request.exchange.openStream(200, headers);
  try {
    await serveWatch(deps, { request, options, selection }, stream);
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

/** Resolves when the watch is over: its time is up, its reader gone, or the server stops. */
async function serveWatch(deps: WatchDeps, asked: Asked, stream: ResponseStream): Promise<void> {
  const { store, forms, clock, hub } = deps;
  const { request, options, selection } = asked;
  const { resourceVersion = 0, labelSelector, fieldSelector, allowWatchBookmarks } = options;
  const { served, query, info, exchange, representation } = request;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  exchange.onClose(end);
  const stopListening = onAbort(deps.stopping, end);
  const key = [served.group, served.version, served.plural, info.name, labelSelector, fieldSelector].join('\n');
  const [filter, release] = forms.filter(key, selection);
  let watcher: Watcher | undefined;
  let failure: unknown;
  try {
    if (resourceVersion > store.revision) await waitForRevision(store, resourceVersion, clock, ended.signal);
    if (ended.signal.aborted) return;
    const form = forms.form({ representation, resource: served, query, now: 0 }, clock);
    const prefix = prefixOf(asked);
    const start = { prefix, ...startOf(store, prefix, asked, form) };
    const opened = hub.watch(
      { ...start, filter, form: form.events, wantsBookmarks: allowWatchBookmarks },
      {
        write: (bytes) => {
          deps.sent(countLines(bytes));
          return stream.write(bytes);
        },
        end: (reason, error) => {
          failure = error;
          // Cut off in the middle, so that the reader does not take it for a complete stream.
          if (reason !== 'closed') stream.destroy();
          end();
        },
      },
    );
    watcher = opened;
    stream.onDrain(() => opened.resume());
    await untilEnd(deps, options, opened, ended.signal);
  } catch (error) {
    if (error instanceof CompactedError) {
      throw expired(`too old resource version: ${resourceVersion} (${error.compactedRevision})`);
    }
    if (!ended.signal.aborted) throw error;
  } finally {
    watcher?.stop();
    release();
    stopListening();
  }
  if (failure !== undefined) throw failure;
}

/** A watch of one object is not woken by the others. */
function prefixOf({ request: { resource, info }, selection: { name } }: Asked): string {
  const hasAddress = !resource.namespaced || info.namespace !== '';
  if (name === undefined || name === '' || name.includes('/') || !hasAddress) {
    return objectPrefix(resource, info.namespace);
  }
  return objectKey(resource, info.namespace, name);
}

interface Start {
  /** The revision to go on from. */
  readonly after: number;
  /** The objects there are before, if they were asked for. */
  readonly initial: Iterable<Uint8Array>;
}

function startOf(store: Store, prefix: string, { options, selection }: Asked, form: WatchForm): Start {
  const { resourceVersion = 0, sendInitialEvents, allowWatchBookmarks } = options;
  if (!(sendInitialEvents ?? resourceVersion === 0)) {
    return { after: resourceVersion === 0 ? store.revision : resourceVersion, initial: [] };
  }
  const isMarked = sendInitialEvents === true && allowWatchBookmarks;
  const { items, revision } = present(store, prefix);
  return { after: revision, initial: initialEvents(items, selection, form, isMarked ? revision : undefined) };
}

function present(store: Store, prefix: string): Pick<ListResult, 'items' | 'revision'> {
  if (prefix.endsWith('/')) return store.list({ prefix });
  const stored = store.get(prefix);
  return { items: stored === undefined ? [] : [stored], revision: store.revision };
}

function* initialEvents(
  items: readonly StoredObject[],
  selection: Selection,
  form: WatchForm,
  endRevision: number | undefined,
): Generator<Uint8Array> {
  for (const { value } of items) {
    if (selection.isEverything || selection.matches(parseStored(value))) yield eventLine('ADDED', form.text(value));
  }
  if (endRevision !== undefined) yield endOfInitialEvents(form.events, endRevision);
}

async function untilEnd(
  { clock, chance, hub }: WatchDeps,
  { timeoutSeconds = 0, allowWatchBookmarks }: ListOptions,
  watcher: Watcher,
  signal: AbortSignal,
): Promise<void> {
  const durationMs = timeoutSeconds > 0 ? timeoutSeconds * 1000 : defaultTimeoutMs * (1 + chance());
  const pause = (ms: number): Promise<void> => clock.sleep(Math.min(ms, longestSleepMs), signal).catch(() => {});
  if (allowWatchBookmarks && durationMs > bookmarkBeforeEndMs) {
    await pause(durationMs - bookmarkBeforeEndMs);
    if (!signal.aborted) hub.bookmark(watcher);
    await pause(bookmarkBeforeEndMs);
  } else await pause(durationMs);
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

/**
 * What watches share: one filter for each selector in use and one form for each kind, so that the hub selects and prints a
 * change once for all that ask the same.
 */
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
    event: (type, watched: WatchedChange) => eventLine(type, convert(objectIn(plain.event(type, watched)))),
    bookmark: (revision) => {
      const text = objectIn(plain.bookmark(revision));
      // A view's bookmark is of its own kind already.
      return eventLine('BOOKMARK', encoding.representation.as === 'object' ? text : convert(text));
    },
  };
  return { events, text: convert };
}

/** The text of the object in a line that `eventLine` could have made. */
function objectIn(line: Uint8Array): string {
  const { object } = JSON.parse(Buffer.from(line).toString()) as { object: unknown };
  return JSON.stringify(object);
}

function eventLine(type: string, object: string): Buffer {
  return Buffer.from(`{"type":"${type}","object":${object}}\n`);
}
