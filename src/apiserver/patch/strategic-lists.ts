/**
 * How a strategic merge patch merges two lists: by a merge key, as a set of primitives, or not at all. The merged list keeps the
 * order of the patch for what the patch names; what only the server has stays where it was relative to its old neighbours.
 */
import type { Shape } from '../../kube/objects/schema.ts';
import { goValue } from './go-value.ts';
import { fieldOf, isList, isObject } from './json-value.ts';
import type { Json, JsonList, JsonObject } from './json-value.ts';
import { PatchError, cannotApply } from './patch-error.ts';
import { markerOf, withoutDirectives } from './strategic-directives.ts';

type ListRule =
  | { readonly kind: 'replace' }
  | { readonly kind: 'set' }
  | { readonly kind: 'keyed'; readonly key: string };

export function listRule(shape: Shape<unknown> | undefined): ListRule {
  if (shape?.type !== 'list' || shape.isReplaced) return { kind: 'replace' };
  if (shape.isSet) return { kind: 'set' };
  const key = shape.keys?.[0];
  return key === undefined ? { kind: 'replace' } : { kind: 'keyed', key };
}

/** Merges what two items with the same key say. */
type MergeItem = (original: JsonObject, patch: JsonObject) => JsonObject;

export function mergeLists(original: JsonList, patch: JsonList, rule: ListRule, mergeItem: MergeItem): JsonList {
  if (rule.kind !== 'keyed') {
    checkItems([...original, ...patch], (item) => !isObject(item));
    return setOrder([...new Set([...original, ...patch])], patch, original, rule);
  }
  checkItems([...original, ...patch], isObject);
  const { replaces, deleted, plain } = readItems(patch.filter(isObject), rule.key);
  // As it is, doubles included: a node's addresses are sent this way, and two of them may have the same type.
  if (replaces) return plain.map(withoutDirectives);
  const kept = original.filter(isObject).filter((item) => !deleted.has(fieldOf(item, rule.key) ?? null));
  return setOrder(mergeItems(kept, plain, rule.key, mergeItem), plain, kept, rule);
}

interface PatchItems {
  /** `{$patch: replace}`: the list becomes the plain items. */
  readonly replaces: boolean;
  /** Keys of the items to delete. */
  readonly deleted: ReadonlySet<Json>;
  readonly plain: readonly JsonObject[];
}

function readItems(patch: readonly JsonObject[], key: string): PatchItems {
  const plain: JsonObject[] = [];
  const deleted = new Set<Json>();
  let replaces = false;
  for (const item of patch) {
    const marker = markerOf(item);
    if (marker === undefined) plain.push(item);
    else if (marker === 'replace') replaces = true;
    else if (marker === 'delete') deleted.add(keyOf(item, key));
    else if (marker === 'merge') throw new PatchError('invalid', 'merging lists cannot yet be specified in the patch');
    else throw new PatchError('invalid', `unknown patch type: ${goValue(marker)} in map: ${goValue(item)}`);
  }
  return { replaces, deleted, plain };
}

function mergeItems(
  original: readonly JsonObject[],
  patch: readonly JsonObject[],
  key: string,
  mergeItem: MergeItem,
): readonly JsonObject[] {
  const merged = [...original];
  // Of items with the same key the first one is merged: ports differ by protocol too, which this kind of patch cannot say.
  const positions = new Map(positionsOf(merged, (item) => keyOf(item, key)));
  for (const item of patch) {
    const value = keyOf(item, key);
    const position = positions.get(value) ?? merged.length;
    const present = merged[position];
    positions.set(value, position);
    merged[position] = present === undefined ? withoutDirectives(item) : mergeItem(present, item);
  }
  return merged;
}

/** What `order` names comes in that order; the rest keeps its place relative to what was there before. */
export function setOrder(merged: JsonList, order: JsonList, server: JsonList, rule: ListRule): JsonList {
  if (rule.kind === 'replace' && merged.some(isObject)) return merged;
  const identity = identityOf(rule);
  const ordered = positionsOf(order, identity);
  const before = positionsOf(server, identity);
  const named = merged
    .filter((item) => ordered.has(identity(item)))
    .sort((a, b) => (ordered.get(identity(a)) ?? 0) - (ordered.get(identity(b)) ?? 0));
  const others = merged.filter((item) => !ordered.has(identity(item)));
  const result: Json[] = [];
  let next = 0;
  for (const item of named) {
    const limit = before.get(identity(item)) ?? -1;
    for (let other = others[next]; other !== undefined; other = others[next]) {
      if ((before.get(identity(other)) ?? Infinity) >= limit) break;
      result.push(other);
      next += 1;
    }
    result.push(item);
  }
  return [...result, ...others.slice(next)];
}

/** The patch's items must come in the order that the patch asks for, and none may be missing from it. */
export function checkOrder(items: JsonList, order: JsonList, rule: ListRule): void {
  if (order.length === 0) return;
  const identity = identityOf(rule);
  const plain = items.filter((item) => markerOf(item) === undefined);
  let next = 0;
  for (const item of order) {
    const candidate = plain[next];
    if (candidate !== undefined && identity(candidate) === identity(item)) next += 1;
  }
  if (next < plain.length) {
    const text = `The order in patch list:\n${goValue(items)}\n doesn't match $setElementOrder list:\n${goValue(order)}\n`;
    throw new PatchError('invalid', text);
  }
}

export function removeValues(list: JsonList, values: JsonList): JsonList {
  if ([...list, ...values].some(isObject)) {
    throw new PatchError('malformed', 'invalid patch format of primitive list');
  }
  const removed = new Set(values);
  return list.filter((item) => !removed.has(item));
}

function positionsOf(list: JsonList, identity: (item: Json) => Json): ReadonlyMap<Json, number> {
  const positions = new Map<Json, number>();
  for (const [position, item] of list.entries()) {
    const value = identity(item);
    if (!positions.has(value)) positions.set(value, position);
  }
  return positions;
}

function identityOf(rule: ListRule): (item: Json) => Json {
  return rule.kind === 'keyed' ? (item) => keyOf(item, rule.key) : (item) => item;
}

function keyOf(item: Json, key: string): Json {
  const value = isObject(item) ? fieldOf(item, key) : undefined;
  if (value === undefined) {
    throw new PatchError('invalid', `map: ${goValue(item)} does not contain declared merge key: ${key}`);
  }
  return value;
}

function checkItems(items: JsonList, isFitting: (item: Json) => boolean): void {
  if (items.some(isList)) throw cannotApply('lists of lists are not supported');
  if (!items.every(isFitting))
    throw new PatchError('invalid', `list element types are not identical: ${goValue(items)}`);
}
