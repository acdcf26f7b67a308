/**
 * JSON as values, and the few operations that all patches share. Keys come from clients: reading looks at own properties
 * only and writing goes through `setField`, so that a key named `__proto__` or `constructor` is a key like any other.
 */
import { MountletError } from '../../base/errors.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';

export type Json = null | boolean | number | string | JsonList | JsonObject;
export type JsonList = readonly Json[];
export interface JsonObject {
  readonly [key: string]: Json;
}
/** An object while it is being built; its readers see a JsonObject. */
export type JsonFields = Record<string, Json>;

/**
 * Kubernetes objects nest about twenty levels deep and Go's JSON reader gives up at 10,000. This limit keeps the recursive
 * functions here, and those that read and print the result, far from the end of the stack.
 */
const depthMax = 1000;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isList(value: Json | undefined): value is JsonList {
  return Array.isArray(value);
}

export function fieldOf(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** An object in an object's field, or an empty one where there is none. */
export function objectIn(object: JsonObject, key: string): JsonObject {
  const value = fieldOf(object, key);
  return isObject(value) ? value : {};
}

export function setField(object: JsonFields, key: string, value: Json): void {
  if (key !== '__proto__') object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

/** A shallow copy with one field set, or taken away where the value is undefined. */
export function withField(object: JsonObject, key: string, value: Json | undefined): JsonObject {
  const result: JsonFields = {};
  let isThere = value === undefined;
  for (const [name, old] of Object.entries(object)) {
    if (name !== key) setField(result, name, old);
    else if (value !== undefined) setField(result, name, value);
    isThere ||= name === key;
  }
  if (!isThere && value !== undefined) setField(result, key, value);
  return result;
}

export function copyFields(object: JsonObject): JsonFields {
  const result: JsonFields = {};
  for (const [key, value] of Object.entries(object)) setField(result, key, value);
  return result;
}

export function isEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (isList(a)) return isList(b) && a.length === b.length && a.every((item, index) => isEqual(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

/** Refuses a value that is nested too deeply to be worked on. Goes level by level itself, so any depth may be given. */
export function checkDepth(value: Json): void {
  let level: Json[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > depthMax) throw new PatchError('malformed', `exceeded max depth of ${depthMax}`);
    const next: Json[] = [];
    for (const item of level) {
      if (typeof item !== 'object' || item === null) continue;
      for (const child of isList(item) ? item : Object.values(item)) if (typeof child === 'object') next.push(child);
    }
    level = next;
  }
}

/** A JSON value as Go prints it with `%v`, because the API server's messages about patches carry values in this form. */
export function goValue(value: Json | undefined): string {
  if (value === undefined || value === null) return '<nil>';
  if (isList(value)) return `[${value.map(goValue).join(' ')}]`;
  if (isObject(value)) {
    const fields = Object.keys(value).sort(compareByteOrder);
    return `map[${fields.map((key) => `${key}:${goValue(value[key])}`).join(' ')}]`;
  }
  return String(value);
}

/** The name Go's JSON decoder has for the kind of a value: `cannot unmarshal object into …`. */
export function goKind(value: Json | undefined): string {
  if (isList(value)) return 'array';
  if (isObject(value)) return 'object';
  if (typeof value === 'boolean') return 'bool';
  return value === null || value === undefined ? 'null' : typeof value;
}

type PatchErrorKind =
  /** The patch itself makes no sense: 400. */
  | 'malformed'
  /** The patch cannot be applied to this object: 422. */
  | 'invalid'
  /** 413. */
  | 'tooLarge';

/** A patch that was refused. The request's handler turns it into a Status; the message is the API server's own. */
export class PatchError extends MountletError {
  readonly reason = 'PatchRefused';
  readonly kind: PatchErrorKind;

  constructor(kind: PatchErrorKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The API server answers many failures with this one sentence and keeps the reason to itself. */
export function cannotApply(): PatchError {
  return new PatchError('invalid', 'the server rejected our request due to an error in our request');
}
