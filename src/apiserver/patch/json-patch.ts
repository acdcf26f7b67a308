/**
 * JSON patch (RFC 6902). The operations are those of fast-json-patch; around them stand the checks it lacks: a path is
 * followed through own properties and plain indexes only, copies are counted, and every failure has the API server's words.
 *
 * The library is given objects without a prototype and is called only after the path was checked. So nothing is ever looked up
 * in `Object.prototype`, and a key named `__proto__` can be patched as any other.
 */
import fastJsonPatch from 'fast-json-patch';
import { goKind } from './go-value.ts';
import { checkDepth, fieldOf, isEqual, isList, isObject } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { PatchError, cannotApply } from './patch-error.ts';

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
    this.#document = withoutPrototypes(document);
  }

  /** With ordinary prototypes again. */
  result(): JsonObject {
    if (!isObject(this.#document)) throw cannotApply('the patched document is not an object');
    checkDepth(this.#document);
    return JSON.parse(JSON.stringify(this.#document)) as JsonObject;
  }

  apply({ op, path, from, value }: Operation): void {
    if (path === undefined) throw cannotApply(`${op} operation has no path`);
    switch (op) {
      case 'add':
      case 'replace':
        if (value === undefined) throw cannotApply(`${op} operation has no value`);
        if (op === 'replace') this.#existing(path);
        return this.#set(op, path, withoutPrototypes(value));
      case 'remove':
        this.#existing(path);
        return this.#change({ op, path });
      case 'test':
        return this.#test(path, value ?? null);
      case 'copy':
        return this.#set('add', path, this.#copyOf(from));
      case 'move':
        return this.#move(from, path);
      default:
        throw cannotApply(`unexpected kind: ${op}`);
    }
  }

  #set(op: 'add' | 'replace', path: string, value: Json): void {
    const keys = keysOf(path);
    const last = keys.pop();
    if (last !== undefined) {
      const parent = this.#find(keys);
      if (!isObject(parent) && !isList(parent))
        throw cannotApply(`${op} operation does not apply: missing path "${path}"`);
      if (isList(parent) && last !== '-' && indexOf(last, parent.length + 1) === undefined) {
        throw cannotApply(`${op} operation does not apply: invalid index "${path}"`);
      }
    }
    this.#change({ op, path, value });
  }

  #move(from: string | undefined, path: string): void {
    const value = this.#existing(from);
    if (path === from) return;
    if (path.startsWith(`${from}/`)) throw cannotApply(`cannot move "${from}" into itself`);
    this.#change({ op: 'remove', path: from ?? '' });
    this.#set('add', path, value);
  }

  #copyOf(from: string | undefined): Json {
    const value = this.#existing(from);
    checkDepth(value);
    const text = JSON.stringify(value);
    this.#copiedBytes += Buffer.byteLength(text);
    if (this.#copiedBytes > copiedBytesMax) {
      throw cannotApply(
        `unable to complete the copy, the accumulated size limit of ${copiedBytesMax} bytes is exceeded`,
      );
    }
    return withoutPrototypes(JSON.parse(text) as Json);
  }

  #test(path: string, expected: Json): void {
    // A test for null also asks that a field be absent; clients of Kubernetes rely on it.
    const actual = expected === null ? (this.#find(keysOf(path)) ?? null) : this.#existing(path);
    if (!isEqual(actual, expected)) throw cannotApply(`testing value ${path} failed`);
  }

  #existing(path: string | undefined): Json {
    const value = path === undefined ? undefined : this.#find(keysOf(path));
    if (value === undefined) throw cannotApply(`missing path: "${path ?? ''}"`);
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

  #change(operation: { op: 'add' | 'replace'; path: string; value: Json } | { op: 'remove'; path: string }): void {
    // No validation and no ban on `__proto__`: both were dealt with above, in a stricter way.
    this.#document = fastJsonPatch.applyOperation(this.#document, operation, false, true, false).newDocument;
  }
}

function keysOf(path: string): string[] {
  if (path === '') return [];
  if (!path.startsWith('/')) throw cannotApply(`path "${path}" does not begin with a slash`);
  return path
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function indexOf(key: string, length: number): number | undefined {
  const index = /^(0|[1-9][0-9]{0,8})$/.test(key) ? Number(key) : length;
  return index < length ? index : undefined;
}

function withoutPrototypes(value: Json): Json {
  if (isList(value)) return value.map(withoutPrototypes);
  if (!isObject(value)) return value;
  const result = Object.create(null) as Record<string, Json>;
  for (const [key, item] of Object.entries(value)) result[key] = withoutPrototypes(item);
  return result;
}
