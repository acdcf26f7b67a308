import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ContainerStatus } from '../kube/kinds/pod/pod-status.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { loggedContainer } from './container-logs.ts';

const terminated = (containerID: string): { terminated: { exitCode: number; containerID: string } } => ({
  terminated: { exitCode: 1, containerID },
});
const subject = 'container "main" in pod "web"';

const cases: readonly {
  readonly it: string;
  readonly status?: Partial<ContainerStatus>;
  readonly previous?: boolean;
  readonly gives?: string;
  readonly says?: string;
}[] = [
  { it: 'runs', status: { state: { running: {} }, containerID: 'process://now' }, gives: 'now' },
  { it: 'has ended', status: { state: terminated('process://done') }, gives: 'done' },
  {
    it: 'ended and never began again',
    status: { state: terminated(''), lastState: terminated('p://old') },
    gives: 'old',
  },
  { it: 'ended without a trace', status: { state: terminated('') }, says: `${subject} is terminated` },
  {
    it: 'waits after it ended',
    status: { state: { waiting: { reason: 'CrashLoopBackOff' } }, lastState: terminated('p://old') },
    gives: 'old',
  },
  {
    it: 'is made',
    status: { state: { waiting: { reason: 'ContainerCreating' } } },
    says: `${subject} is waiting to start: ContainerCreating`,
  },
  {
    it: 'has no image',
    status: { state: { waiting: { reason: 'ErrImagePull' } } },
    says: `${subject} is waiting to start: image can't be pulled`,
  },
  {
    it: 'has no image still',
    status: { state: { waiting: { reason: 'ImagePullBackOff' } } },
    says: `${subject} is waiting to start: trying and failing to pull image`,
  },
  { it: 'has no state', status: {}, says: `${subject} is waiting to start - no logs yet` },
  { it: 'is not known', says: `${subject} is not available` },
  {
    it: 'ran before',
    previous: true,
    status: { state: { running: {} }, lastState: terminated('p://old') },
    gives: 'old',
  },
  {
    it: 'never ran before',
    previous: true,
    status: { state: { running: {} } },
    says: `previous terminated ${subject} not found`,
  },
];
for (const { it, status, previous = false, gives, says } of cases) {
  test(`the log of a container that ${it}`, () => {
    const whole = { name: 'main', image: '', imageID: '', ready: false, restartCount: 0, ...status };
    const pod = aPod({ status: { containerStatuses: status === undefined ? [] : [whole] } });
    if (says === undefined) assert.equal(loggedContainer(pod, 'main', previous), gives);
    else assert.throws(() => loggedContainer(pod, 'main', previous), { message: says, code: 400 });
  });
}
