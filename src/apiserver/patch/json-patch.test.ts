import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyJsonPatch } from './json-patch.ts';
import { type Json, type JsonObject, PatchError } from './json-value.ts';

const refusal = 'the server rejected our request due to an error in our request';
const parse = (text: string): Json => JSON.parse(text) as Json;
const times = (length: number, operation: Json): Json => Array.from({ length }, () => operation);

const cases: readonly { it: string; document: JsonObject; patch: Json; result?: JsonObject }[] = [
  { it: 'adds a field', document: { a: 1 }, patch: [{ op: 'add', path: '/b', value: 2 }], result: { a: 1, b: 2 } },
  {
    it: 'adds before an item and at the end',
    document: { l: [1, 2] },
    patch: [
      { op: 'add', path: '/l/1', value: 9 },
      { op: 'add', path: '/l/-', value: 3 },
    ],
    result: { l: [1, 9, 2, 3] },
  },
  {
    it: 'replaces the whole',
    document: { a: 1 },
    patch: [{ op: 'replace', path: '', value: { b: 1 } }],
    result: { b: 1 },
  },
  { it: 'removes an item', document: { l: [1, 2] }, patch: [{ op: 'remove', path: '/l/0' }], result: { l: [2] } },
  {
    it: 'moves a field',
    document: { a: { x: 1 } },
    patch: [{ op: 'move', from: '/a/x', path: '/b' }],
    result: { a: {}, b: 1 },
  },
  {
    it: 'moves a field onto itself',
    document: { a: 1 },
    patch: [{ op: 'move', from: '/a', path: '/a' }],
    result: { a: 1 },
  },
  {
    it: 'copies by value',
    document: { a: { x: 1 } },
    patch: [
      { op: 'copy', from: '/a', path: '/b' },
      { op: 'replace', path: '/b/x', value: 2 },
    ],
    result: { a: { x: 1 }, b: { x: 2 } },
  },
  {
    it: 'reads escaped keys',
    document: { 'a/b': 1, 'c~d': 2 },
    patch: [
      { op: 'remove', path: '/a~1b' },
      { op: 'test', path: '/c~0d', value: 2 },
    ],
    result: { 'c~d': 2 },
  },
  { it: 'takes the empty key for a key', document: {}, patch: [{ op: 'add', path: '/', value: 1 }], result: { '': 1 } },
  {
    it: 'compares without regard to the order of fields',
    document: { a: { x: 1, y: [2] } },
    patch: [{ op: 'test', path: '/a', value: { y: [2], x: 1 } }],
    result: { a: { x: 1, y: [2] } },
  },
  {
    it: 'takes null in a test for an absent field',
    document: {},
    patch: [{ op: 'test', path: '/a', value: null }],
    result: {},
  },
  { it: 'adds null as a value', document: {}, patch: [{ op: 'add', path: '/a', value: null }], result: { a: null } },
  { it: 'refuses a failing test', document: { a: 1 }, patch: [{ op: 'test', path: '/a', value: 2 }] },
  { it: 'refuses a test of an absent field', document: {}, patch: [{ op: 'test', path: '/a', value: 2 }] },
  { it: 'refuses to remove what is not there', document: {}, patch: [{ op: 'remove', path: '/a' }] },
  { it: 'refuses to replace what is not there', document: {}, patch: [{ op: 'replace', path: '/a', value: 1 }] },
  { it: 'refuses to add below what is not there', document: {}, patch: [{ op: 'add', path: '/a/b', value: 1 }] },
  { it: 'refuses to add below a string', document: { a: 's' }, patch: [{ op: 'add', path: '/a/b', value: 1 }] },
  { it: 'refuses an index behind the end', document: { l: [] }, patch: [{ op: 'add', path: '/l/1', value: 1 }] },
  { it: 'refuses an index that wraps around', document: { l: [1] }, patch: [{ op: 'remove', path: '/l/4294967296' }] },
  { it: 'refuses an index with leading zeros', document: { l: [1, 2] }, patch: [{ op: 'remove', path: '/l/01' }] },
  { it: 'refuses the length of a list', document: { l: [1] }, patch: [{ op: 'replace', path: '/l/length', value: 0 }] },
  { it: 'refuses a path without a slash', document: { a: 1 }, patch: [{ op: 'remove', path: 'a' }] },
  { it: 'refuses an operation without a path', document: { a: 1 }, patch: [{ op: 'remove' }] },
  { it: 'refuses an operation without a value', document: { a: 1 }, patch: [{ op: 'add', path: '/b' }] },
  { it: 'refuses a move without a source', document: { a: 1 }, patch: [{ op: 'move', path: '/b' }] },
  { it: 'refuses a move into itself', document: { a: { b: {} } }, patch: [{ op: 'move', from: '/a', path: '/a/b/c' }] },
  { it: 'refuses an unknown operation', document: { a: 1 }, patch: [{ op: '_get', path: '/a' }] },
  { it: 'refuses an operation named like a method', document: { a: 1 }, patch: [{ op: 'toString', path: '/a' }] },
  { it: 'refuses to remove the whole', document: { a: 1 }, patch: [{ op: 'remove', path: '' }] },
  { it: 'refuses to make the whole a list', document: { a: 1 }, patch: [{ op: 'replace', path: '', value: [] }] },
  {
    it: 'finds no inherited field',
    document: { a: {} },
    patch: [{ op: 'test', path: '/a/constructor/name', value: 'Object' }],
  },
  { it: 'removes no inherited field', document: { a: {} }, patch: [{ op: 'remove', path: '/a/toString' }] },
  {
    it: 'does not reach the prototype',
    document: { a: {} },
    patch: [{ op: 'add', path: '/a/__proto__/polluted', value: 1 }],
  },
];
for (const { it, document, patch, result } of cases) {
  test(`JSON patch ${it}`, () => {
    const before = structuredClone(document);
    if (result === undefined)
      assert.throws(() => applyJsonPatch(document, patch), { kind: 'invalid', message: refusal });
    else assert.deepEqual(applyJsonPatch(document, patch), result);
    assert.deepEqual(document, before);
  });
}

test('JSON patch treats hostile keys as keys and never reaches a prototype', () => {
  const result = applyJsonPatch({ data: {} }, [
    { op: 'add', path: '/data/__proto__', value: { x: 1 } },
    { op: 'add', path: '/data/__proto__/polluted', value: 'yes' },
    { op: 'copy', from: '/data', path: '/copy' },
    { op: 'add', path: '/copy/__proto__/again', value: 'yes' },
    { op: 'add', path: '/data/constructor', value: {} },
    { op: 'add', path: '/data/constructor/prototype', value: 'p' },
    { op: 'move', from: '/copy/__proto__', path: '/moved' },
  ]);
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
  assert.equal(({} as Record<string, unknown>)['again'], undefined);
  assert.equal(
    JSON.stringify(result),
    '{"data":{"__proto__":{"x":1,"polluted":"yes"},"constructor":{"prototype":"p"}},"copy":{},"moved":{"x":1,"polluted":"yes","again":"yes"}}',
  );
});

const malformed: readonly { patch: Json; message: string }[] = [
  {
    patch: {},
    message: 'error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp',
  },
  {
    patch: 'x',
    message: 'error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp',
  },
  {
    patch: [1],
    message: 'error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp',
  },
  {
    patch: [{ op: 'add', path: 1 }],
    message: 'error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string',
  },
];
for (const { patch, message } of malformed) {
  test(`JSON patch refuses ${JSON.stringify(patch)} as malformed`, () => {
    assert.throws(() => applyJsonPatch({}, patch), { kind: 'malformed', message });
  });
}

test('JSON patch takes 10000 operations and no more', () => {
  const operation = { op: 'add', path: '/a', value: 1 };
  assert.deepEqual(applyJsonPatch({}, times(10_000, operation)), { a: 1 });
  assert.throws(() => applyJsonPatch({}, times(10_001, operation)), {
    kind: 'tooLarge',
    message: 'Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001',
  });
});

test('JSON patch stops copies of copies before they fill the memory', () => {
  const doubling = times(60, { op: 'copy', from: '/l', path: '/l/-' });
  assert.throws(() => applyJsonPatch({ l: ['0123456789'] }, doubling), { kind: 'invalid', message: refusal });
});

test('JSON patch refuses nesting without bounds, however it is made', () => {
  const deep = parse('['.repeat(100_000) + ']'.repeat(100_000));
  assert.throws(() => applyJsonPatch({}, [{ op: 'add', path: '/a', value: deep }]), PatchError);
  const nesting = Array.from({ length: 4000 }, (_, index) => [
    { op: 'add', path: `/${(index + 1) % 2}`, value: {} },
    { op: 'move', from: `/${index % 2}`, path: `/${(index + 1) % 2}/x` },
  ]).flat();
  assert.throws(() => applyJsonPatch({ '0': {} }, nesting), PatchError);
});

const anyKey = fc.constantFrom('a', 'b', '__proto__', 'constructor', 'prototype', 'toString', '0', '-');
const anyPath = fc.array(anyKey, { maxLength: 4 }).map((keys) => keys.map((key) => `/${key}`).join(''));
const anyValue = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
const anyOperation = fc.record({
  op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test'),
  path: anyPath,
  from: anyPath,
  value: anyValue,
});

test('JSON patch either refuses with a PatchError or returns JSON, and changes neither input nor prototypes', () => {
  const prototype = Object.getOwnPropertyNames(Object.prototype).toSorted();
  fc.assert(
    fc.property(fc.dictionary(anyKey, anyValue), fc.array(anyOperation, { maxLength: 8 }), (document, operations) => {
      const before = JSON.stringify([document, operations]);
      try {
        const result = applyJsonPatch(document, operations);
        assert.equal(typeof JSON.stringify(result), 'string');
      } catch (error) {
        assert.ok(error instanceof PatchError, String(error));
      }
      assert.equal(JSON.stringify([document, operations]), before);
      assert.deepEqual(Object.getOwnPropertyNames(Object.prototype).toSorted(), prototype);
    }),
    { numRuns: 500 },
  );
});
