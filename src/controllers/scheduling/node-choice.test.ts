import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { chooseNode } from './node-choice.ts';
import { NodeRooms, needsOf } from './node-rooms.ts';

const asks = (requests: Record<string, string>, more: object = {}): Pod =>
  aPod({ containers: [aContainer({ resources: { requests } })], ...more });
const node = (name: string, more: object = {}): Node => ({
  metadata: { name, labels: { name } },
  status: { allocatable: { cpu: '4', memory: '8Gi' } },
  ...more,
});
const prefers = (...wanted: readonly (readonly [weight: number, name: string])[]): object => ({
  affinity: {
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: wanted.map(([weight, name]) => ({
        weight,
        preference: { matchExpressions: [{ key: 'name', operator: 'In', values: [name] }] },
      })),
    },
  },
});
const shy = { spec: { taints: [{ key: 'busy', effect: 'PreferNoSchedule' }] } };

const cases: readonly {
  it: string;
  pod?: Pod;
  nodes?: readonly Node[];
  on?: Readonly<Record<string, readonly Pod[]>>;
  last?: string;
  chosen: string | undefined;
}[] = [
  { it: 'the only one', nodes: [node('a')], chosen: 'a' },
  { it: 'none where there is none', nodes: [], chosen: undefined },
  { it: 'the emptiest', on: { a: [asks({ cpu: '2', memory: '1Gi' })] }, chosen: 'b' },
  { it: 'the one with fewer pods that request nothing', on: { a: [aPod()] }, chosen: 'b' },
  {
    it: 'the one whose cpu and memory are used alike afterwards',
    pod: asks({ cpu: '1', memory: '64Mi' }),
    on: { a: [asks({ cpu: '1500m', memory: '1Gi' })], b: [asks({ cpu: '1', memory: '2Gi' })] },
    chosen: 'b',
  },
  { it: 'the preferred one', pod: asks({}, prefers([1, 'b'])), on: { b: [asks({ cpu: '2' })] }, chosen: 'b' },
  { it: 'the one that is preferred most', pod: asks({}, prefers([10, 'a'], [90, 'b'])), chosen: 'b' },
  { it: 'not one that prefers to be left alone', nodes: [node('a', shy), node('b')], chosen: 'b' },
  {
    it: 'such a one all the same where the pod does not mind',
    pod: asks({}, { tolerations: [{ operator: 'Exists' }], ...prefers([1, 'a']) }),
    nodes: [node('a', shy), node('b')],
    chosen: 'a',
  },
  { it: 'the next of equals', last: 'a', chosen: 'b' },
  { it: 'the first again after the last', last: 'b', chosen: 'a' },
];
for (const { it, pod = aPod(), nodes = [node('a'), node('b')], on = {}, last = '', chosen } of cases) {
  test(`chooses ${it}`, () => {
    const rooms = new NodeRooms();
    for (const one of nodes) rooms.setNode(one.metadata.name, one);
    for (const [name, pods] of Object.entries(on)) {
      for (const [index, other] of pods.entries()) rooms.set(`${name} ${index}`, name, needsOf(other));
    }
    const found = chooseNode(pod, needsOf(pod), [...rooms.all()], last);
    assert.equal(found?.node.metadata.name, chosen);
  });
}
