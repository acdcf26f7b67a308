/**
 * How server-side apply sees a value: as a leaf that is set and owned as a whole, as fields, or as items with an identity. It
 * follows from the shape; where the shape says nothing (`any`), from the value.
 */
import type { Shape } from '../../kube/objects/schema.ts';
import { fieldOf, isObject } from './json-value.ts';
import type { Json } from './json-value.ts';
import { elementText, keyElement, valueElement } from './path-element.ts';
import type { PathElement } from './path-element.ts';

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

/** Fields that the shape names are there by nature; keys of maps are there because somebody put them. */
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
