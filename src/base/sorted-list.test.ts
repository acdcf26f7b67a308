import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SortedList } from './sorted-list.ts';

test('whatever comes and goes, the items are in order', () => {
  const step = fc.record({ number: fc.nat(30), isAdded: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const list = new SortedList<number>((a, b) => a < b);
      const there = new Set<number>();
      for (const { number, isAdded } of steps) {
        if (!isAdded) list.delete(number);
        else if (!there.has(number)) list.add(number);
        there[isAdded ? 'add' : 'delete'](number);
        const expected = [...there].toSorted((a, b) => a - b);
        assert.deepEqual([...list], expected);
        assert.equal(list.first, expected[0]);
      }
    }),
  );
});
