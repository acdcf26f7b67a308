/**
 * JSON patch (RFC 6902) and JSON merge patch (RFC 7386). A path is followed through own properties and plain indexes alone,
 * copies are counted, and every failure has the API server's words.
 */
import {
  type Json,
  type JsonFields,
  type JsonObject,
  PatchError,
  cannotApply,
  checkDepth,
  copyFields,
  fieldOf,
  goKind,
  isEqual,
  isList,
  isObject,
  objectIn,
  setField,
} from './json-value.ts';

const operationsMax = 10_000;
/** As much as a request may carry: without a limit, a few copies of copies fill any memory. */
const copiedBytesMax = 3 * 1024 * 1024;

export function applyJsonPatch(document: JsonObject, operations: Json): JsonObject {
  if (!isList(operations)) throw undecodable(goKind(operations), '[]handlers.jsonPatchOp');
  if (operations.length > operationsMax) {
    const text = `The allowed maximum operations in a JSON patch is ${operationsMax}, got ${operations.length}`;
    throw new PatchError('tooLarge', `Request entity too large: ${text}`);
  }
  checkDepth(operations);
  const patching = new Patching(document);
  for (const operation of operations.map(readOperation)) patching.apply(operation);
  return patching.result();
}

interface Operation {
  readonly op: string;
  readonly path: string | undefined;
  readonly from: string | undefined;
  readonly value: Json | undefined;
}

function readOperation(json: Json): Operation {
  if (!isObject(json)) throw undecodable(goKind(json), 'handlers.jsonPatchOp');
  const text = (field: string): string | undefined => {
    const value = fieldOf(json, field);
    if (value === undefined || value === null || typeof value === 'string') return value ?? undefined;
    throw undecodable(goKind(value), `field jsonPatchOp.${field} of type string`, 'struct ');
  };
  return { op: text('op') ?? '', path: text('path'), from: text('from'), value: fieldOf(json, 'value') };
}

function undecodable(kind: string, target: string, what = 'value of type '): PatchError {
  return new PatchError('malformed', `error decoding patch: json: cannot unmarshal ${kind} into Go ${what}${target}`);
}

class Patching {
  #document: Json;
  #copiedBytes = 0;

  constructor(document: JsonObject) {
    this.#document = copyOf(document);
  }

  result(): JsonObject {
    if (!isObject(this.#document)) throw cannotApply();
    checkDepth(this.#document);
    return this.#document;
  }

  apply({ op, path, from, value }: Operation): void {
    if (path === undefined) throw cannotApply();
    switch (op) {
      case 'add':
      case 'replace':
        if (value === undefined) throw cannotApply();
        if (op === 'replace') this.#existing(path);
        return this.#set(op, path, copyOf(value));
      case 'remove':
        return this.#remove(path);
      case 'test':
        return this.#test(path, value ?? null);
      case 'copy':
        return this.#set('add', path, this.#counted(this.#existing(from)));
      case 'move':
        return this.#move(from, path);
      default:
        throw cannotApply();
    }
  }

  #set(op: 'add' | 'replace', path: string, value: Json): void {
    const keys = keysOf(path);
    const last = keys.pop();
    if (last === undefined) {
      this.#document = value;
      return;
    }
    const parent = this.#find(keys);
    if (isObject(parent)) return setField(parent, last, value);
    if (!isList(parent)) throw cannotApply();
    const index = last === '-' ? parent.length : indexOf(last, parent.length + 1);
    if (index === undefined) throw cannotApply();
    (parent as Json[]).splice(index, op === 'replace' ? 1 : 0, value);
  }

  #remove(path: string): void {
    this.#existing(path);
    const keys = keysOf(path);
    const last = keys.pop();
    const parent = last === undefined ? undefined : this.#find(keys);
    if (last === undefined) this.#document = null;
    else if (isList(parent)) (parent as Json[]).splice(Number(last), 1);
    else delete (parent as JsonFields)[last];
  }

  #move(from: string | undefined, path: string): void {
    const value = this.#existing(from);
    if (path === from) return;
    if (path.startsWith(`${from}/`)) throw cannotApply();
    this.#remove(from ?? '');
    this.#set('add', path, value);
  }

  #counted(value: Json): Json {
    checkDepth(value);
    const text = JSON.stringify(value);
    this.#copiedBytes += Buffer.byteLength(text);
    if (this.#copiedBytes > copiedBytesMax) throw cannotApply();
    return JSON.parse(text) as Json;
  }

  #test(path: string, expected: Json): void {
    // A test for null also asks that a field be absent; clients of Kubernetes rely on it.
    const actual = expected === null ? (this.#find(keysOf(path)) ?? null) : this.#existing(path);
    if (!isEqual(actual, expected)) throw cannotApply();
  }

  #existing(path: string | undefined): Json {
    const value = path === undefined ? undefined : this.#find(keysOf(path));
    if (value === undefined) throw cannotApply();
    return value;
  }

  #find(keys: readonly string[]): Json | undefined {
    let value: Json | undefined = this.#document;
    for (const key of keys) {
      if (isObject(value)) value = fieldOf(value, key);
      else if (isList(value)) value = value[indexOf(key, value.length) ?? -1];
      else return undefined;
    }
    return value;
  }
}

function keysOf(path: string): string[] {
  if (path === '') return [];
  if (!path.startsWith('/')) throw cannotApply();
  return path
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function indexOf(key: string, length: number): number | undefined {
  const index = /^(0|[1-9][0-9]{0,8})$/.test(key) ? Number(key) : length;
  return index < length ? index : undefined;
}

/** A key named `__proto__` stays a key, and what is undefined is left out. */
function copyOf(value: Json): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

/** JSON merge patch (RFC 7386): objects merge, null deletes, everything else replaces. */
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
