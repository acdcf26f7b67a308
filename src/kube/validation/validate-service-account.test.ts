import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { serviceAccount } from '../objects/service-account.ts';
import { validateServiceAccount } from './validate-service-account.ts';

test('validateServiceAccount looks at the metadata alone', () => {
  const object = decoded(serviceAccount, { metadata: { name: 'a' }, imagePullSecrets: [{ name: '' }] });
  assert.deepEqual(messagesOf(validateServiceAccount(object)), ['metadata.namespace: Required value']);
});
