import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aConfigMap, aPod } from '../testing/builders.ts';
import { messagesOf } from '../testing/decoded.ts';
import { resource } from './resource.ts';
import { configMaps } from './resources/config-map.ts';
import { pods } from './resources/pod.ts';
import { validateChangedObject, validateNewObject } from './validate-object.ts';

const careless = resource({ ...configMaps, validate: () => [], validateUpdate: () => [] });

test('a name that no rule of the kind looks at must still fit into a path', () => {
  for (const name of ['a/b', '..', 'a%2fb']) {
    const object = aConfigMap({ name });
    assert.equal(validateNewObject(careless, object).length, 1, name);
    assert.ok(validateChangedObject(careless, object, object).length > 0, name);
  }
  assert.deepEqual(validateNewObject(careless, aConfigMap({ name: 'a' })), []);
});

test('where the kind has something to say of a new object, it alone does', () => {
  const object = aConfigMap({ name: 'A/b' });
  assert.deepEqual(messagesOf(validateNewObject(configMaps, object)), messagesOf(configMaps.validate(object)));
});

test('what both sides say of a change is said once', () => {
  const old = aConfigMap({ name: 'a', metadata: { name: 'a', uid: 'x', resourceVersion: '1' } });
  const changed = aConfigMap({ name: 'a', metadata: { name: 'a', uid: 'y', resourceVersion: '1' } });
  assert.deepEqual(messagesOf(validateChangedObject(configMaps, changed, old)), [
    'metadata.uid: Invalid value: "y": field is immutable',
  ]);
});

test('14.1: a status patch for a pod that was made again fails by its uid', () => {
  const status = pods.subresources.find(({ name }) => name === 'status');
  const pod = (uid: string) => aPod({ metadata: { uid, resourceVersion: '1' } });
  assert.deepEqual(messagesOf(validateChangedObject(pods, pod('a'), pod('b'), status)), [
    'metadata.uid: Invalid value: "a": field is immutable',
  ]);
});
