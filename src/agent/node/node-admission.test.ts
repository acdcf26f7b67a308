import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/objects/node.ts';
import { aPod } from '../../testing/builders.ts';
import { refusePod } from './node-admission.ts';

const node: Node = { metadata: { name: 'here', labels: { disk: 'ssd' } } };
const settings = { podsMax: 2 };

test('a node that is full refuses another pod in the words of the kubelet', () => {
  assert.equal(refusePod(aPod({}), 1, node, settings), undefined);
  assert.deepEqual(refusePod(aPod({}), 2, node, settings), {
    reason: 'OutOfpods',
    message: "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2",
  });
});

test('a pod that is meant for other nodes is refused, but not before the node knows its own labels', () => {
  const base = aPod({});
  const pod = { ...base, spec: { ...base.spec, nodeSelector: { disk: 'hdd' } } };
  assert.equal(refusePod(pod, 0, undefined, settings), undefined);
  assert.equal(refusePod(pod, 0, node, settings)?.reason, 'NodeAffinity');
  assert.equal(
    refusePod({ ...pod, spec: { ...pod.spec, nodeSelector: { disk: 'ssd' } } }, 0, node, settings),
    undefined,
  );
});
