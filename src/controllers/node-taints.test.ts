import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import { tainted } from './node-taints.ts';

const pressure = (status: string): NonNullable<Node['status']> => ({ conditions: [{ type: 'DiskPressure', status }] });
const taint = { key: 'node.kubernetes.io/disk-pressure', effect: 'NoSchedule', timeAdded: 'now' };
const other = { key: 'gpu', effect: 'NoSchedule' };
const metadata = { name: 'n' };

test('a node whose disk is short is tainted, and no longer when it is not', () => {
  const short: Node = { metadata, spec: { taints: [other] }, status: pressure('True') };
  const now = tainted(short, 'now');
  assert.deepEqual(now.spec, { taints: [other, taint] });
  assert.equal(tainted(now, 'later'), now);
  const fine: Node = { ...now, status: pressure('False') };
  assert.deepEqual(tainted(fine, 'later').spec, { taints: [other] });
  assert.deepEqual(tainted({ ...fine, spec: { taints: [taint] } }, 'later').spec, {});
  const plain: Node = { metadata };
  assert.equal(tainted(plain, 'now'), plain);
});
