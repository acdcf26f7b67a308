import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { misfit, unschedulableMessage } from './scheduler.ts';

const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
const node = (more: object = {}): Node => ({
  metadata: { name: 'n', labels: { zone: 'a', cores: '8' } },
  status: ready,
  ...more,
});
const pod = (spec: object = {}): Pod => ({ metadata: { name: 'p' }, spec: { containers: [], ...spec } });
const affinity = (...terms: object[]): object => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
});
const taint = { spec: { taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] } };
const wrongPlace = "node(s) didn't match Pod's node affinity/selector";

const cases: readonly { it: string; pod: Pod; node: Node; says: string | undefined }[] = [
  { it: 'a plain pod on a ready node', pod: pod(), node: node(), says: undefined },
  { it: 'a node that is not ready', pod: pod(), node: node({ status: {} }), says: 'node(s) were not ready' },
  {
    it: 'a cordoned node',
    pod: pod(),
    node: node({ spec: { unschedulable: true } }),
    says: 'node(s) were unschedulable',
  },
  { it: 'a taint', pod: pod(), node: node(taint), says: 'node(s) had untolerated taint {gpu: yes}' },
  {
    it: 'a taint that is only a preference',
    pod: pod(),
    node: node({ spec: { taints: [{ key: 'x', effect: 'PreferNoSchedule' }] } }),
    says: undefined,
  },
  {
    it: 'a tolerated taint',
    pod: pod({ tolerations: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] }),
    node: node(taint),
    says: undefined,
  },
  {
    it: 'everything tolerated',
    pod: pod({ tolerations: [{ operator: 'Exists' }] }),
    node: node(taint),
    says: undefined,
  },
  {
    it: 'a toleration of another value',
    pod: pod({ tolerations: [{ key: 'gpu', value: 'no' }] }),
    node: node(taint),
    says: 'node(s) had untolerated taint {gpu: yes}',
  },
  { it: 'its selector', pod: pod({ nodeSelector: { zone: 'a' } }), node: node(), says: undefined },
  { it: 'another selector', pod: pod({ nodeSelector: { zone: 'b' } }), node: node(), says: wrongPlace },
  {
    it: 'affinity to one of two zones and many cores',
    pod: pod(
      affinity({
        matchExpressions: [
          { key: 'zone', operator: 'In', values: ['a', 'b'] },
          { key: 'cores', operator: 'Gt', values: ['4'] },
        ],
      }),
    ),
    node: node(),
    says: undefined,
  },
  {
    it: 'affinity to a node by name',
    pod: pod(affinity({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['m'] }] })),
    node: node(),
    says: wrongPlace,
  },
  { it: 'affinity with an empty term', pod: pod(affinity({})), node: node(), says: wrongPlace },
];
for (const { it, pod: one, node: other, says } of cases) {
  test(`a pod is judged by ${it}`, () => assert.equal(misfit(one, other), says));
}

test('why a pod waits is said in one sentence, with counts', () => {
  assert.equal(unschedulableMessage([]), 'no nodes available to schedule pods');
  assert.equal(
    unschedulableMessage(['node(s) were not ready', 'node(s) were unschedulable', 'node(s) were not ready']),
    '0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) were not ready.',
  );
});
