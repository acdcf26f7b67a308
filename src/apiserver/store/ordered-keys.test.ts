import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { OrderedKeys } from './object-tree.ts';
import { crc32, crc32ByTable } from './row.ts';

test('keys come and go in any order, over many pieces, and stand as a sorted list would have them', () => {
  const number = fc.integer({ min: 0, max: 3_000 });
  const steps = fc.array(fc.tuple(fc.boolean(), number), { minLength: 1_500, maxLength: 4_000, size: 'max' });
  fc.assert(
    fc.property(
      fc.array(number, { maxLength: 2_000, size: 'max' }),
      steps,
      number,
      number,
      (start, changes, from, length) => {
        const model = new Set(start.map((n) => `/${n}`));
        const keys = new OrderedKeys([...model].toSorted(compareByteOrder));
        for (const [isAdded, n] of changes) {
          if (isAdded) {
            model.add(`/${n}`);
            keys.add(`/${n}`);
          } else {
            model.delete(`/${n}`);
            keys.delete(`/${n}`);
          }
        }
        const sorted = [...model].toSorted(compareByteOrder);
        assert.equal(keys.size, sorted.length);
        assert.deepEqual([...keys.between(0, Infinity)], sorted);
        assert.deepEqual([...keys.between(from, from + length)], sorted.slice(from, from + length));
        for (const n of [from, length]) {
          assert.equal(keys.rank(`/${n}`), sorted.filter((key) => compareByteOrder(key, `/${n}`) < 0).length);
        }
      },
    ),
    { numRuns: 20 },
  );
});

test('the checksum is that of zlib, with and without the native one', () => {
  assert.equal(crc32(Buffer.from('123456789')), 0xcbf43926);
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (first, second) => {
      assert.equal(crc32ByTable(second, crc32ByTable(first)), crc32(second, crc32(first)));
      assert.equal(crc32(second, crc32(first)), crc32(Buffer.concat([first, second])));
    }),
  );
});
