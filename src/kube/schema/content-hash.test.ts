import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalJson, fnvHash } from './equality.ts';

test('fnvHash is FNV-1a of 128 bits', () => {
  assert.equal(fnvHash(''), '6c62272e07bb014262b821756295c58d');
  assert.equal(fnvHash('a'), 'd228cb696f1a8caf78912b704e4a8964');
});

test('canonicalJson does not depend on the order of fields, but on that of lists', () => {
  assert.equal(canonicalJson({ b: [{ d: 1, c: 2 }], a: null }), canonicalJson({ a: null, b: [{ c: 2, d: 1 }] }));
  assert.notEqual(canonicalJson([1, 2]), canonicalJson([2, 1]));
});
