/**
 * Gives the store's changes to everyone who watches: to each watcher every change of its prefix after its revision, once, in
 * order, without a gap. The cost for a watcher of a change is one write of bytes that are there already: watchers of the same
 * prefix, filter and form are one channel, and a commit is selected, printed and joined once for each channel.
 */
import type { Clock } from '../../base/clock.ts';
import type { Change, Store } from '../store/store.ts';
import { type EventForm, type ChangeFilter, WatchedChange, everything } from './watch-event.ts';
import { type WatchSink, Watcher, type WatcherLimits } from './watcher.ts';

export interface WatchRequest {
  /** Ends with `/`, or is the key of one object. */
  readonly prefix: string;
  /** Changes after this revision; one that is not reached yet waits for it. */
  readonly after: number;
  readonly filter?: ChangeFilter;
  readonly form: EventForm;
  readonly wantsBookmarks: boolean;
  /** Sent before the changes, drawn as the sink takes it: the state at `after`, where that was asked for. */
  readonly initial?: Iterable<Uint8Array>;
}

/** Who watches the same thing in the same way. */
interface Channel {
  readonly prefix: string;
  readonly filter: ChangeFilter;
  readonly form: EventForm;
  readonly watchers: Set<Watcher>;
  /** Of the commit that is being given out. */
  events: ChannelEvent[];
}

interface ChannelEvent {
  readonly revision: number;
  readonly bytes: Uint8Array;
}

/** Watchers that come back together (after a restart, a lost network) read the same part of the log: it is printed once. */
const recentChangesMax = 256;
const recentBytesMax = 16 * 1024 * 1024;
/** A replay is written in pieces of about this size. */
const replayPieceBytes = 64 * 1024;

export class WatchHub {
  readonly #store: Store;
  readonly #limits: WatcherLimits;
  readonly #channels = new Map<string, Map<ChangeFilter, Map<EventForm, Channel>>>();
  readonly #watchers = new Map<Watcher, Channel>();
  readonly #recent = new Map<Change, WatchedChange>();
  #recentBytes = 0;
  /** All changes up to this one have been given to their watchers. */
  #lastBroadcast: number;
  readonly #unsubscribe: () => void;

  constructor(store: Store, limits: WatcherLimits) {
    this.#store = store;
    this.#limits = limits;
    this.#lastBroadcast = store.revision;
    this.#unsubscribe = store.subscribe((changes) => this.#broadcast(changes));
  }

  get size(): number {
    return this.#watchers.size;
  }

  /** Throws a CompactedError when the log does not reach back to `after`. */
  watch(request: WatchRequest, sink: WatchSink): Watcher {
    const { prefix, after, filter = everything, form, wantsBookmarks, initial = [] } = request;
    // Here, and not when it is drawn: what comes after this moment comes live.
    const missed = this.#store.changesAfter(after, prefix).filter(({ key }) => concerns(prefix, key));
    const start = {
      after: Math.max(after, this.#store.revision),
      replay: this.#replay(initial, missed, filter, form),
      wantsBookmarks,
    };
    const watcher = new Watcher(sink, this.#limits, start, (over) => this.#forget(over));
    const channel = this.#channel(prefix, filter, form);
    channel.watchers.add(watcher);
    this.#watchers.set(watcher, channel);
    watcher.pump();
    return watcher;
  }

  /** Writes a bookmark. False when none is wanted, or something older is still to be written. */
  bookmark(watcher: Watcher): boolean {
    const channel = this.#watchers.get(watcher);
    if (channel === undefined || !watcher.wantsBookmarks || !watcher.isIdle) return false;
    // A watcher that waits for a later revision must not get an earlier one.
    watcher.deliver(channel.form.bookmark(Math.max(watcher.startsAfter, this.#lastBroadcast)), 0);
    return true;
  }

  /** Bookmarks for all who want them, again and again, until the signal. */
  async runBookmarks(clock: Clock, intervalMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await clock.sleep(intervalMs, signal);
      } catch {
        return;
      }
      for (const watcher of this.#watchers.keys()) this.bookmark(watcher);
    }
  }

  /** Ends all watches, as at a shutdown. Clients come back with the revision they have. */
  close(): void {
    this.#unsubscribe();
    for (const watcher of this.#watchers.keys()) watcher.end('closed');
  }

  #broadcast(changes: readonly Change[]): void {
    const touched = new Set<Channel>();
    for (const change of this.#channels.size === 0 ? [] : changes) {
      for (const channel of this.#channelsOf(change.key)) {
        try {
          const bytes = this.#printed(change, channel.filter, channel.form);
          if (bytes === undefined) continue;
          channel.events.push({ revision: change.revision, bytes });
          touched.add(channel);
        } catch (error) {
          // What this form cannot print concerns who asked for it.
          for (const watcher of channel.watchers) watcher.end('failed', error);
        }
      }
    }
    for (const channel of touched) {
      const { events } = channel;
      channel.events = [];
      deliver(channel.watchers, events);
    }
    this.#lastBroadcast = changes.at(-1)?.revision ?? this.#lastBroadcast;
  }

  /** Those of every prefix of the key that ends with a slash, and of the key itself. */
  *#channelsOf(key: string): Generator<Channel> {
    for (let end = key.indexOf('/'); end !== -1; end = key.indexOf('/', end + 1)) {
      yield* this.#channelsAt(key.slice(0, end + 1));
    }
    yield* this.#channelsAt(key);
  }

  *#channelsAt(prefix: string): Generator<Channel> {
    for (const byForm of this.#channels.get(prefix)?.values() ?? []) yield* byForm.values();
  }

  #channel(prefix: string, filter: ChangeFilter, form: EventForm): Channel {
    let byFilter = this.#channels.get(prefix);
    if (byFilter === undefined) this.#channels.set(prefix, (byFilter = new Map()));
    let byForm = byFilter.get(filter);
    if (byForm === undefined) byFilter.set(filter, (byForm = new Map()));
    let channel = byForm.get(form);
    if (channel === undefined) {
      channel = { prefix, filter, form, watchers: new Set(), events: [] };
      byForm.set(form, channel);
    }
    return channel;
  }

  #forget(watcher: Watcher): void {
    const channel = this.#watchers.get(watcher);
    if (channel === undefined) return;
    this.#watchers.delete(watcher);
    channel.watchers.delete(watcher);
    if (channel.watchers.size > 0) return;
    const byFilter = this.#channels.get(channel.prefix);
    const byForm = byFilter?.get(channel.filter);
    byForm?.delete(channel.form);
    if (byForm?.size === 0) byFilter?.delete(channel.filter);
    if (byFilter?.size === 0) this.#channels.delete(channel.prefix);
  }

  *#replay(
    initial: Iterable<Uint8Array>,
    missed: readonly Change[],
    filter: ChangeFilter,
    form: EventForm,
  ): Generator<Uint8Array> {
    yield* initial;
    let piece: Uint8Array[] = [];
    let bytes = 0;
    for (const change of missed) {
      const printed = this.#printed(change, filter, form);
      if (printed === undefined) continue;
      piece.push(printed);
      bytes += printed.length;
      if (bytes < replayPieceBytes) continue;
      yield joined(piece);
      piece = [];
      bytes = 0;
    }
    if (piece.length > 0) yield joined(piece);
  }

  #printed(change: Change, filter: ChangeFilter, form: EventForm): Uint8Array | undefined {
    const watched = this.#watched(change);
    const type = filter(watched);
    return type === undefined ? undefined : watched.bytes(form, type);
  }

  #watched(change: Change): WatchedChange {
    let watched = this.#recent.get(change);
    if (watched !== undefined) return watched;
    watched = new WatchedChange(change);
    this.#recent.set(change, watched);
    this.#recentBytes += change.value.length;
    for (const oldest of this.#recent.keys()) {
      if (oldest === change || (this.#recent.size <= recentChangesMax && this.#recentBytes <= recentBytesMax)) break;
      this.#recent.delete(oldest);
      this.#recentBytes -= oldest.value.length;
    }
    return watched;
  }
}

function deliver(watchers: ReadonlySet<Watcher>, events: readonly ChannelEvent[]): void {
  const all = joined(events.map(({ bytes }) => bytes));
  const first = events[0]?.revision ?? 0;
  for (const watcher of watchers) {
    if (watcher.startsAfter < first) watcher.deliver(all, events.length);
    else {
      const later = events.filter(({ revision }) => revision > watcher.startsAfter);
      if (later.length > 0) watcher.deliver(joined(later.map(({ bytes }) => bytes)), later.length);
    }
  }
}

function concerns(prefix: string, key: string): boolean {
  return prefix.endsWith('/') ? key.startsWith(prefix) : key === prefix;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces;
  return pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces);
}
