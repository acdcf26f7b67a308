/**
 * What a change of the store means to a watch: an event or nothing. With selectors an object that begins to match is added and
 * one that ceases to is deleted, whatever really happened to it.
 */
import type { KubeObject } from '../resource.ts';
import type { Change } from '../store/store.ts';
import type { Selection } from './selection.ts';
import { parseStored, storedText } from './write-context.ts';

export type EventType = 'ADDED' | 'MODIFIED' | 'DELETED';

export interface WatchEvent {
  readonly type: EventType;
  readonly object: string;
}

/** One change, looked at by many watches: parsed once, printed once. */
export class SharedChange {
  readonly #change: Change;
  readonly #lines = new Map<string, Buffer>();
  #object: KubeObject | undefined;
  #previous: KubeObject | undefined;
  #departed: string | undefined;

  constructor(change: Change) {
    this.#change = change;
  }

  eventFor(selection: Selection): WatchEvent | undefined {
    const { type, value, previous } = this.#change;
    const wasIn = previous !== undefined && (selection.isEverything || selection.matches(this.#before(previous)));
    if (type === 'delete') return wasIn ? { type: 'DELETED', object: value } : undefined;
    const isIn = selection.isEverything || selection.matches(this.#after(value));
    if (isIn) return { type: wasIn ? 'MODIFIED' : 'ADDED', object: value };
    return wasIn ? { type: 'DELETED', object: this.#departedText(previous) } : undefined;
  }

  /** The event as the line that is sent, the same bytes for all watches. */
  line({ type, object }: WatchEvent): Buffer {
    const key = object === this.#change.value ? type : `${type} departed`;
    let line = this.#lines.get(key);
    if (line === undefined) {
      line = eventLine(type, object);
      this.#lines.set(key, line);
    }
    return line;
  }

  #after(value: string): KubeObject {
    return (this.#object ??= parseStored(value));
  }

  #before(previous: string): KubeObject {
    return (this.#previous ??= parseStored(previous));
  }

  /** Who leaves a selection is seen for the last time as it was, but at the time it left. */
  #departedText(previous: string): string {
    return (this.#departed ??= storedText(this.#before(previous), this.#change.revision));
  }
}

export function eventLine(type: string, object: string): Buffer {
  return Buffer.from(`{"type":"${type}","object":${object}}\n`);
}
