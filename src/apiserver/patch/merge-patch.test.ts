import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyMergePatch } from './json-patch.ts';
import {
  type Json,
  type JsonFields,
  type JsonObject,
  PatchError,
  fieldOf,
  isEqual,
  isObject,
  setField,
} from './json-value.ts';

const cases: readonly { it: string; document: JsonObject; patch: JsonObject; result: JsonObject }[] = [
  { it: 'replaces a value', document: { a: 'b' }, patch: { a: 'c' }, result: { a: 'c' } },
  { it: 'adds a field', document: { a: 'b' }, patch: { b: 'c' }, result: { a: 'b', b: 'c' } },
  { it: 'deletes with null', document: { a: 'b', b: 'c' }, patch: { a: null }, result: { b: 'c' } },
  { it: 'deletes nothing that is absent', document: { a: 'b' }, patch: { x: null }, result: { a: 'b' } },
  { it: 'replaces lists', document: { a: ['b'] }, patch: { a: ['c', 'd'] }, result: { a: ['c', 'd'] } },
  { it: 'turns a list into a value', document: { a: ['b'] }, patch: { a: 'c' }, result: { a: 'c' } },
  {
    it: 'turns a value into an object without nulls',
    document: { a: 1 },
    patch: { a: { b: 1, c: null } },
    result: { a: { b: 1 } },
  },
  { it: 'merges below', document: { a: { b: 'c' } }, patch: { a: { b: 'd', c: null } }, result: { a: { b: 'd' } } },
  {
    it: 'leaves null out of what it adds',
    document: {},
    patch: { a: { bb: { ccc: null } } },
    result: { a: { bb: {} } },
  },
  { it: 'keeps null inside lists', document: {}, patch: { a: [1, null] }, result: { a: [1, null] } },
  { it: 'does nothing when empty', document: { a: { b: [1] } }, patch: {}, result: { a: { b: [1] } } },
];
for (const { it, document, patch, result } of cases) {
  test(`merge patch ${it}`, () => {
    const before = structuredClone(document);
    assert.deepEqual(applyMergePatch(document, patch), result);
    assert.deepEqual(document, before);
  });
}

test('merge patch refuses anything but an object', () => {
  const message = 'error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}';
  assert.throws(() => applyMergePatch({}, []), { kind: 'malformed', message });
});

test('merge patch treats __proto__ as a key', () => {
  const patch = JSON.parse(
    '{"data":{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"x":1}}}}',
  ) as JsonObject;
  const result = applyMergePatch({ data: {} }, patch);
  assert.equal(JSON.stringify(result), JSON.stringify(patch));
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
  assert.equal(
    JSON.stringify(applyMergePatch(result, JSON.parse('{"data":{"__proto__":null}}') as JsonObject)).includes(
      'proto__',
    ),
    false,
  );
});

test('merge patch refuses nesting without bounds', () => {
  const deep = JSON.parse(`${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`) as JsonObject;
  assert.throws(() => applyMergePatch({}, deep), PatchError);
});

const anyKey = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor');
const { anyObject } = fc.letrec<{ anyObject: JsonObject; value: Json }>((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, fc.integer(), fc.string(), fc.constant([1, { x: 1 }]), tie('anyObject')),
  anyObject: fc.dictionary(anyKey, tie('value'), { maxKeys: 4 }),
}));

test('the difference of two documents, as a merge patch, makes one of the other', () => {
  fc.assert(
    fc.property(anyObject, anyObject, (before, after) => {
      assert.ok(isEqual(applyMergePatch(before, differenceOf(before, after)), after));
    }),
  );
});

test('a merge patch applied twice does what it does once', () => {
  fc.assert(
    fc.property(anyObject, anyObject, (document, patch) => {
      const once = applyMergePatch(document, patch);
      assert.ok(isEqual(applyMergePatch(once, patch), once));
    }),
  );
});

function differenceOf(before: JsonObject, after: JsonObject): JsonObject {
  const patch: JsonFields = {};
  for (const key of Object.keys(before)) if (!Object.hasOwn(after, key)) setField(patch, key, null);
  for (const [key, value] of Object.entries(after)) {
    const old = fieldOf(before, key);
    if (isObject(old) && isObject(value)) setField(patch, key, differenceOf(old, value));
    else if (!isEqual(old, value)) setField(patch, key, value);
  }
  return patch;
}
