import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kinds/pod/pod.ts';
import { identifyPod, withGeneratedName } from './manifest-kinds.ts';

function pod(metadata: Partial<Pod['metadata']>): Pod {
  return { metadata: { name: '', namespace: 'shop', ...metadata }, spec: { containers: [] } };
}

test('a pod keeps the name and the uid it has', () => {
  const { name, uid } = identifyPod(pod({ name: 'web', uid: 'u1', generateName: 'other-' })).metadata;
  assert.deepEqual([name, uid], ['web', 'u1']);
});

test('a pod without a uid gets one of its name and namespace, the same every time', () => {
  const uidOf = (metadata: Partial<Pod['metadata']>): unknown => identifyPod(pod(metadata)).metadata.uid;
  assert.equal(uidOf({ name: 'web' }), uidOf({ name: 'web', uid: '' }));
  assert.notEqual(uidOf({ name: 'web' }), uidOf({ name: 'db' }));
  assert.notEqual(uidOf({ name: 'web' }), uidOf({ name: 'web', namespace: 'other' }));
  assert.match(String(uidOf({ name: 'web' })), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('a generateName is cut so that the name stays a label', () => {
  const { name } = withGeneratedName({ name: '', generateName: 'a'.repeat(100) }, 'shop');
  assert.match(name, /^a{58}[bcdfghjklmnpqrstvwxz2456789]{5}$/);
});

test('without a name and a generateName there is still none', () => {
  assert.equal(identifyPod(pod({})).metadata.name, '');
});
