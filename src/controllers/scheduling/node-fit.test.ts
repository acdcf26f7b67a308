import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { aContainer } from '../../testing/fakes/builders.ts';
import { misfits, unschedulableMessage } from './node-fit.ts';
import { NodeRooms, type Room, needsOf } from './node-rooms.ts';

const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
const allocatable = { cpu: '2', memory: '1Gi', 'ephemeral-storage': '10G', pods: '3', 'example.com/gpu': '1' };
const node = (more: object = {}): Node => ({
  metadata: { name: 'n', labels: { zone: 'a', cores: '8' } },
  status: { ...ready, allocatable },
  ...more,
});
const container = (requests: object = {}, more: object = {}): Container =>
  aContainer({ ...more, resources: { requests: { ...requests } } });
const pod = (spec: object = {}): Pod => ({ metadata: { name: 'p' }, spec: { containers: [], ...spec } });
const asks = (requests: object): Pod => pod({ containers: [container(requests)] });
const listens = (hostPort: number, more: object = {}): Pod =>
  pod({ containers: [aContainer({ ports: [{ containerPort: 80, hostPort, ...more }] })] });
const affinity = (...terms: object[]): object => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
});
const byName = (name: string): object => ({
  matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
});
const tainted = (...taints: object[]): object => ({ spec: { taints } });
const taint = tainted({ key: 'gpu', value: 'yes', effect: 'NoSchedule' });
const untolerated = 'node(s) had untolerated taint {gpu: yes}';
const cordoned = { spec: { unschedulable: true } };
const onCordoned = { key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' };
const named = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
const portTaken = "node(s) didn't have free ports for the requested pod ports";
const wrongPlace = "node(s) didn't match Pod's node affinity/selector";

/** A node and the pods on it. */
function room(on: Node, others: readonly Pod[] = []): Room {
  const rooms = new NodeRooms();
  rooms.setNode('n', on);
  for (const [index, other] of others.entries()) rooms.set(String(index), 'n', needsOf(other));
  const [only] = rooms.all();
  return only ?? assert.fail();
}

const cases: readonly { it: string; pod: Pod; node?: Node; others?: readonly Pod[]; says?: readonly string[] }[] = [
  { it: 'a plain pod on a ready node', pod: pod() },
  { it: 'a node that is not ready', pod: pod(), node: node({ status: {} }), says: ['node(s) were not ready'] },
  { it: 'a cordoned node', pod: pod(), node: node(cordoned), says: ['node(s) were unschedulable'] },
  { it: 'a cordon that is tolerated', pod: pod({ tolerations: [onCordoned] }), node: node(cordoned) },
  { it: 'a taint', pod: pod(), node: node(taint), says: [untolerated] },
  {
    it: 'a taint that is only a preference',
    pod: pod(),
    node: node(tainted({ key: 'x', effect: 'PreferNoSchedule' })),
  },
  {
    it: 'a taint that would end it',
    pod: pod(),
    node: node(tainted({ key: 'x', effect: 'NoExecute' })),
    says: ['node(s) had untolerated taint {x: }'],
  },
  {
    it: 'a tolerated taint',
    pod: pod({ tolerations: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }] }),
    node: node(taint),
  },
  {
    it: 'a toleration of any value',
    pod: pod({ tolerations: [{ key: 'gpu', operator: 'Exists' }] }),
    node: node(taint),
  },
  { it: 'everything tolerated', pod: pod({ tolerations: [{ operator: 'Exists' }] }), node: node(taint) },
  {
    it: 'a toleration of another value',
    pod: pod({ tolerations: [{ key: 'gpu', value: 'no' }] }),
    node: node(taint),
    says: [untolerated],
  },
  {
    it: 'a toleration of another effect',
    pod: pod({ tolerations: [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }] }),
    node: node(taint),
    says: [untolerated],
  },
  { it: 'its selector', pod: pod({ nodeSelector: { zone: 'a' } }) },
  { it: 'another selector', pod: pod({ nodeSelector: { zone: 'b' } }), says: [wrongPlace] },
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
  },
  {
    it: 'affinity that holds with a selector that does not',
    pod: pod({
      ...affinity({ matchExpressions: [{ key: 'zone', operator: 'Exists' }] }),
      nodeSelector: { zone: 'b' },
    }),
    says: [wrongPlace],
  },
  { it: 'affinity to this node by name', pod: pod(affinity(byName('n'))) },
  { it: 'affinity to another node by name', pod: pod(affinity(byName('m'))), says: [named] },
  { it: 'affinity to one of several nodes by name', pod: pod(affinity(byName('m'), byName('n'))) },
  {
    it: 'affinity to a node by name or to others by label',
    pod: pod(affinity(byName('m'), { matchExpressions: [{ key: 'zone', operator: 'In', values: ['b'] }] })),
    says: [wrongPlace],
  },
  { it: 'affinity with an empty term', pod: pod(affinity({})), says: [wrongPlace] },
  { it: 'requests that just fit', pod: asks({ cpu: '2', memory: '1Gi' }) },
  { it: 'more cpu than there is', pod: asks({ cpu: '2001m' }), says: ['Insufficient cpu'] },
  {
    it: 'several things of which there is too little',
    pod: asks({ cpu: '3', memory: '2Gi', 'ephemeral-storage': '11G', 'example.com/gpu': '2' }),
    says: ['Insufficient cpu', 'Insufficient memory', 'Insufficient ephemeral-storage', 'Insufficient example.com/gpu'],
  },
  { it: 'what others have left', pod: asks({ cpu: '1' }), others: [asks({ cpu: '1' })] },
  {
    it: 'what others have not left',
    pod: asks({ cpu: '1' }),
    others: [asks({ cpu: '1001m' })],
    says: ['Insufficient cpu'],
  },
  {
    it: 'nothing, on a node that has given too much away',
    pod: pod(),
    others: [asks({ cpu: '2' }), asks({ cpu: '2' })],
  },
  { it: 'one pod too many', pod: pod(), others: [pod(), pod(), pod()], says: ['Too many pods'] },
  {
    it: 'a device that the node does not have',
    pod: asks({ 'example.com/fpga': '1' }),
    says: ['Insufficient example.com/fpga'],
  },
  { it: 'no device', pod: asks({ 'example.com/fpga': '0' }) },
  {
    it: 'huge pages that the node does not have',
    pod: asks({ 'hugepages-2Mi': '2Mi' }),
    says: ['Insufficient hugepages-2Mi'],
  },
  {
    it: 'the largest of its init containers, with the sidecar before it',
    pod: pod({
      containers: [container({ cpu: '500m' })],
      initContainers: [container({ cpu: '1' }, { restartPolicy: 'Always' }), container({ cpu: '1001m' })],
    }),
    says: ['Insufficient cpu'],
  },
  {
    it: 'its sidecar and containers together',
    pod: pod({
      containers: [container({ cpu: '1001m' })],
      initContainers: [container({ cpu: '2' }), container({ cpu: '1' }, { restartPolicy: 'Always' })],
    }),
    says: ['Insufficient cpu'],
  },
  {
    it: 'its overhead',
    pod: pod({ containers: [container({ cpu: '2' })], overhead: { cpu: '1m' } }),
    says: ['Insufficient cpu'],
  },
  { it: 'a node that says nothing of what it has', pod: asks({ cpu: '99' }), node: node({ status: ready }) },
  { it: 'a port that is free', pod: listens(80), others: [listens(81)] },
  { it: 'a port that is taken', pod: listens(80), others: [listens(80)], says: [portTaken] },
  { it: 'the same port of another protocol', pod: listens(80), others: [listens(80, { protocol: 'UDP' })] },
  {
    it: 'the port at two addresses',
    pod: listens(80, { hostIP: '10.0.0.1' }),
    others: [listens(80, { hostIP: '10.0.0.2' })],
  },
  {
    it: 'the port at one address and at all',
    pod: listens(80, { hostIP: '10.0.0.1' }),
    others: [listens(80, { hostIP: '0.0.0.0' })],
    says: [portTaken],
  },
  {
    it: 'only what the first rule says that it breaks',
    pod: pod({ nodeSelector: { zone: 'b' }, containers: [container({ cpu: '3' })] }),
    says: [wrongPlace],
  },
];
for (const { it, pod: one, node: on = node(), others = [], says = [] } of cases) {
  test(`a pod is judged by ${it}`, () => assert.deepEqual(misfits(one, needsOf(one), room(on, others)), says));
}

test('why a pod waits is said in one sentence, with sorted reasons and counts', () => {
  assert.equal(unschedulableMessage([]), 'no nodes available to schedule pods');
  assert.equal(
    unschedulableMessage([['node(s) were not ready'], ['node(s) were unschedulable'], ['node(s) were not ready']]),
    '0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) were not ready.',
  );
  assert.equal(
    unschedulableMessage([['Too many pods'], ['Insufficient memory', 'Insufficient cpu'], ['Insufficient cpu']]),
    '0/3 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu.',
  );
});
