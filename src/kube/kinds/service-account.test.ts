import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { serviceAccountKind } from './service-account.ts';

test('validateServiceAccount looks at the metadata alone', () => {
  const object = decoded(serviceAccountKind.shape, { metadata: { name: 'a' }, imagePullSecrets: [{ name: '' }] });
  assert.deepEqual(messagesOf(serviceAccountKind.validate(object)), ['metadata.namespace: Required value']);
});
