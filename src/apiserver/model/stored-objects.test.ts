import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseStored, storedText } from './stored-objects.ts';

const large = (name: string): string =>
  storedText({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, annotations: { a: 'x'.repeat(100_000) } } }, 7);

test('a large value is parsed once while it is among the newest, a small one each time', () => {
  const value = large('a');
  const object = parseStored(value);
  assert.equal(object.metadata.resourceVersion, '7');
  for (const name of ['b', 'c', 'd']) parseStored(large(name));
  assert.equal(parseStored(value), object);
  parseStored(large('e'));
  assert.notEqual(parseStored(value), object, 'five are too many to be kept');
  assert.deepEqual(parseStored(value), object);
  const small = '{"metadata":{"name":"a"}}';
  assert.notEqual(parseStored(small), parseStored(small));
});
