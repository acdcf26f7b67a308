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
  const now = tainted(short, 'now', true);
  assert.deepEqual(now.spec, { taints: [other, taint] });
  assert.equal(tainted(now, 'later', true), now);
  const fine: Node = { ...now, status: pressure('False') };
  assert.deepEqual(tainted(fine, 'later', true).spec, { taints: [other] });
  assert.deepEqual(tainted({ ...fine, spec: { taints: [taint] } }, 'later', true).spec, {});
  const plain: Node = { metadata };
  assert.equal(tainted(plain, 'now', true), plain);
});

test('pods leave a node that does not answer only where another node is ready', () => {
  const silent: Node = { metadata, status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } };
  const effects = (node: Node): readonly string[] => (node.spec?.taints ?? []).map(({ effect }) => effect);
  const leaving = tainted(silent, 'now', true);
  assert.deepEqual(effects(leaving), ['NoSchedule', 'NoExecute']);
  assert.deepEqual(effects(tainted(leaving, 'later', false)), ['NoSchedule']);
});
