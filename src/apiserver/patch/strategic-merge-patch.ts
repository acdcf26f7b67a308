/**
 * Strategic merge patch: a merge patch that knows the object's shape, so that lists with an identity merge item by item. Fields
 * whose names begin with `$` are directives to the merge and never end up in the result.
 *
 *   $patch: replace | delete | merge         of a map: take the patch alone, empty it, merge (the default)
 *   $retainKeys: [a, b]                      of a map: drop all fields but these
 *   $setElementOrder/ports: [...]            order of the merged list; the patch's own items must come in the same order
 *   $deleteFromPrimitiveList/finalizers: []  take these values out of a list of primitives
 */
import { shapeAt } from '../../kube/schema/equality.ts';
import type { Shape } from '../../kube/schema/schema.ts';
import {
  type Json,
  type JsonFields,
  type JsonList,
  type JsonObject,
  PatchError,
  cannotApply,
  checkDepth,
  copyFields,
  fieldOf,
  goKind,
  goValue,
  isList,
  isObject,
  setField,
} from './json-value.ts';

export function applyStrategicMergePatch(document: JsonObject, patch: Json, shape: Shape<unknown>): JsonObject {
  if (!isObject(patch)) {
    throw new PatchError(
      'malformed',
      `json: cannot unmarshal ${goKind(patch)} into Go value of type map[string]interface {}`,
    );
  }
  checkDepth(patch);
  return mergeObjects(document, patch, shape);
}

function mergeObjects(original: JsonObject, patch: JsonObject, shape: Shape<unknown> | undefined): JsonObject {
  const marker = markerOf(patch);
  if (marker === 'delete') return {};
  if (marker === 'replace') return withoutDirectives(patch);
  if (marker !== undefined && marker !== 'merge') {
    throw new PatchError('invalid', `unknown patch type: ${goValue(marker)} in map: ${goValue(patch)}`);
  }
  const result = retained(original, patch);
  const ordered = mergeOrderedLists(result, patch, shape);
  for (const [key, value] of Object.entries(patch)) {
    if (isDirective(key) || ordered.has(key)) continue;
    if (value === null) delete result[key];
    else setOrDrop(result, key, mergeValues(fieldOf(result, key), value, shapeAt(shape, key)));
  }
  for (const [key, values] of Object.entries(patch)) {
    const list = listToShorten(key);
    if (list !== undefined) deleteValues(result, list, values);
  }
  return result;
}

function mergeValues(original: Json | undefined, patch: Json, shape: Shape<unknown> | undefined): Json | undefined {
  if (isObject(original) && isObject(patch) && !shape?.isReplaced) return mergeObjects(original, patch, shape);
  if (!isList(original) || !isList(patch)) return newValue(patch);
  const rule = listRule(shape);
  if (rule.kind === 'replace') return newValue(patch);
  return mergeLists(original, patch, rule, (item, change) => mergeObjects(item, change, shape?.item));
}

/** Carries out each `$setElementOrder`; returns the names of the lists that are done. */
function mergeOrderedLists(
  result: JsonFields,
  patch: JsonObject,
  shape: Shape<unknown> | undefined,
): ReadonlySet<string> {
  const done = new Set<string>();
  for (const [key, order] of Object.entries(patch)) {
    const name = listToOrder(key);
    if (name === undefined) continue;
    const original = fieldOf(result, name);
    const items = fieldOf(patch, name);
    if (items === null) continue; // deleted, in whatever order
    if (!isList(order) || (original !== undefined && !isList(original)) || (items !== undefined && !isList(items))) {
      throw new PatchError('malformed', 'invalid patch format of setElementOrder list');
    }
    const rule = listRule(shapeAt(shape, name));
    if (items !== undefined) checkOrder(items, order, rule);
    const merged = items === undefined ? original : mergeValues(original, items, shapeAt(shape, name));
    if (isList(merged)) setField(result, name, setOrder(merged, order, original ?? [], rule));
    done.add(name);
  }
  return done;
}

function retained(original: JsonObject, patch: JsonObject): JsonFields {
  const result = copyFields(original);
  const kept = fieldOf(patch, retainKeys);
  if (kept === undefined) return result;
  const isWanted = (key: string): boolean => isList(kept) && kept.includes(key);
  const stray = Object.entries(patch).some(([key, value]) => !isDirective(key) && value !== null && !isWanted(key));
  if (!isList(kept) || stray) throw new PatchError('malformed', 'invalid patch format of retainKeys');
  for (const key of Object.keys(result)) if (!isWanted(key)) delete result[key];
  return result;
}

function deleteValues(result: JsonFields, key: string, values: Json): void {
  if (!isList(values)) throw new PatchError('malformed', 'invalid patch format of primitive list');
  const list = fieldOf(result, key);
  if (isList(list)) setField(result, key, removeValues(list, values));
}

function setOrDrop(result: JsonFields, key: string, value: Json | undefined): void {
  if (value === undefined) delete result[key];
  else setField(result, key, value);
}

/**
 * How a strategic merge patch merges two lists: by a merge key, as a set of primitives, or not at all. The merged list keeps the
 * order of the patch for what the patch names; what only the server has stays where it was relative to its old neighbours.
 */
type ListRule =
  | { readonly kind: 'replace' }
  | { readonly kind: 'set' }
  | { readonly kind: 'keyed'; readonly key: string };

function listRule(shape: Shape<unknown> | undefined): ListRule {
  if (shape?.type !== 'list' || shape.isReplaced) return { kind: 'replace' };
  if (shape.isSet) return { kind: 'set' };
  const key = shape.keys?.[0];
  return key === undefined ? { kind: 'replace' } : { kind: 'keyed', key };
}

/** Merges what two items with the same key say. */
type MergeItem = (original: JsonObject, patch: JsonObject) => JsonObject;

function mergeLists(original: JsonList, patch: JsonList, rule: ListRule, mergeItem: MergeItem): JsonList {
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
function setOrder(merged: JsonList, order: JsonList, server: JsonList, rule: ListRule): JsonList {
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
function checkOrder(items: JsonList, order: JsonList, rule: ListRule): void {
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

function removeValues(list: JsonList, values: JsonList): JsonList {
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
  if (items.some(isList)) throw cannotApply();
  if (!items.every(isFitting))
    throw new PatchError('invalid', `list element types are not identical: ${goValue(items)}`);
}

/**
 * The directives of a strategic merge patch: fields whose names begin with `$` and that direct the merge. They never end
 * up in an object, also where there is nothing to merge with and the patch's value is taken as it is.
 */
const retainKeys = '$retainKeys';
const marker = '$patch';
const deletePrefix = '$deleteFromPrimitiveList';
const orderPrefix = '$setElementOrder';

function isDirective(key: string): boolean {
  return key === marker || key === retainKeys || key.startsWith(orderPrefix) || key.startsWith(deletePrefix);
}

/** What `$patch` says, of a map or of an item of a list. */
function markerOf(value: Json): Json | undefined {
  return isObject(value) ? fieldOf(value, marker) : undefined;
}

/** `ports` of `$setElementOrder/ports`; undefined for any other field. */
function listToOrder(key: string): string | undefined {
  return target(key, orderPrefix, 'invalid patch format of setElementOrder list');
}

/** `finalizers` of `$deleteFromPrimitiveList/finalizers`; undefined for any other field. */
function listToShorten(key: string): string | undefined {
  return target(key, deletePrefix, 'invalid patch format of primitive list');
}

function target(key: string, prefix: string, problem: string): string | undefined {
  if (!key.startsWith(prefix)) return undefined;
  if (!key.startsWith(`${prefix}/`)) throw new PatchError('malformed', problem);
  return key.slice(prefix.length + 1);
}

/** A value the object does not have yet, as it goes into the object; undefined where it only says what to delete. */
function newValue(value: Json): Json | undefined {
  // The items with a `$patch` speak about the list; what stands beside them is the list.
  if (isList(value)) return value.filter((item) => markerOf(item) === undefined).map((item) => newValue(item) ?? null);
  if (!isObject(value)) return value;
  return markerOf(value) === 'delete' ? undefined : withoutDirectives(value);
}

function withoutDirectives(patch: JsonObject): JsonObject {
  const result: JsonFields = {};
  for (const [key, value] of Object.entries(patch)) {
    const taken = isDirective(key) || value === null ? undefined : newValue(value);
    if (taken !== undefined) setField(result, key, taken);
  }
  return result;
}
