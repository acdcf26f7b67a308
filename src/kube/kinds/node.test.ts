import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { placeOf } from '../schema/field-errors.ts';
import { nodeKind, nodeShape } from './node.ts';

test('validateNode holds taints and resources to their rules', () => {
  const taint = { key: 'a', effect: 'NoExecute' };
  const object = decoded(nodeShape, {
    metadata: { name: 'n1', namespace: 'x' },
    spec: { taints: [taint, taint, { key: 'b', value: 'c d', effect: 'Never' }, { key: 'c', effect: '' }] },
    status: { capacity: { cpu: '-1', pods: '1500m' } },
  });
  const errors = nodeKind.validate(nodeKind.complete(object));
  assert.deepEqual(messagesOf(errors), [
    'metadata.namespace: Forbidden: not allowed on this type',
    'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair',
    `metadata.taints[2].value: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
    'metadata.taints[2].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
    'metadata.taints[3].effect: Required value',
    'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
    'status.capacity.pods: Invalid value: "1500m": must be an integer',
    'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
    'status.allocatable.pods: Invalid value: "1500m": must be an integer',
  ]);
  assert.deepEqual(errors[1] && placeOf(errors[1]), ['spec', 'taints', 1]);
});
