import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentMap } from './event-correlator.ts';

test('the least recently used entry is evicted first, and a read is a use', () => {
  const map = new RecentMap<string, number>(2);
  map.set('a', 1);
  map.set('b', 2);
  assert.equal(map.get('a'), 1);
  map.set('c', 3);
  assert.deepEqual([map.get('a'), map.get('b'), map.get('c')], [1, undefined, 3]);
  assert.equal(map.size, 2);
});

test('a key that is set again keeps one place and has the new value', () => {
  const map = new RecentMap<string, number>(2);
  map.set('a', 1);
  map.set('b', 2);
  map.set('a', 3);
  map.set('c', 4);
  assert.deepEqual([map.get('a'), map.get('b'), map.get('c')], [3, undefined, 4]);
});
