import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { compareByteOrder } from './byte-order.ts';

test('a character above U+FFFF sorts after U+FFFD, though its UTF-16 units sort before', () => {
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
