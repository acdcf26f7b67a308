import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareByteOrder } from './byte-order.ts';

test('a character above U+FFFF sorts after one just below it, as its bytes do', () => {
  assert.ok('\u{10000}' < '\uFFFD', 'UTF-16 units say the opposite');
  assert.ok(compareByteOrder('\u{10000}', '\uFFFD') > 0);
});

test('compareByteOrder agrees with a comparison of UTF-8 bytes', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'Z', '.', 'é', '\uD7FF', '\uE000', '\uFFFD', '😀', '\u{10FFFF}'),
  });
  fc.assert(
    fc.property(text, text, (a, b) => {
      assert.equal(Math.sign(compareByteOrder(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});
