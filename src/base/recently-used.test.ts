import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentlyUsed } from './recently-used.ts';

test('RecentlyUsed forgets what was not used for longest', () => {
  const map = new RecentlyUsed<string, number>(2);
  map.set('a', 1);
  map.set('b', 2);
  assert.equal(map.get('a'), 1);
  map.set('c', 3);
  assert.deepEqual(
    ['a', 'b', 'c'].map((key) => map.get(key)),
    [1, undefined, 3],
  );
  assert.equal(map.size, 2);
});
