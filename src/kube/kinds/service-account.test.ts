import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { serviceAccountShape, validateServiceAccount } from './service-account.ts';

test('validateServiceAccount looks at the metadata alone', () => {
  const object = decoded(serviceAccountShape, { metadata: { name: 'a' }, imagePullSecrets: [{ name: '' }] });
  assert.deepEqual(messagesOf(validateServiceAccount(object)), ['metadata.namespace: Required value']);
});
