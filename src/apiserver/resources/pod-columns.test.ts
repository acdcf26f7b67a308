import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import { podStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { aContainer, aPod, decoded } from '../../testing/fakes/builders.ts';
import { podColumns } from './pod-columns.ts';

const now = Date.parse('2026-01-01T01:00:00Z');
const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();

interface Parts {
  readonly spec?: Partial<PodSpec>;
  readonly metadata?: Partial<ObjectMeta>;
  readonly status?: object;
}

function row({ spec = {}, metadata = {}, status = {} }: Parts): Readonly<Record<string, unknown>> {
  const pod: Pod = aPod({ ...spec, metadata, status: decoded(podStatus, status) });
  return Object.fromEntries(podColumns.map((column) => [column.name, column.cell(pod, now)]));
}

const one = (name: string, state: object, more: object = {}): object => ({
  name,
  ready: false,
  restartCount: 0,
  image: '',
  imageID: '',
  state,
  ...more,
});
const running = (name: string, more: object = {}): object => one(name, { running: {} }, { ready: true, ...more });
const ended = (exitCode: number, more: object = {}): object => ({ terminated: { exitCode, ...more } });
const waiting = (reason: string): object => ({ waiting: { reason } });
const ready = { type: 'Ready', status: 'True' };
const initialized = { type: 'Initialized', status: 'True' };
const init = [aContainer({ name: 'i1' }), aContainer({ name: 'i2' })];
const withSidecar = [aContainer({ name: 'i1', restartPolicy: 'Always' }), aContainer({ name: 'i2' })];
const two = [aContainer({ name: 'a' }), aContainer({ name: 'b' })];
const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };

const cases: readonly (Parts & { it: string; cells: object })[] = [
  {
    it: 'the phase where nothing else is known',
    status: { phase: 'Pending' },
    cells: { Status: 'Pending', Ready: '0/1', Restarts: '0' },
  },
  {
    it: 'the reason of the status before the phase',
    status: { phase: 'Failed', reason: 'Evicted' },
    cells: { Status: 'Evicted' },
  },
  {
    it: 'that a gate holds it',
    status: { phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated' }] },
    cells: { Status: 'SchedulingGated' },
  },
  {
    it: 'how far the init containers are',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', ended(0)), one('i2', { running: {} })] },
    cells: { Status: 'Init:1/2', Ready: '0/1' },
  },
  {
    it: 'that init containers wait for their turn as a step',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', waiting('PodInitializing'))] },
    cells: { Status: 'Init:0/2' },
  },
  {
    it: 'what an init container waits for',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', waiting('ImagePullBackOff'), { restartCount: 3 })] },
    cells: { Status: 'Init:ImagePullBackOff', Restarts: '3' },
  },
  {
    it: 'the exit code of an init container',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', ended(3))] },
    cells: { Status: 'Init:ExitCode:3' },
  },
  {
    it: 'the signal of an init container',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', ended(137, { signal: 9 }))] },
    cells: { Status: 'Init:Signal:9' },
  },
  {
    it: 'the reason of an init container before its code',
    spec: { initContainers: init },
    status: { phase: 'Pending', initContainerStatuses: [one('i1', ended(1, { reason: 'Error' }))] },
    cells: { Status: 'Init:Error' },
  },
  {
    it: 'a started sidecar as ready, and goes on with the next',
    spec: { initContainers: withSidecar },
    status: { phase: 'Pending', initContainerStatuses: [running('i1', { started: true }), one('i2', { running: {} })] },
    cells: { Status: 'Init:1/2', Ready: '1/2' },
  },
  {
    it: 'restarts of sidecars, not of other init containers, once it runs',
    spec: { initContainers: withSidecar },
    status: {
      phase: 'Running',
      initContainerStatuses: [
        running('i1', { started: true, restartCount: 2 }),
        one('i2', ended(0), { restartCount: 5 }),
      ],
      containerStatuses: [running('main', { restartCount: 1 })],
    },
    cells: { Status: 'Running', Ready: '2/2', Restarts: '3' },
  },
  {
    it: 'the containers once it was initialized, even if an init container runs again',
    spec: { initContainers: init },
    status: {
      phase: 'Running',
      conditions: [initialized],
      initContainerStatuses: [one('i1', { running: {} })],
      containerStatuses: [one('main', waiting('CrashLoopBackOff'))],
    },
    cells: { Status: 'CrashLoopBackOff' },
  },
  {
    it: 'what the first container has to say',
    spec: { containers: two },
    status: {
      phase: 'Running',
      containerStatuses: [one('a', waiting('ErrImagePull')), one('b', ended(1, { reason: 'Error' }))],
    },
    cells: { Status: 'ErrImagePull', Ready: '0/2' },
  },
  {
    it: 'the exit code of a container',
    status: { phase: 'Failed', containerStatuses: [one('main', ended(4))] },
    cells: { Status: 'ExitCode:4' },
  },
  {
    it: 'the signal of a container',
    status: { phase: 'Failed', containerStatuses: [one('main', ended(137, { signal: 9 }))] },
    cells: { Status: 'Signal:9' },
  },
  {
    it: 'Running where one has completed and the pod is ready',
    spec: { containers: two },
    status: {
      phase: 'Running',
      conditions: [ready],
      containerStatuses: [one('a', ended(0, { reason: 'Completed' })), running('b')],
    },
    cells: { Status: 'Running', Ready: '1/2' },
  },
  {
    it: 'NotReady where one has completed and the pod is not ready',
    spec: { containers: two },
    status: { phase: 'Running', containerStatuses: [one('a', ended(0, { reason: 'Completed' })), running('b')] },
    cells: { Status: 'NotReady' },
  },
  {
    it: 'the failure of another where the first has completed',
    spec: { containers: two },
    status: {
      phase: 'Failed',
      containerStatuses: [one('a', ended(0, { reason: 'Completed' })), one('b', ended(1, { reason: 'Error' }))],
    },
    cells: { Status: 'Error' },
  },
  {
    it: 'Completed where all have',
    status: { phase: 'Succeeded', containerStatuses: [one('main', ended(0, { reason: 'Completed' }))] },
    cells: { Status: 'Completed' },
  },
  {
    it: 'Terminating once it is deleted',
    metadata: deleted,
    status: { phase: 'Running', containerStatuses: [running('main')] },
    cells: { Status: 'Terminating' },
  },
  {
    it: 'how it ended, even if it is deleted',
    metadata: deleted,
    status: { phase: 'Failed' },
    cells: { Status: 'Failed' },
  },
  {
    it: 'Unknown where its node is lost',
    metadata: deleted,
    status: { phase: 'Running', reason: 'NodeLost' },
    cells: { Status: 'Unknown' },
  },
  {
    it: 'when it was last restarted',
    spec: { containers: two },
    status: {
      phase: 'Running',
      containerStatuses: [
        running('a', { restartCount: 2, lastState: ended(1, { finishedAt: ago(300) }) }),
        running('b', { restartCount: 1, lastState: ended(1, { finishedAt: ago(400) }) }),
      ],
    },
    cells: { Restarts: '3 (5m ago)', Ready: '2/2' },
  },
  {
    it: 'nothing in wide columns without facts',
    cells: {
      IP: '<none>',
      Node: '<none>',
      'Nominated Node': '<none>',
      'Readiness Gates': '<none>',
      Environment: '<none>',
      Age: '<unknown>',
      Name: 'web',
    },
  },
  {
    it: 'all facts in wide columns',
    spec: { nodeName: 'n1', readinessGates: [{ conditionType: 'x' }, { conditionType: 'y' }] },
    metadata: { creationTimestamp: ago(90) },
    status: {
      podIPs: [{ ip: '10.0.0.1' }],
      nominatedNodeName: 'n2',
      conditions: [
        { type: 'x', status: 'True' },
        { type: 'y', status: 'False' },
        { type: 'mountlet.dev/EnvironmentCurrent', status: 'False' },
      ],
    },
    cells: {
      IP: '10.0.0.1',
      Node: 'n1',
      'Nominated Node': 'n2',
      'Readiness Gates': '1/2',
      Age: '90s',
      Environment: 'Stale',
    },
  },
];
for (const { it, cells, ...parts } of cases) {
  test(`a pod's row shows ${it}`, () => {
    const shown = row(parts);
    assert.deepEqual(Object.fromEntries(Object.keys(cells).map((name) => [name, shown[name]])), cells);
  });
}
