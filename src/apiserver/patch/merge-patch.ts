/** JSON merge patch (RFC 7386): objects merge, null deletes, everything else replaces. */
import { goKind } from './go-value.ts';
import { checkDepth, copyFields, isObject, objectIn, setField } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { PatchError } from './patch-error.ts';

export function applyMergePatch(document: JsonObject, patch: Json): JsonObject {
  if (!isObject(patch)) {
    throw new PatchError(
      'malformed',
      `error decoding patch: json: cannot unmarshal ${goKind(patch)} into Go value of type map[string]interface {}`,
    );
  }
  checkDepth(patch);
  return merge(document, patch);
}

function merge(target: JsonObject, patch: JsonObject): JsonObject {
  const result = copyFields(target);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else setField(result, key, isObject(value) ? merge(objectIn(target, key), value) : value);
  }
  return result;
}
