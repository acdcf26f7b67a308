/** Which fields differ between two versions of an object, in the terms of ownership: leaves, items, and what came or went. */
import { groupItems } from './extract-field-set.ts';
import { FieldSet } from './field-set.ts';
import type { ElementPath } from './field-set.ts';
import { fieldOf, isEqual, isList, isObject } from './json-value.ts';
import type { Json } from './json-value.ts';
import { layoutOf, shapeOfField } from './layout.ts';
import type { Layout, TypeShape } from './layout.ts';
import { fieldElement } from './path-element.ts';

/** No field is in more than one of the sets. All empty: the versions are equal. */
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
    // Most fields of most writes; nothing is to be told of them.
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
