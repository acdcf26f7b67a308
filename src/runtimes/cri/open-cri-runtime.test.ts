import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { CgroupDriver, ContainerState, NamespaceMode, PodSandboxState } from '../../grpc/messages/cri_pb.ts';
import { CallFailure } from '../../testing/servers/grpc-server.ts';
import { type RuntimeScript, startScriptedRuntime } from '../../testing/servers/scripted-runtime.ts';
import { podRequest } from '../../testing/machine/process-sandboxes.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { connectCri } from './cri-connection.ts';
import { CriRuntime } from './cri-runtime.ts';
import { readMachineFacts } from './machine-facts.ts';
import { openCriRuntime } from './open-cri-runtime.ts';
import { PodCgroups } from './pod-cgroups.ts';

const version = { version: '0.1.0', runtimeName: 'scripted', runtimeVersion: 'v9', runtimeApiVersion: 'v1' };
const ready = {
  status: {
    conditions: [
      { type: 'RuntimeReady', status: true, reason: '', message: '' },
      { type: 'NetworkReady', status: true, reason: '', message: '' },
    ],
  },
};
const healthy: RuntimeScript = {
  version: () => version,
  status: () => ready,
  listPodSandbox: () => ({ items: [] }),
  listContainers: () => ({ containers: [] }),
  imageFsInfo: () => ({}),
};

async function open(
  t: TestContext,
  endpoint: string,
  report: (problem: string) => void = () => {},
  podsBefore = ['u'],
): Promise<CriRuntime> {
  const directory = realpathSync(temporaryDirectory(t));
  const podsDirectory = join(directory, 'pods');
  for (const uid of podsBefore) mkdirSync(join(podsDirectory, uid), { recursive: true });
  const runtime = await openCriRuntime(
    {
      endpoint,
      cgroupDriver: 'cgroupfs',
      podPidsMax: undefined,
      logRoot: join(directory, 'logs'),
      logLinks: undefined,
      logLimits: { bytesMax: 10_000_000, filesMax: 5 },
      podsDirectory,
    },
    { clock: systemClock, report },
    new AbortController().signal,
  );
  t.after(() => runtime.close());
  return runtime;
}

test('a runtime that answers is opened under its own name and version', async (t) => {
  const runtime = await open(t, await startScriptedRuntime(t, healthy));
  assert.equal(`${runtime.name}://${runtime.version}`, 'scripted://v9');
  assert.deepEqual(runtime.problems(), []);
  assert.equal(runtime.networkProblem(), undefined);
});

test('with the cgroup driver of systemd the user is told which limits do not hold', async (t) => {
  const told: string[] = [];
  const linux = { cgroupDriver: CgroupDriver.SYSTEMD };
  const endpoint = await startScriptedRuntime(t, { ...healthy, runtimeConfig: () => ({ linux }) });
  await open(t, endpoint, (problem) => told.push(problem));
  assert.match(told.join(), /^with the systemd cgroup driver only containers have limits: podPidsLimit/);
});

const refusals: readonly { readonly it: string; readonly script: RuntimeScript; readonly says: RegExp }[] = [
  {
    it: 'that says too little of itself',
    script: { ...healthy, version: () => ({ version: '0.1.0', runtimeName: 'scripted' }) },
    says: /not all fields are set in VersionResponse \(missing RuntimeApiVersion, RuntimeVersion\)/,
  },
  {
    it: 'of another version',
    script: { ...healthy, version: () => ({ ...version, version: '0.2.0' }) },
    says: /runtime api version is not supported/,
  },
  {
    it: 'that knows the interface of before 2022 alone',
    script: {},
    says: /unknown method Version/,
  },
  {
    it: 'that hangs',
    script: { ...healthy, version: () => new Promise(() => {}) },
    says: /Deadline exceeded/,
  },
];

for (const { it, script, says } of refusals) {
  test(`a runtime ${it} is refused with what to do`, async (t) => {
    const endpoint = await startScriptedRuntime(t, script);
    await assert.rejects(open(t, endpoint), (error: Error) => {
      assert.ok(error.message.startsWith(`validate CRI v1 runtime API for endpoint "${endpoint}": `), error.message);
      assert.match(error.message, says);
      assert.match(error.message, /--container-runtime-endpoint.*--runtime process/);
      return true;
    });
  });
}

test('a runtime without images is refused', async (t) => {
  const endpoint = await startScriptedRuntime(t, {
    ...healthy,
    imageFsInfo: () => {
      throw new CallFailure('UNIMPLEMENTED', 'unknown service runtime.v1.ImageService');
    },
  });
  await assert.rejects(open(t, endpoint), /validate CRI v1 image API for endpoint ".*": unknown service/);
});

test('a socket that is not there, or that nobody serves, or that serves something else is refused', async (t) => {
  const directory = temporaryDirectory(t);
  await assert.rejects(
    open(t, `unix://${directory}/missing.sock`),
    /Cannot reach the container runtime.*there is no such socket/,
  );
  const path = join(directory, 'other.sock');
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
  });
  server.listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  await assert.rejects(open(t, `unix://${path}`), /validate CRI v1 runtime API/);
  await assert.rejects(open(t, 'tcp://127.0.0.1:1'), /give the path of its socket/);
});

test('what a runtime says of itself and of the network is why the node is not ready', async (t) => {
  const script: RuntimeScript = {
    ...healthy,
    status: () => ({
      status: {
        conditions: [{ type: 'NetworkReady', status: false, reason: 'NetworkPluginNotReady', message: 'no plugin' }],
      },
    }),
  };
  const runtime = await open(t, await startScriptedRuntime(t, script));
  const network =
    'container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no plugin';
  assert.equal(runtime.networkProblem(), network);
  assert.deepEqual(runtime.problems(), ['container runtime not ready: RuntimeReady=false reason: message:', network]);
});

test('a runtime that has only just started is waited for', async (t) => {
  const loading = (): never => {
    throw new CallFailure('UNKNOWN', 'server is not initialized yet');
  };
  const script: RuntimeScript = {
    version: () => version,
    status: loading,
    listPodSandbox: loading,
    imageFsInfo: loading,
  };
  const runtime = await open(t, await startScriptedRuntime(t, script));
  assert.deepEqual(runtime.problems(), [
    'container runtime status check may not have completed yet',
    'PLEG is not healthy: pleg has yet to be successful',
  ]);
  assert.equal(runtime.networkProblem(), 'network state unknown');
  await assert.rejects(runtime.get('u', new AbortController().signal), { name: 'RuntimeError' });
});

/** Not narrowed to one of them. */
const sandboxStates: Readonly<Record<'ready' | 'notReady', PodSandboxState>> = {
  ready: PodSandboxState.SANDBOX_READY,
  notReady: PodSandboxState.SANDBOX_NOTREADY,
};
const containerStates: Readonly<Record<'running' | 'exited', ContainerState>> = {
  running: ContainerState.CONTAINER_RUNNING,
  exited: ContainerState.CONTAINER_EXITED,
};
const uidLabel = { 'io.kubernetes.pod.uid': 'u' };
const sandbox = {
  id: 's',
  state: sandboxStates.ready,
  createdAt: 5_000_000n,
  labels: uidLabel,
  metadata: { name: 'web', namespace: 'shop', uid: 'u' },
};
const listedContainer = {
  id: 'c',
  podSandboxId: 's',
  state: containerStates.running,
  labels: uidLabel,
  createdAt: 6_000_000n,
};
const containerStatus = {
  ...listedContainer,
  metadata: { name: 'main', attempt: 3 },
  image: { image: 'busybox' },
  imageRef: 'sha256:1',
};
const sandboxStatus = {
  ...sandbox,
  network: { ip: '10.1.2.3' },
  linux: { namespaces: { options: { network: NamespaceMode.POD } } },
};

test('a runtime with pods of another node is not used, also if it says so only later', async (t) => {
  const says = /pods of another node are in this container runtime \(shop\/web and 1 more\).*stop the kubelet/;
  const script = { ...healthy, listPodSandbox: () => ({ items: [sandbox, { ...sandbox, id: 't' }] }) };
  const endpoint = await startScriptedRuntime(t, script);
  await assert.rejects(open(t, endpoint, undefined, ['v']), says);
  let isLoading = true;
  const starting = await startScriptedRuntime(t, {
    ...script,
    listPodSandbox() {
      if (!isLoading) return script.listPodSandbox();
      throw new CallFailure('UNKNOWN', 'server is not initialized yet');
    },
  });
  const runtime = await open(t, starting, undefined, ['v']);
  isLoading = false;
  await assert.rejects(runtime.list(new AbortController().signal), says);
  assert.match(runtime.problems().join(), /PLEG is not healthy/);
});

const answers: readonly { readonly it: string; readonly script: RuntimeScript; readonly says: RegExp }[] = [
  {
    it: 'of a container without an image',
    script: { containerStatus: () => ({ status: { ...containerStatus, imageRef: '' } }) },
    says: /status.ImageRef is not set/,
  },
  {
    it: 'of a container without a time',
    script: { containerStatus: () => ({ status: { ...containerStatus, createdAt: 0n } }) },
    says: /status.CreatedAt is not set/,
  },
  {
    it: 'of nothing',
    script: { containerStatus: () => ({}) },
    says: /status.Id is not set/,
  },
  {
    it: 'of a sandbox without a pod',
    script: { podSandboxStatus: () => ({ status: { ...sandboxStatus, metadata: { name: 'web' } } }) },
    says: /metadata.Name, metadata.Namespace or metadata.Uid is not set/,
  },
];

for (const { it, script, says } of answers) {
  test(`an answer ${it} is a failure of the runtime`, async (t) => {
    const endpoint = await startScriptedRuntime(t, {
      ...healthy,
      listPodSandbox: () => ({ items: [sandbox] }),
      listContainers: () => ({ containers: [listedContainer] }),
      podSandboxStatus: () => ({ status: sandboxStatus }),
      containerStatus: () => ({ status: containerStatus }),
      ...script,
    });
    const runtime = await open(t, endpoint);
    await assert.rejects(runtime.get('u', new AbortController().signal), says);
  });
}

const states = [
  { it: 'one that is ready', sandboxes: [sandbox], state: 'ready' },
  {
    it: 'two that are ready',
    sandboxes: [sandbox, { ...sandbox, id: 't' }],
    state: 'notReady',
    problem: 'multiple pod sandboxes are ready and need to be reconciled',
  },
  {
    it: 'one that is ready, older than one that is not',
    sandboxes: [
      sandbox,
      { ...sandbox, id: 't', state: sandboxStates.notReady, metadata: { ...sandbox.metadata, attempt: 1 } },
    ],
    state: 'notReady',
  },
  {
    it: 'one that is ready and has no address',
    sandboxes: [sandbox],
    status: { ...sandboxStatus, network: { ip: '' } },
    state: 'notReady',
    problem: 'pod sandbox has no IP address',
  },
  {
    it: 'one with the network of the host, without an address',
    sandboxes: [sandbox],
    status: {
      ...sandboxStatus,
      network: { ip: '' },
      linux: { namespaces: { options: { network: NamespaceMode.NODE } } },
    },
    state: 'ready',
    ips: [],
  },
  {
    it: 'one with an address that is none',
    sandboxes: [sandbox],
    status: { ...sandboxStatus, network: { ip: '10.1.2.3', additionalIps: [{ ip: 'fd00' }] } },
    state: 'ready',
    ips: [],
  },
];

for (const { it, sandboxes, status = sandboxStatus, state, problem, ips } of states) {
  test(`a pod with ${it} is ${state}`, async (t) => {
    const others = { ...sandbox, id: 'other', labels: {}, metadata: { name: 'x', namespace: 'y', uid: 'z' } };
    const script = {
      ...healthy,
      listPodSandbox: () => ({ items: [...sandboxes, others] }),
      podSandboxStatus: () => ({ status }),
    };
    const runtime = await open(t, await startScriptedRuntime(t, script));
    const pods = await runtime.list(new AbortController().signal);
    assert.deepEqual(
      pods.map((pod) => [pod.uid, pod.namespace, pod.name, pod.state, pod.ips]),
      [['u', 'shop', 'web', state, ips ?? (state === 'ready' ? ['10.1.2.3'] : [])]],
    );
    assert.equal(pods[0]?.problem, problem ?? (state === 'ready' ? undefined : 'pod sandbox is not ready'));
  });
}

test('a container runs as the user that the runtime names', async (t) => {
  const user = { linux: { uid: 1000n, gid: 1000n, supplementalGroups: [1000n, 2000n] } };
  const endpoint = await startScriptedRuntime(t, {
    ...healthy,
    listPodSandbox: () => ({ items: [sandbox] }),
    listContainers: () => ({ containers: [listedContainer] }),
    podSandboxStatus: () => ({ status: sandboxStatus }),
    containerStatus: () => ({ status: { ...containerStatus, user } }),
  });
  const pod = await (await open(t, endpoint)).get('u', new AbortController().signal);
  assert.deepEqual(pod?.containers[0]?.user, { uid: 1000, gid: 1000, supplementalGroups: [1000, 2000] });
});

test('a look at a pod in which nothing happened takes two calls', async (t) => {
  const calls: string[] = [];
  const counted =
    <T>(name: string, value: T) =>
    (): T => {
      calls.push(name);
      return value;
    };
  let container = listedContainer;
  const runtime = await open(
    t,
    await startScriptedRuntime(t, {
      ...healthy,
      listPodSandbox: counted('sandboxes', { items: [sandbox] }),
      listContainers: () => ({ containers: [container] }),
      podSandboxStatus: counted('sandbox', { status: sandboxStatus }),
      containerStatus: () => counted('container', { status: { ...containerStatus, state: container.state } })(),
    }),
  );
  const { signal } = new AbortController();
  await runtime.get('u', signal);
  calls.length = 0;
  const pod = await runtime.get('u', signal);
  assert.deepEqual(
    calls.filter((name) => name !== 'sandboxes'),
    [],
  );
  assert.equal(pod?.containers[0]?.state.kind, 'running');
  container = { ...listedContainer, state: containerStates.exited };
  assert.equal((await runtime.get('u', signal))?.containers[0]?.state.kind, 'exited');
  assert.deepEqual(
    calls.filter((name) => name !== 'sandboxes'),
    ['container'],
  );
});

test('a list from before a pod was started does not end the pod', async (t) => {
  const directory = temporaryDirectory(t);
  let isStarted = false;
  let isHeld = false;
  const control = new EventEmitter();
  const released = once(control, 'release');
  const asked = once(control, 'asked');
  const endpoint = await startScriptedRuntime(t, {
    ...healthy,
    async listPodSandbox() {
      if (isStarted) return { items: [sandbox] };
      if (isHeld && control.emit('asked')) await released;
      return { items: [] };
    },
    podSandboxStatus: () => ({ status: sandboxStatus }),
    runPodSandbox() {
      isStarted = true;
      return { podSandboxId: 's' };
    },
  });
  const cgroups = new PodCgroups(
    { clock: systemClock, kill: () => assert.fail(), report: assert.fail },
    { directory, driver: 'cgroupfs', version: 2, podPidsMax: undefined },
  );
  const { signal } = new AbortController();
  const runtime = new CriRuntime(
    {
      name: 'scripted',
      version: 'v9',
      logRoot: directory,
      logLinks: undefined,
      logLimits: { bytesMax: 10_000_000, filesMax: 5 },
      machine: await readMachineFacts('/'),
      own: { podsDirectory: directory, podsBefore: ['u'] },
    },
    { connection: connectCri(endpoint), cgroups, clock: systemClock, report: assert.fail },
  );
  t.after(() => runtime.close());
  await runtime.get('u', signal);
  isHeld = true;
  const listed = runtime.list(signal);
  await asked;
  await runtime.runPod(podRequest(directory, { uid: 'u', logDirectory: join(directory, 'logs') }), signal);
  control.emit('release');
  assert.deepEqual(await listed, []);
  assert.ok(existsSync(join(directory, 'kubepods/besteffort/podu')));
  isStarted = false;
  await runtime.list(signal);
  assert.ok(!existsSync(join(directory, 'kubepods/besteffort/podu')), 'one that is gone loses its group');
});
