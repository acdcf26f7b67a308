import assert from 'node:assert/strict';
import { test } from 'node:test';
import { invalidField, requiredField } from '../../kube/schema/field-errors.ts';
import {
  alreadyExists,
  conflict,
  forbidden,
  invalid,
  modified,
  namesExhausted,
  notFound,
  tooManyRequests,
  unknownResource,
  versionTooLarge,
} from './status.ts';

const maps = { group: '', name: 'configmaps' };
const leases = { group: 'coordination.k8s.io', name: 'leases' };

const cases = [
  { error: notFound(maps, 'x'), says: '404 NotFound configmaps "x" not found' },
  { error: notFound(leases, 'x'), says: '404 NotFound leases.coordination.k8s.io "x" not found' },
  { error: unknownResource(), says: '404 NotFound the server could not find the requested resource' },
  { error: alreadyExists(maps, 'x'), says: '409 AlreadyExists configmaps "x" already exists' },
  {
    error: alreadyExists(maps, 'x', true),
    says: '409 AlreadyExists object is being deleted: configmaps "x" already exists',
  },
  {
    error: namesExhausted({ group: '', name: 'pods' }, 'x-abcde'),
    says: '409 AlreadyExists pods "x-abcde" already exists, the server was not able to generate a unique name for the object',
  },
  {
    error: modified(maps, 'x'),
    says: '409 Conflict Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes to the latest version and try again',
  },
  { error: conflict(maps, 'x', 'why'), says: '409 Conflict Operation cannot be fulfilled on configmaps "x": why' },
  {
    error: invalid({ group: '', name: 'ConfigMap' }, 'x', [requiredField(['a'])]),
    says: '422 Invalid ConfigMap "x" is invalid: a: Required value',
  },
  {
    error: invalid({ group: '', name: 'ConfigMap' }, 'x', [requiredField(['a']), invalidField(['b'], 1, 'bad')]),
    says: '422 Invalid ConfigMap "x" is invalid: [a: Required value, b: Invalid value: 1: bad]',
  },
  { error: forbidden(maps, 'x', 'a <b> & c'), says: '403 Forbidden configmaps "x" is forbidden: a &lt;b&gt; &amp; c' },
  { error: forbidden(maps, '', 'no'), says: '403 Forbidden configmaps is forbidden: no' },
  { error: versionTooLarge(99, 5), says: '504 Timeout Timeout: Too large resource version: 99, current: 5' },
];
for (const { error, says } of cases) {
  test(`a refusal reads: ${says}`, () => {
    assert.equal(`${error.code} ${error.reason} ${error.message}`, says);
    assert.equal(error.status.status, 'Failure');
    assert.equal(error.status.kind, 'Status');
  });
}

test('causes of an invalid object name the field, the reason and the text without the field', () => {
  const { status } = invalid({ group: '', name: 'Pod' }, 'x', [invalidField(['spec', 'a', 0], 'v', 'bad')]);
  assert.deepEqual(status.details, {
    name: 'x',
    kind: 'Pod',
    causes: [{ reason: 'FieldValueInvalid', message: 'Invalid value: "v": bad', field: 'spec.a[0]' }],
  });
});

test('a client that should retry learns when from the body and a header', () => {
  const error = tooManyRequests('later', 10);
  assert.equal(error.status.details?.retryAfterSeconds, 10);
  assert.deepEqual(error.headers, { 'retry-after': '10' });
});
