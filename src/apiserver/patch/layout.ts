/**
 * How server-side apply sees a value: as a leaf that is set and owned as a whole, as fields, or as items with an identity. It
 * follows from the shape; where the shape says nothing (`any`), from the value.
 */
import type { Shape } from '../../kube/schema/schema.ts';
import {
  type ElementPath,
  FieldSet,
  type PathElement,
  elementText,
  fieldElement,
  fieldName,
  keyElement,
  valueElement,
} from './field-set.ts';
import { type Json, fieldOf, isEqual, isList, isObject } from './json-value.ts';

export type TypeShape = Shape<unknown> | undefined;

export type Layout =
  | { readonly kind: 'leaf' }
  | { readonly kind: 'fields' }
  | { readonly kind: 'items'; readonly item: TypeShape; readonly elementOf: (item: Json) => PathElement };

const leaf: Layout = { kind: 'leaf' };
const fields: Layout = { kind: 'fields' };

export function layoutOf(shape: TypeShape, value: Json | undefined): Layout {
  if (shape?.isAtomic) return leaf;
  switch (shape?.type) {
    case undefined:
    case 'any':
      return isObject(value) ? fields : leaf;
    case 'map':
    case 'object':
      return fields;
    case 'list':
      return itemsOf(shape) ?? leaf;
    default:
      return leaf;
  }
}

/** The shape of a field, or of a map's value. */
export function shapeOfField(shape: TypeShape, name: string): TypeShape {
  return isNamed(shape, name) ? shape?.fields?.[name] : shape?.item;
}

/** Fields that the shape names are there by nature; keys of maps are there because a writer put them. */
export function isNamed(shape: TypeShape, name: string): boolean {
  return shape?.type === 'object' && shape.fields !== undefined && Object.hasOwn(shape.fields, name);
}

/** An item that cannot be told apart from others. */
export class ItemIdentityError extends Error {}

function itemsOf(shape: Shape<unknown>): Layout | undefined {
  if (shape.isSet) return { kind: 'items', item: shape.item, elementOf: setElement };
  const keys = shape.keys ?? [];
  if (keys.length === 0) return undefined;
  return { kind: 'items', item: shape.item, elementOf: (item) => itemElement(item, keys, shape.item) };
}

function setElement(item: Json): PathElement {
  if (typeof item !== 'object') return valueElement(item);
  throw new ItemIdentityError(
    item === null
      ? "associative list without keys has an element that's an explicit null"
      : "associative list without keys has an element that's a map type",
  );
}

function itemElement(item: Json, names: readonly string[], shape: TypeShape): PathElement {
  if (item === null) throw new ItemIdentityError('associative list with keys may not have a null element');
  if (!isObject(item)) throw new ItemIdentityError('associative list with keys may not have non-map elements');
  const keys = names.flatMap((name) => {
    const value = fieldOf(item, name) ?? absentKey(shape, name);
    return value === undefined ? [] : [[name, value] as const];
  });
  if (keys.length > 0) return keyElement(keys);
  const list = names.map((name) => elementText(valueElement(name)).slice(2, -1)).join(' ');
  throw new ItemIdentityError(
    `associative list with keys has an element that omits all key fields [${list}] (and doesn't have default values for any key fields)`,
  );
}

/** A key that must be there counts as its zero value; one that may be absent counts as absent, or as its default. */
function absentKey(shape: TypeShape, name: string): Json | undefined {
  if (!isNamed(shape, name)) return shape?.type === 'object' ? undefined : '';
  const field = shape?.fields?.[name];
  return (field?.absentMeans ?? (field?.required ? field.zero() : undefined)) as Json | undefined;
}

/** The fields that an object has, each leaf and each item by its path: what a manager owns who applies this object. */
export function extractFieldSet(object: Json, shape: TypeShape): FieldSet {
  const set = new FieldSet();
  collect(object, shape, [], set);
  return set;
}

function collect(value: Json, shape: TypeShape, path: ElementPath, set: FieldSet): void {
  const layout = layoutOf(shape, value);
  if (layout.kind === 'leaf') set.insert(path);
  else if (layout.kind === 'items') collectItems(value, layout, path, set);
  else if (isObject(value)) {
    for (const [name, field] of Object.entries(value)) {
      const inner = [...path, fieldElement(name)];
      collect(field, shapeOfField(shape, name), inner, set);
      const isHollow = field === null || (isObject(field) && Object.keys(field).length === 0);
      if (isHollow || !isNamed(shape, name)) set.insert(inner);
    }
  }
}

function collectItems(value: Json, layout: Layout & { kind: 'items' }, path: ElementPath, set: FieldSet): void {
  for (const [element, items] of groupItems(isList(value) ? value : [], layout)) {
    const inner = [...path, element];
    const [item] = items;
    // Items that cannot be told apart are owned together, without a look inside.
    if (items.length === 1 && item !== undefined) collect(item, layout.item, inner, set);
    set.insert(inner);
  }
}

/** A list's items by their identity, in the order of the list. */
function groupItems(
  items: readonly Json[],
  layout: Layout & { kind: 'items' },
): ReadonlyMap<PathElement, readonly Json[]> {
  const groups = new Map<PathElement, Json[]>();
  for (const item of items) {
    const element = layout.elementOf(item);
    const group = groups.get(element);
    if (group === undefined) groups.set(element, [item]);
    else group.push(item);
  }
  return groups;
}

/** Adds the named fields on the way to each field of the set: `spec` of `spec.nodeName`, but no key of a map and no item. */
export function withNamedAncestors(set: FieldSet, shape: TypeShape): FieldSet {
  return set.map(({ element, isMember, below }) => {
    const name = fieldName(element);
    const inner = name === undefined ? shape?.item : shapeOfField(shape, name);
    const isAdded = name !== undefined && isNamed(shape, name) && !below.isEmpty;
    return { isMember: isMember || isAdded, below: withNamedAncestors(below, inner) };
  });
}

/**
 * Which fields differ between two versions of an object, in the terms of ownership: leaves, items, and what came or went. No
 * field is in more than one of the sets. All empty: the versions are equal.
 */
export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

export function compareObjects(before: Json, after: Json, shape: TypeShape): Comparison {
  const result = { added: new FieldSet(), modified: new FieldSet(), removed: new FieldSet() };
  compare({ before, after, shape, path: [] }, result);
  return result;
}

/** One place of the two objects; undefined where a version does not have it. */
interface Place {
  readonly before: Json | undefined;
  readonly after: Json | undefined;
  readonly shape: TypeShape;
  readonly path: ElementPath;
}

function compare(place: Place, result: Comparison): void {
  const { before, after, shape, path } = place;
  const left = layoutOf(shape, before ?? after);
  const right = layoutOf(shape, after ?? before);
  // Only where the shape leaves it open: a value that became something else. Seen from both sides, all below it changed.
  if (left.kind !== right.kind) compareAs(left, place, result);
  const isLeaf = compareAs(right, place, result);
  if (isLeaf) return;
  if (before === undefined) result.added.insert(path);
  if (after === undefined) result.removed.insert(path);
}

/** True where the two sides are compared as a whole. */
function compareAs(layout: Layout, place: Place, result: Comparison): boolean {
  const { before, after } = place;
  const isHollow =
    layout.kind === 'items' ? !hasItems(before) && !hasItems(after) : !hasFields(before) && !hasFields(after);
  if (layout.kind === 'leaf' || isHollow) {
    compareLeaves(place, result);
    return true;
  }
  if (layout.kind === 'items') compareItems(layout, place, result);
  else compareFields(place, result);
  return false;
}

function compareLeaves({ before, after, path }: Place, result: Comparison): void {
  if (before === undefined) result.added.insert(path);
  else if (after === undefined) result.removed.insert(path);
  else if (!isEqual(before, after)) result.modified.insert(path);
}

function compareFields({ before, after, shape, path }: Place, result: Comparison): void {
  const left = isObject(before) ? before : {};
  const right = isObject(after) ? after : {};
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const [old, now] = [fieldOf(left, name), fieldOf(right, name)];
    // Most fields of most writes.
    if (old === now) continue;
    compare({ before: old, after: now, shape: shapeOfField(shape, name), path: [...path, fieldElement(name)] }, result);
  }
}

function compareItems(layout: Layout & { kind: 'items' }, { before, after, path }: Place, result: Comparison): void {
  const left = groupItems(isList(before) ? before : [], layout);
  const right = groupItems(isList(after) ? after : [], layout);
  for (const element of new Set([...left.keys(), ...right.keys()])) {
    const [old, now] = [left.get(element) ?? [], right.get(element) ?? []];
    const inner = { shape: layout.item, path: [...path, element] };
    // Items that cannot be told apart are one leaf. Becoming one, or ceasing to be one, takes all below with it.
    const [isOldLeaf, isNewLeaf] = [old.length > 1, now.length > 1];
    if (isOldLeaf && isNewLeaf) compareLeaves({ ...inner, before: old, after: now }, result);
    else {
      const place = { ...inner, before: isOldLeaf ? undefined : old[0], after: isNewLeaf ? undefined : now[0] };
      if (place.before !== undefined || place.after !== undefined) compare(place, result);
      if (isOldLeaf) result.removed.insert(inner.path);
      if (isNewLeaf) result.added.insert(inner.path);
    }
  }
}

function hasFields(value: Json | undefined): boolean {
  return isObject(value) && Object.keys(value).length > 0;
}

function hasItems(value: Json | undefined): boolean {
  return isList(value) && value.length > 0;
}
