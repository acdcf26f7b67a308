/** Lays an applied configuration over the live object. Nothing is removed by it; that is decided by ownership afterwards. */
import { type FieldSet, type PathElement, fieldElement } from './field-set.ts';
import {
  type Json,
  type JsonFields,
  type JsonList,
  type JsonObject,
  copyFields,
  fieldOf,
  isList,
  isObject,
  setField,
} from './json-value.ts';
import { type Layout, type TypeShape, layoutOf, shapeOfField } from './layout.ts';

export function mergeApplied(live: JsonObject, applied: JsonObject, shape: TypeShape): JsonObject {
  return mergeFields(live, applied, shape);
}

function merge(live: Json | undefined, applied: Json, shape: TypeShape): Json | undefined {
  const layout = layoutOf(shape, applied);
  if (layout.kind === 'fields') {
    if (isObject(applied)) return mergeFields(isObject(live) ? live : {}, applied, shape);
    // Null for something with parts asks for nothing: the parts stay, and the applier owns the null.
    if (isObject(live) && Object.keys(live).length > 0) return live;
  }
  if (layout.kind === 'items') {
    const items = isList(applied) ? applied : [];
    if (isList(live) && live.length > 0) return mergeItems(live, items, layout);
    // A list that is united from items and has none is the same as no list: it has no owner that could remove it.
    if (isList(applied) && items.length === 0) return live;
  }
  return applied;
}

function mergeFields(live: JsonObject, applied: JsonObject, shape: TypeShape): JsonObject {
  const result: JsonFields = copyFields(live);
  for (const [name, value] of Object.entries(applied)) {
    const merged = merge(fieldOf(live, name), value, shapeOfField(shape, name));
    if (merged !== undefined) setField(result, name, merged);
  }
  return result;
}

/**
 * The applier decides the order of the items it names. An item only the live object has stays behind the live item it
 * stood behind, as long as that does not break the applier's order.
 */
function mergeItems(live: JsonList, applied: JsonList, layout: Layout & { kind: 'items' }): JsonList {
  const left = live.map((item) => ({ item, element: layout.elementOf(item) }));
  const right = applied.map((item) => ({ item, element: layout.elementOf(item) }));
  const liveItems = uniqueItems(left);
  const wanted = new Set(right.map(({ element }) => element));
  const shared = right.map(({ element }) => element).filter((element) => liveItems.has(element));
  const taken = new Set<PathElement>();
  const result: Json[] = [];
  let [l, r, s] = [0, 0, 0];
  const takeApplied = ({ item, element }: Item): void => {
    taken.add(element);
    result.push(merge(liveItems.get(element), item, layout.item) ?? item);
    if (shared[s] === element) s += 1;
    r += 1;
  };
  while (l < left.length || r < right.length) {
    const [own, next] = [left[l], right[r]];
    if (own === undefined || (own.element === next?.element && !taken.has(own.element))) {
      l += 1;
      if (next !== undefined) takeApplied(next);
    } else if (!wanted.has(own.element)) {
      l += 1;
      result.push(own.item);
    } else if (next !== undefined && s < shared.length && shared[s] !== own.element) {
      l += 1; // its turn in the applier's order comes later, or was before
    } else {
      if (taken.has(own.element)) l += 1;
      if (next !== undefined) takeApplied(next);
    }
  }
  return result;
}

interface Item {
  readonly item: Json;
  readonly element: PathElement;
}

/** Live items by identity. Those that cannot be told apart are not merged with, and the applier's item takes their place. */
function uniqueItems(items: readonly Item[]): ReadonlyMap<PathElement, Json | undefined> {
  const result = new Map<PathElement, Json | undefined>();
  for (const { item, element } of items) result.set(element, result.has(element) ? undefined : item);
  return result;
}

/** Takes the fields of a set, and only these, out of an object. */
export function removeFields(object: JsonObject, set: FieldSet, shape: TypeShape): JsonObject {
  const result = remove(object, set, shape);
  return isObject(result) ? result : {};
}

/** Undefined where nothing is left: an object that only held removed fields goes with them. */
function remove(value: Json, set: FieldSet, shape: TypeShape): Json | undefined {
  if (set.isEmpty) return value;
  const layout = layoutOf(shape, value);
  if (layout.kind === 'fields' && isObject(value)) {
    const result: JsonFields = {};
    for (const [name, field] of Object.entries(value)) {
      const element = fieldElement(name);
      const kept = set.has(element) ? undefined : remove(field, set.below(element), shapeOfField(shape, name));
      if (kept !== undefined) setField(result, name, kept);
    }
    return Object.keys(result).length > 0 || Object.keys(value).length === 0 ? result : undefined;
  }
  if (layout.kind === 'items' && isList(value)) {
    const result = value.flatMap((item) => {
      const element = layout.elementOf(item);
      const kept = set.has(element) ? undefined : remove(item, set.below(element), layout.item);
      return kept === undefined ? [] : [kept];
    });
    return result.length > 0 || value.length === 0 ? result : undefined;
  }
  return value;
}
