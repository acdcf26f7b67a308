import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ContainerStatus, PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ContainerState, RuntimePod } from '../../runtimes/runtime.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { activeDeadlineMs, deadlineExceeded, podStatus } from './pod-status.ts';

const startMs = Date.UTC(2026, 0, 1);

/** `a running`, `a exited 1`, `a created`; newest first. */
function aRuntimePod(text: string, parts: Partial<RuntimePod> = {}): RuntimePod {
  const containers =
    text === ''
      ? []
      : text.split(', ').map((one, index) => {
          const [name = '', kind = '', code = '0'] = one.split(' ');
          return {
            id: `${name}-${index}`,
            name,
            attempt: 0,
            image: 'img',
            imageId: 'sha',
            state: stateOf(kind, Number(code)),
            logPath: '',
            labels: {},
            annotations: {},
          };
        });
  return {
    uid: 'u',
    namespace: 'shop',
    name: 'web',
    state: 'ready',
    createdAtMs: startMs,
    ips: ['10.1.0.1'],
    containers,
    ...parts,
  };
}

function stateOf(kind: string, exitCode: number): ContainerState {
  const createdAtMs = startMs + 1000;
  const startedAtMs = startMs + 1500;
  if (kind === 'running') return { kind, createdAtMs, startedAtMs, pid: 1 };
  if (kind === 'created' || kind === 'unknown') return { kind, createdAtMs };
  const reason = exitCode === 0 ? 'Completed' : 'Error';
  return { kind: 'exited', createdAtMs, startedAtMs, finishedAtMs: startMs + 9000, exitCode, reason, message: '' };
}

function statusOf(pod: Pod, has: string | undefined, parts: Partial<Parameters<typeof podStatus>[0]> = {}): PodStatus {
  return podStatus({
    pod,
    runtimePod: has === undefined ? undefined : aRuntimePod(has),
    runtimeName: 'fake',
    supportsRecursiveReadOnly: true,
    previous: pod.status ?? {},
    startError: () => undefined,
    terminationMessages: new Map(),
    probes: { hasStarted: () => true, isReady: () => true },
    isTerminating: false,
    idle: { idle: [], init: [] },
    idleIsReady: true,
    hostIPs: ['192.0.2.1'],
    eviction: undefined,
    environment: undefined,
    ...parts,
  });
}

const named = (...names: string[]): Pod['spec']['containers'] => names.map((name) => aContainer({ name }));
const sidecar = aContainer({ name: 's', restartPolicy: 'Always' });
const phases: readonly {
  it: string;
  pod: PodParts;
  has?: string;
  terminating?: boolean;
  notStarted?: string;
  phase: string;
}[] = [
  { it: 'before anything was made', pod: { containers: named('a') }, phase: 'Pending' },
  {
    it: 'while one container runs and one has yet to start',
    pod: { containers: named('a', 'b') },
    has: 'a running',
    phase: 'Pending',
  },
  { it: 'when all run', pod: { containers: named('a', 'b') }, has: 'a running, b running', phase: 'Running' },
  {
    it: 'when one runs and one ended',
    pod: { containers: named('a', 'b'), restartPolicy: 'Never' },
    has: 'a running, b exited 1',
    phase: 'Running',
  },
  { it: 'when all ended and start again', pod: { containers: named('a') }, has: 'a exited 1', phase: 'Running' },
  {
    it: 'when all succeeded under OnFailure',
    pod: { containers: named('a', 'b'), restartPolicy: 'OnFailure' },
    has: 'a exited 0, b exited 0',
    phase: 'Succeeded',
  },
  {
    it: 'when one failed under OnFailure',
    pod: { containers: named('a', 'b'), restartPolicy: 'OnFailure' },
    has: 'a exited 0, b exited 1',
    phase: 'Running',
  },
  {
    it: 'when one failed under Never',
    pod: { containers: named('a', 'b'), restartPolicy: 'Never' },
    has: 'a exited 0, b exited 1',
    phase: 'Failed',
  },
  {
    it: 'when all succeeded and the pod ends',
    pod: { containers: named('a') },
    has: 'a exited 0',
    terminating: true,
    phase: 'Succeeded',
  },
  {
    it: 'when one failed and the pod ends',
    pod: { containers: named('a') },
    has: 'a exited 143',
    terminating: true,
    phase: 'Failed',
  },
  {
    it: 'of a static pod that ends',
    pod: { containers: named('a'), metadata: { annotations: { 'kubernetes.io/config.source': 'file' } } },
    has: 'a exited 143',
    terminating: true,
    phase: 'Running',
  },
  {
    it: 'while an init container runs',
    pod: { initContainers: named('i'), containers: named('a') },
    has: 'i running',
    phase: 'Pending',
  },
  {
    it: 'when an init container failed under Never',
    pod: { initContainers: named('i'), containers: named('a'), restartPolicy: 'Never' },
    has: 'i exited 1',
    phase: 'Failed',
  },
  {
    it: 'when an init container failed and starts again',
    pod: { initContainers: named('i'), containers: named('a') },
    has: 'i exited 1',
    phase: 'Pending',
  },
  {
    it: 'while a sidecar comes up',
    pod: { initContainers: [sidecar], containers: named('a') },
    has: 's running',
    notStarted: 's',
    phase: 'Pending',
  },
  {
    it: 'when the containers are done and a sidecar still runs',
    pod: { initContainers: [sidecar], containers: named('a'), restartPolicy: 'Never' },
    has: 'a exited 0, s running',
    phase: 'Running',
  },
  {
    it: 'when the containers and the sidecar are done',
    pod: { initContainers: [sidecar], containers: named('a'), restartPolicy: 'Never' },
    has: 'a exited 0, s exited 137',
    phase: 'Succeeded',
  },
  {
    it: 'that was reported as ended once',
    pod: { containers: named('a'), status: { phase: 'Failed' } },
    has: 'a running',
    phase: 'Failed',
  },
];
for (const { it, pod, has, terminating = false, notStarted, phase } of phases) {
  test(`the phase ${it} is ${phase}`, () => {
    const probes = { hasStarted: (_uid: string, name: string) => name !== notStarted, isReady: () => true };
    assert.equal(statusOf(aPod(pod), has, { isTerminating: terminating, probes }).phase, phase);
  });
}

const waiting = (name: string): Partial<ContainerStatus> => ({ name, ready: false, restartCount: 0 });
const states: readonly {
  it: string;
  pod?: PodParts;
  has?: string;
  error?: { reason: string; message: string };
  previous?: ContainerStatus;
  shows: object;
  lastState?: object;
  restarts?: number;
}[] = [
  { it: 'waits for its creation', shows: { waiting: { reason: 'ContainerCreating' } } },
  {
    it: 'waits for the init containers',
    pod: { initContainers: named('i') },
    has: 'i running',
    shows: { waiting: { reason: 'PodInitializing' } },
  },
  {
    it: 'waits and says why it could not start',
    error: { reason: 'CreateContainerConfigError', message: 'configmap "x" not found' },
    shows: { waiting: { reason: 'CreateContainerConfigError', message: 'configmap "x" not found' } },
  },
  { it: 'runs', has: 'a running', shows: { running: { startedAt: '2026-01-01T00:00:01Z' } } },
  {
    it: 'runs, whatever its last start error was',
    has: 'a running',
    error: { reason: 'CrashLoopBackOff', message: 'x' },
    shows: { running: { startedAt: '2026-01-01T00:00:01Z' } },
  },
  {
    it: 'is in a crash loop, with its last end beside',
    has: 'a exited 1',
    error: { reason: 'CrashLoopBackOff', message: 'back-off 10s' },
    shows: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s' } },
    lastState: {
      terminated: {
        exitCode: 1,
        reason: 'Error',
        startedAt: '2026-01-01T00:00:01Z',
        finishedAt: '2026-01-01T00:00:09Z',
        containerID: 'fake://a-0',
      },
    },
  },
  {
    it: 'has ended and is kept as it was reported when the runtime forgot it',
    has: '',
    previous: {
      ...waiting('a'),
      name: 'a',
      ready: false,
      restartCount: 2,
      image: '',
      imageID: '',
      state: { terminated: { exitCode: 3 } },
    },
    shows: { terminated: { exitCode: 3 } },
    restarts: 2,
  },
  {
    it: 'ran and is gone without a trace',
    has: '',
    previous: { name: 'a', ready: true, restartCount: 2, image: '', imageID: '', state: { running: {} } },
    shows: { waiting: { reason: 'ContainerCreating' } },
    lastState: {
      terminated: {
        exitCode: 137,
        reason: 'ContainerStatusUnknown',
        message: 'The container could not be located when the pod was deleted.  The container used to be Running',
      },
    },
    restarts: 3,
  },
];
for (const { it, pod = {}, has, error, previous, shows, lastState, restarts = 0 } of states) {
  test(`a container's status ${it}`, () => {
    const status = previous === undefined ? {} : { status: { containerStatuses: [previous] } };
    const [told] =
      statusOf(aPod({ containers: named('a'), ...pod, ...status }), has, {
        startError: (name) => (name === 'a' ? error : undefined),
      }).containerStatuses ?? [];
    assert.deepEqual(told?.state, shows);
    assert.deepEqual(told?.lastState, lastState);
    assert.equal(told?.restartCount, restarts);
  });
}

function show(status: PodStatus): string[] {
  return (status.conditions ?? []).map(({ type, status: value, reason, message }) =>
    [type, value, reason, message].filter((part) => part !== undefined).join(' '),
  );
}

const conditionCases: readonly {
  it: string;
  pod?: PodParts;
  has?: string;
  unready?: string;
  shows: readonly string[];
}[] = [
  {
    it: 'before anything was made',
    shows: [
      'PodReadyToStartContainers False PodSandboxNotReady no pod sandbox exists',
      'Initialized True',
      'Ready False ContainersNotReady containers with unready status: [a b]',
      'ContainersReady False ContainersNotReady containers with unready status: [a b]',
      'PodScheduled True',
    ],
  },
  {
    it: 'when everything runs',
    has: 'a running, b running',
    shows: [
      'PodReadyToStartContainers True',
      'Initialized True',
      'Ready True',
      'ContainersReady True',
      'PodScheduled True',
    ],
  },
  {
    it: 'while one is not ready',
    has: 'a running, b running',
    unready: 'b',
    shows: [
      'PodReadyToStartContainers True',
      'Initialized True',
      'Ready False ContainersNotReady containers with unready status: [b]',
      'ContainersReady False ContainersNotReady containers with unready status: [b]',
      'PodScheduled True',
    ],
  },
  {
    it: 'while an init container runs',
    pod: { initContainers: named('i') },
    has: 'i running',
    shows: [
      'PodReadyToStartContainers True',
      'Initialized False ContainersNotInitialized containers with incomplete status: [i]',
      'Ready False ContainersNotReady containers with unready status: [a b]',
      'ContainersReady False ContainersNotReady containers with unready status: [a b]',
      'PodScheduled True',
    ],
  },
  {
    it: 'with a readiness gate that is not open, and the condition of another that is kept',
    pod: {
      readinessGates: [{ conditionType: 'x/gate' }, { conditionType: 'y/gate' }],
      status: { conditions: [{ type: 'y/gate', status: 'False' }] },
    },
    has: 'a running, b running',
    shows: [
      'y/gate False',
      'PodReadyToStartContainers True',
      'Initialized True',
      'Ready False ReadinessGatesNotReady corresponding condition of pod readiness gate "x/gate" does not exist., the status of pod readiness gate "y/gate" is not "True", but False',
      'ContainersReady True',
      'PodScheduled True',
    ],
  },
  {
    it: 'after a good end',
    pod: { restartPolicy: 'Never' },
    has: 'a exited 0, b exited 0',
    shows: [
      'PodReadyToStartContainers True',
      'Initialized True PodCompleted',
      'Ready False PodCompleted',
      'ContainersReady False PodCompleted',
      'PodScheduled True',
    ],
  },
];
for (const { it, pod = {}, has, unready, shows } of conditionCases) {
  test(`the conditions ${it}`, () => {
    const probes = { hasStarted: () => true, isReady: (_uid: string, name: string) => name !== unready };
    assert.deepEqual(show(statusOf(aPod({ containers: named('a', 'b'), ...pod }), has, { probes })), shows);
  });
}

test('a status has the addresses, the class of service and the generation it was made for', () => {
  const status = statusOf(aPod({ metadata: { generation: 3 } }), 'main running');
  const { hostIP, podIP, podIPs, qosClass, observedGeneration } = status;
  assert.deepEqual(
    { hostIP, podIP, podIPs, qosClass, observedGeneration },
    {
      hostIP: '192.0.2.1',
      podIP: '10.1.0.1',
      podIPs: [{ ip: '10.1.0.1' }],
      qosClass: 'BestEffort',
      observedGeneration: 3,
    },
  );
  assert.equal(statusOf(aPod({ hostNetwork: true }), 'main running').podIP, '192.0.2.1');
  const sharing = aRuntimePod('main running', { ips: [], hostNetwork: true });
  assert.equal(statusOf(aPod(), undefined, { runtimePod: sharing }).podIP, '192.0.2.1', 'it was given no other');
  const unreadable = aRuntimePod('main running', { ips: [] });
  assert.equal(statusOf(aPod(), undefined, { runtimePod: unreadable }).podIP, undefined, 'it has its own');
});

test('a termination message is reported, and the reason of a phase is kept while the phase is', () => {
  const messages = new Map([['main-0', 'out of luck']]);
  const status = statusOf(
    aPod({ restartPolicy: 'Never', status: { phase: 'Failed', reason: 'Why', message: 'because' } }),
    'main exited 1',
    { terminationMessages: messages },
  );
  assert.equal(status.containerStatuses?.[0]?.state?.terminated?.message, 'out of luck');
  assert.equal(`${status.reason} ${status.message}`, 'Why because');
});

test('a pod past its active deadline has failed', () => {
  const startTime = '2026-01-01T00:00:00Z';
  assert.equal(activeDeadlineMs(aPod({ activeDeadlineSeconds: 60 }), { startTime }), startMs + 60_000);
  const status = statusOf(aPod(), 'main running', { eviction: deadlineExceeded });
  assert.deepEqual(
    [status.phase, status.reason, status.message],
    ['Failed', 'DeadlineExceeded', 'Pod was active on the node longer than the specified deadline'],
  );
});

const web = aPod({ containers: [aContainer({ name: 'web' }), aContainer({ name: 'log' })] });
const idle = { idle: ['web'], init: ['prepare'] };

function conditionOf({ conditions = [] }: PodStatus, type: string): object | undefined {
  return conditions.find((one) => one.type === type);
}

test('a container that only idles is a condition of its pod; whether it is ready is for the node to say', () => {
  const message =
    'this runtime has no images; init containers without a command are not started: [prepare], containers without a command only idle: [web]';
  const told = { type: 'mountlet.dev/Idle', status: 'True', reason: 'NoImages', message };
  const own = statusOf(web, 'web running, log running', { idle });
  assert.deepEqual(conditionOf(own, 'mountlet.dev/Idle'), told);
  assert.deepEqual(conditionOf(own, 'Ready'), { type: 'Ready', status: 'True' });

  const foreign = statusOf(web, 'web running, log running', { idle, idleIsReady: false });
  assert.deepEqual(conditionOf(foreign, 'mountlet.dev/Idle'), told);
  const why =
    'containers with unready status: [web], containers that only idle, since this runtime has no images: [web]';
  for (const type of ['Ready', 'ContainersReady']) {
    assert.deepEqual(conditionOf(foreign, type), { type, status: 'False', reason: 'ContainersNotReady', message: why });
  }
  assert.deepEqual(
    foreign.containerStatuses?.map(({ name, ready, started }) => [name, ready, started]),
    [
      ['log', true, true],
      ['web', false, true],
    ],
  );
});

test('a container that the runtime lost track of has ended if it ran, and waits otherwise', () => {
  const pod = aPod({ containers: named('a') });
  const before = { name: 'a', image: 'img', imageID: 'sha', ready: true, restartCount: 2, containerID: 'fake://a-0' };
  const running = { containerStatuses: [{ ...before, state: { running: {} } }] };
  const [lost] = statusOf(pod, 'a unknown', { previous: running }).containerStatuses ?? [];
  assert.deepEqual(lost?.state, {
    terminated: {
      exitCode: 137,
      reason: 'ContainerStatusUnknown',
      message: 'The container could not be located when the pod was terminated',
    },
  });
  assert.equal(lost?.restartCount, 3);
  const [never] = statusOf(pod, 'a unknown').containerStatuses ?? [];
  assert.deepEqual(never?.state, { waiting: {} });
});

test('when all containers start over, a condition says so and the last state of each is kept', () => {
  const rule = { action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } };
  const containers = [
    aContainer({ name: 'a', restartPolicy: 'Never', restartPolicyRules: [rule] }),
    aContainer({ name: 'b' }),
  ];
  const pod = aPod({ containers, restartPolicy: 'Never' });
  const before = statusOf(pod, 'a exited 42, b running');
  const restarting = (status: PodStatus): unknown =>
    status.conditions?.find(({ type }) => type === 'AllContainersRestarting')?.status;
  assert.deepEqual([before.phase, restarting(before)], ['Running', 'True']);
  const renamed = aRuntimePod('a running, b running');
  const runtimePod = { ...renamed, containers: renamed.containers.map((one) => ({ ...one, id: `${one.id}-new` })) };
  const after = statusOf(pod, '', { previous: before, runtimePod });
  assert.equal(restarting(after), 'False');
  assert.deepEqual(
    after.containerStatuses?.map(({ lastState }) => [lastState?.terminated?.exitCode, lastState?.terminated?.reason]),
    [
      [42, 'Error'],
      [137, 'RestartingAllContainers'],
    ],
  );
});

test('an init container that is gone has done its work once the containers after it were made', () => {
  const pod = aPod({ initContainers: named('i'), containers: named('a') });
  const [init] = statusOf(pod, 'a running').initContainerStatuses ?? [];
  assert.deepEqual([init?.state?.terminated?.exitCode, init?.state?.terminated?.reason], [0, 'Completed']);
  assert.deepEqual(statusOf(pod, '').initContainerStatuses?.[0]?.state, { waiting: { reason: 'PodInitializing' } });
});

test('a container reports how its volumes were mounted, and as whom it runs', () => {
  const volumeMounts = [
    { name: 'a', mountPath: '/a' },
    { name: 'b', mountPath: '/b', readOnly: true },
    { name: 'c', mountPath: '/c', readOnly: true, recursiveReadOnly: 'IfPossible' },
  ];
  const pod = aPod({ containers: [aContainer({ volumeMounts })] });
  const reported = (status: PodStatus): unknown => status.containerStatuses?.[0]?.volumeMounts;
  const before = statusOf(pod, undefined, { supportsRecursiveReadOnly: false });
  const user = { uid: 1000, gid: 1000, supplementalGroups: [1000, 2000] };
  const { containers } = aRuntimePod('main running');
  const runtimePod = aRuntimePod('', { containers: containers.map((one) => ({ ...one, user })) });
  const after = statusOf(pod, undefined, { runtimePod, previous: before });
  const expected = (recursive: string): unknown => [
    { name: 'a', mountPath: '/a' },
    { name: 'b', mountPath: '/b', readOnly: true, recursiveReadOnly: 'Disabled' },
    { name: 'c', mountPath: '/c', readOnly: true, recursiveReadOnly: recursive },
  ];
  assert.deepEqual(reported(before), expected('Disabled'));
  assert.deepEqual(reported(after), expected('Enabled'));
  assert.deepEqual(after.containerStatuses?.[0]?.user, { linux: user });
  const later = statusOf(pod, undefined, { runtimePod, previous: after, supportsRecursiveReadOnly: false });
  assert.deepEqual(reported(later), expected('Enabled'), 'it was created with that');
});
