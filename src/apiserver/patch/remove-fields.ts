/** Takes the fields of a set, and only these, out of an object. */
import type { FieldSet } from './field-set.ts';
import { isList, isObject, setField } from './json-value.ts';
import type { Json, JsonFields, JsonObject } from './json-value.ts';
import { layoutOf, shapeOfField } from './layout.ts';
import type { TypeShape } from './layout.ts';
import { fieldElement } from './path-element.ts';

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
