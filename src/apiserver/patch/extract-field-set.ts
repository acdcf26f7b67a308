/** The fields that an object has, each leaf and each item by its path: what a manager owns who applies this object. */
import { FieldSet } from './field-set.ts';
import type { ElementPath } from './field-set.ts';
import { isList, isObject } from './json-value.ts';
import type { Json } from './json-value.ts';
import { isNamed, layoutOf, shapeOfField } from './layout.ts';
import type { Layout, TypeShape } from './layout.ts';
import { fieldElement, fieldName } from './path-element.ts';
import type { PathElement } from './path-element.ts';

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
export function groupItems(
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
