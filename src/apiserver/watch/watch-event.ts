/**
 * One change on its way to watchers: parsed at most once and printed at most once for each way of printing it, however many
 * watch. What a selector makes of a change is here; who watches what is in `watch-hub.ts`.
 */
import type { KubeObject } from '../model/resource.ts';
import { parseStored } from '../model/stored-objects.ts';
import type { Change } from '../store/store.ts';

type WatchEventType = 'ADDED' | 'MODIFIED' | 'DELETED';

/**
 * What a change means to a watcher; undefined where it does not concern it. Watchers with the same function object share
 * its answer, so a server keeps one for each selector in use.
 */
export type ChangeFilter = (watched: WatchedChange) => WatchEventType | undefined;

/** A way of printing events. Watchers with the same object share the bytes. */
export interface EventForm {
  event(type: WatchEventType, watched: WatchedChange): Uint8Array;
  bookmark(revision: number): Uint8Array;
}

export class WatchedChange {
  readonly change: Change;
  #current: KubeObject | undefined;
  #previous: KubeObject | undefined;
  readonly #printed = new Map<EventForm, Map<WatchEventType, Uint8Array>>();

  constructor(change: Change) {
    this.change = change;
  }

  /** After the change; undefined when it was deleted. */
  get current(): KubeObject | undefined {
    if (this.change.type === 'delete') return undefined;
    this.#current ??= parseStored(this.change.value);
    return this.#current;
  }

  /** Before the change; undefined when it did not exist. */
  get previous(): KubeObject | undefined {
    if (this.change.previous === undefined) return undefined;
    this.#previous ??= parseStored(this.change.previous);
    return this.#previous;
  }

  bytes(form: EventForm, type: WatchEventType): Uint8Array {
    let byType = this.#printed.get(form);
    if (byType === undefined) this.#printed.set(form, (byType = new Map()));
    let bytes = byType.get(type);
    if (bytes === undefined) byType.set(type, (bytes = form.event(type, this)));
    return bytes;
  }
}

/** Without a selector nothing needs to be parsed. */
export const everything: ChangeFilter = ({ change }) => {
  if (change.type === 'delete') return 'DELETED';
  return change.previous === undefined ? 'ADDED' : 'MODIFIED';
};

/** Entering a filter is an addition and leaving it a deletion, whatever happened to the object. */
export function selecting(matches: (object: KubeObject) => boolean): ChangeFilter {
  return ({ current, previous }) => {
    const was = previous !== undefined && matches(previous);
    const is = current !== undefined && matches(current);
    if (is) return was ? 'MODIFIED' : 'ADDED';
    return was ? 'DELETED' : undefined;
  };
}

/** One line of JSON for each event, with the object's text as it is stored. */
export function jsonEvents({ apiVersion, kind }: { readonly apiVersion: string; readonly kind: string }): EventForm {
  return {
    event: (type, watched) => Buffer.from(`{"type":"${type}","object":${objectText(type, watched)}}\n`),
    bookmark: (revision) => {
      const metadata = { resourceVersion: String(revision), creationTimestamp: null };
      return Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object: { kind, apiVersion, metadata } })}\n`);
    },
  };
}

/** Of an object that leaves a filter, watchers get what they knew last, with the revision of this change. */
function objectText(type: WatchEventType, { change, previous }: WatchedChange): string {
  if (type !== 'DELETED' || change.type === 'delete' || previous === undefined) return change.value;
  return JSON.stringify({ ...previous, metadata: { ...previous.metadata, resourceVersion: String(change.revision) } });
}
