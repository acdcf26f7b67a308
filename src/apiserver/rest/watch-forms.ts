/**
 * What watches have in common: one selection for each selector in use and one way of printing for each kind, so that the hub
 * selects and prints a change once for all who ask the same.
 */
import type { Resource } from '../resource.ts';
import { apiVersionOf } from '../resources.ts';
import type { Representation, Selection, WatchedChange } from '../watch-event.ts';
import { everything, jsonEvents, selecting } from '../watch-event.ts';
import type { Encoding } from './representation.ts';
import { objectText } from './representation.ts';
import type { Selection as Selectors } from './selection.ts';

interface Shared {
  readonly selection: Selection;
  users: number;
}

/** How one watch sees objects. */
export interface WatchForm {
  readonly events: Representation;
  /** A stored object's text as the watch shows it. */
  text(stored: string): string;
}

export class WatchForms {
  readonly #plain = new Map<Resource, WatchForm>();
  readonly #selections = new Map<string, Shared>();

  /** `key` names the selection: equal keys mean equal selections. Returns it and how to give it back. */
  selection(key: string, selectors: Selectors): readonly [Selection, () => void] {
    if (selectors.isEverything) return [everything, () => {}];
    const known = this.#selections.get(key);
    const shared = known ?? { selection: selecting((object) => selectors.matches(object)), users: 0 };
    shared.users += 1;
    this.#selections.set(key, shared);
    return [
      shared.selection,
      () => {
        shared.users -= 1;
        if (shared.users === 0) this.#selections.delete(key);
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
  const events: Representation = {
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

export function eventLine(type: string, object: string): Buffer {
  return Buffer.from(`{"type":"${type}","object":${object}}\n`);
}
