import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer, aPod, decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import type { PodSpec } from './pod-spec.ts';
import { podStatus, validatePodStatusUpdate } from './pod-status.ts';

const ended = (exitCode: number): object => ({ state: { terminated: { exitCode } } });
const running = { state: { running: {} } };
const named = (state: object): object => ({
  name: 'main',
  ready: false,
  restartCount: 0,
  image: '',
  imageID: '',
  ...state,
});

const cases: readonly { it: string; spec?: Partial<PodSpec>; old?: object; status: object; errors: string[] }[] = [
  {
    it: 'takes what a kubelet says',
    old: { qosClass: 'BestEffort' },
    status: { qosClass: 'BestEffort', phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }] },
    errors: [],
  },
  {
    it: 'keeps the quality of service',
    old: { qosClass: 'BestEffort' },
    status: { qosClass: 'Guaranteed' },
    errors: ['status.qosClass: Invalid value: "Guaranteed": field is immutable'],
  },
  {
    it: 'holds conditions of others to qualified names',
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'a b', status: 'True' },
      ],
    },
    errors: [
      "status.conditions[1].Type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ],
  },
  {
    it: 'lets an ended container run again where it is always restarted',
    spec: { restartPolicy: 'Always' },
    old: { containerStatuses: [named(ended(0))] },
    status: { containerStatuses: [named(running)] },
    errors: [],
  },
  {
    it: 'lets a failed container run again where failures are restarted',
    spec: { restartPolicy: 'OnFailure' },
    old: { containerStatuses: [named(ended(1))] },
    status: { containerStatuses: [named(running)] },
    errors: [],
  },
  {
    it: 'does not let a container that ended well run again',
    spec: { restartPolicy: 'OnFailure' },
    old: { containerStatuses: [named(ended(0))] },
    status: { containerStatuses: [named(running)] },
    errors: ['status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state'],
  },
  {
    it: 'lets a sidecar run again',
    spec: { restartPolicy: 'Never', initContainers: [aContainer({ restartPolicy: 'Always' })] },
    old: { initContainerStatuses: [named(ended(1))] },
    status: { initContainerStatuses: [named(running)] },
    errors: [],
  },
  {
    it: 'never lets an ephemeral container run again',
    spec: { restartPolicy: 'Always' },
    old: { ephemeralContainerStatuses: [named(ended(1))] },
    status: { ephemeralContainerStatuses: [named(running)] },
    errors: ['status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state'],
  },
  {
    it: 'takes one address of each family',
    status: { podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }] },
    errors: [],
  },
  {
    it: 'refuses two addresses of a family',
    status: { podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: '10.0.0.2' }] },
    errors: [
      'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one IP for each IP family',
    ],
  },
  {
    it: 'wants the address and the list to agree',
    status: { podIP: '10.0.0.1' },
    errors: ['status.podIPs: Invalid value: []: podIP and podIPs must either both be set or both be unset'],
  },
  {
    it: 'wants the first address of the list to be the address',
    status: { hostIP: '10.0.0.1', hostIPs: [{ ip: '10.0.0.2' }] },
    errors: ['status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`'],
  },
  {
    it: 'refuses to nominate a node for a pod that has one',
    spec: { nodeName: 'node-1' },
    status: { nominatedNodeName: 'node-2' },
    errors: ['status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node'],
  },
  {
    it: 'refuses a negative generation',
    status: { observedGeneration: -1 },
    errors: ['status.observedGeneration: Invalid value: -1: must be a non-negative integer'],
  },
];
for (const { it, spec = {}, old = {}, status, errors } of cases) {
  test(`validatePodStatusUpdate ${it}`, () => {
    const pod = (json: object): ReturnType<typeof aPod> =>
      aPod({ ...spec, metadata: { resourceVersion: '1' }, status: decoded(podStatus, json) });
    assert.deepEqual(messagesOf(validatePodStatusUpdate(pod(status), pod(old))), errors);
  });
}
