import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../base/errors.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { RuntimeError } from '../../runtimes/runtime.ts';
import { aConfigMap, aContainer, aPod, aSecret } from '../../testing/fakes/builders.ts';
import { settle } from '../../testing/fakes/fake-clock.ts';
import {
  ContainerWorld,
  emptyVolumes,
  testDns,
  testNodeSettings,
  viewDeps,
} from '../../testing/worlds/container-world.ts';

const uid = '5f3a7c3e-0000-4000-8000-000000000001';
const who = `web_shop(${uid})`;
const { signal } = new AbortController();

function reasons({ errors }: { readonly errors: readonly unknown[] }): string[] {
  return errors.map((error) => `${(error as { reason: string }).reason}: ${messageOf(error)}`);
}

test('a pod starts: sandbox, init containers one after another, then its containers', async () => {
  const world = new ContainerWorld();
  const pod = aPod({ initContainers: [aContainer({ name: 'i' })], containers: [aContainer()] });
  await world.syncAll(pod);
  assert.equal(world.runtime.show(uid), 'ready: i#0 running');
  world.runtime.exit(uid, 'i');
  await world.syncAll(pod);
  assert.equal(world.runtime.show(uid), 'ready: main#0 running, i#0 exited 0');
  assert.deepEqual(world.events.lines().slice(-3), [
    'Normal Pulled main: Container image "registry.example/web:1" already present on machine',
    'Normal Created main: Created container: main',
    'Normal Started main: Started container main',
  ]);
});

test('subPaths follow their volumes after each start, and in containers that a program before this one started', async () => {
  const world = new ContainerWorld();
  const told: string[] = [];
  const { subPaths, ...view } = viewDeps();
  world.view = {
    ...view,
    subPaths: { ...subPaths, started: ({ containerName }) => void told.push(containerName) },
  };
  const volumeMounts = [{ name: 'config', mountPath: '/etc/a.conf', subPath: 'a.conf' }];
  const pod = aPod({ containers: [aContainer({ name: 'none' }), aContainer({ name: 'some' })] });
  await world.sync(pod);
  assert.deepEqual(told, [], 'nothing to follow');
  const [none, some] = pod.spec.containers;
  assert.ok(none !== undefined && some !== undefined);
  await world.sync({ ...pod, spec: { ...pod.spec, containers: [none, { ...some, volumeMounts }] } });
  assert.deepEqual(told, ['some']);
});

test('recursive read-only mounts follow what the runtime can do', async () => {
  const volume = { kind: 'filesystem', hostPath: '/data', specName: 'data', readOnly: false } as const;
  const volumes = { ...emptyVolumes, mountedVolumesOf: () => ({ get: () => volume }) };
  const asking = (recursiveReadOnly: string): Pod =>
    aPod({
      containers: [
        aContainer({ volumeMounts: [{ name: 'data', mountPath: '/data', readOnly: true, recursiveReadOnly }] }),
      ],
    });
  for (const isSupported of [true, false]) {
    const world = new ContainerWorld({ volumes });
    if (!isSupported) world.runtime.lacking.add('recursiveReadOnly');
    await world.sync(asking('IfPossible'));
    const [request] = world.runtime.requests.values();
    assert.equal(request?.mounts[0]?.recursiveReadOnly, isSupported);
  }
  const world = new ContainerWorld({ volumes });
  world.runtime.lacking.add('recursiveReadOnly');
  assert.deepEqual(reasons(await world.sync(asking('Enabled'))), [
    'CreateContainerConfigError: failed to resolve recursive read-only mode: volume "data" requested recursive read-only mode, but it is not supported by the runtime',
  ]);
});

test("hooks go to the address of the pod, which is the node's with its network", async () => {
  for (const hostNetwork of [false, true]) {
    const hosts: string[] = [];
    const network = {
      connect: async ({ host }: { readonly host: string }) => {
        hosts.push(host);
        throw new Error('connect ECONNREFUSED');
      },
    };
    const world = new ContainerWorld({ network });
    const hook = { httpGet: { port: 80 } };
    await world.sync(
      aPod({ hostNetwork, containers: [aContainer({ lifecycle: { postStart: hook, preStop: hook } })] }),
    );
    const address = hostNetwork ? '192.0.2.1' : '10.1.0.1';
    assert.deepEqual(hosts, [address, address], 'the container is ended when its postStart hook fails');
  }
});

test('a RuntimeClass that cannot be looked up says why', async () => {
  const world = new ContainerWorld();
  world.runtimeClasses.get = () => {
    throw new Error('connect ECONNREFUSED');
  };
  await assert.rejects(world.sync(aPod({ runtimeClassName: 'kata' })), {
    message: 'failed to lookup RuntimeClass kata: connect ECONNREFUSED',
  });
});

test('a container that ends starts at once the first time, then after 10, 20 … 300 s', async () => {
  const world = new ContainerWorld();
  const pod = aPod();
  await world.sync(pod);
  const waits: string[] = [];
  for (let crash = 0; crash < 8; crash += 1) {
    await world.clock.advance(1000);
    world.runtime.exit(uid, 'main', 1);
    const [held = ''] = reasons(await world.sync(pod));
    waits.push(/back-off (\S+)/.exec(held)?.[1] ?? 'none');
    await world.clock.advance(300_000);
    await world.sync(pod);
  }
  assert.deepEqual(waits, ['none', '10s', '20s', '40s', '1m20s', '2m40s', '5m0s', '5m0s']);
  assert.match(world.runtime.show(uid), /^ready: main#8 running, main#7 exited 1$/, 'one dead container is kept');
  assert.ok(world.files.removedLogs.includes('/logs/main/0.log'));
});

test('the longest wait of a container that fails can be set, also below the first one', async () => {
  const world = new ContainerWorld({ settings: { ...testNodeSettings, restartBackOffMsMax: 5_000 } });
  const pod = aPod();
  for (const [failure, says] of ['', 'back-off 5s', 'back-off 5s'].entries()) {
    await world.sync(pod);
    world.runtime.exit(uid, 'main', 1);
    assert.match(reasons(await world.sync(pod)).join(), new RegExp(says), `failure ${failure}`);
    await world.clock.advance(5_000);
  }
});

test('a crash loop is reported in the words of the kubelet, and a long good run ends it', async () => {
  const world = new ContainerWorld();
  const pod = aPod();
  await world.sync(pod);
  world.runtime.exit(uid, 'main', 1);
  await world.sync(pod);
  world.runtime.exit(uid, 'main', 1);
  const expected = `CrashLoopBackOff: back-off 10s restarting failed container=main pod=${who}`;
  assert.deepEqual(reasons(await world.sync(pod)), [expected]);
  assert.deepEqual(world.startErrors.get(uid, 'main'), {
    reason: 'CrashLoopBackOff',
    message: expected.slice('CrashLoopBackOff: '.length),
  });
  assert.equal(
    world.events.lines().at(-1),
    `Warning BackOff main: Back-off restarting failed container main in pod ${who}`,
  );
  await world.clock.advance(10_000);
  await world.sync(pod);
  assert.equal(world.startErrors.get(uid, 'main'), undefined);
  await world.clock.advance(620_000);
  world.runtime.exit(uid, 'main', 1);
  assert.deepEqual(reasons(await world.sync(pod)), [], 'more than ten minutes after the last back-off');
});

test('another image is another try', async () => {
  const world = new ContainerWorld();
  await world.sync(aPod());
  for (let crash = 0; crash < 2; crash += 1) {
    world.runtime.exit(uid, 'main', 1);
    await world.sync(aPod());
  }
  assert.match(world.runtime.show(uid), /main#1 exited/);
  await world.sync(aPod({ containers: [aContainer({ image: 'registry.example/web:2' })] }));
  assert.match(world.runtime.show(uid), /^ready: main#2 running/);
});

const failures: readonly {
  it: string;
  container?: Partial<Container>;
  pod?: Parameters<typeof aPod>[0];
  arrange?: (world: ContainerWorld) => void;
  fails: string;
  event: string;
}[] = [
  {
    it: 'a variable from a missing object',
    container: { env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'k' } } }] },
    fails: 'CreateContainerConfigError: configmap "x" not found',
    event: 'Warning Failed main: Error: configmap "x" not found',
  },
  {
    it: 'a Secret that no program can be given',
    container: { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'nul', key: 'k' } } }] },
    arrange: (world) => (world.view = viewDeps({ secrets: [aSecret({ name: 'nul', data: { k: 'hid\0den' } })] })),
    fails: 'CreateContainerError: variable "A" holds a NUL byte, with which no program can be started',
    event: 'Warning Failed main: Error: variable "A" holds a NUL byte, with which no program can be started',
  },
  {
    it: 'an argument made of bytes that are not text',
    container: {
      args: ['$(A)'],
      env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'raw', key: 'k' } } }],
    },
    arrange: (world) =>
      (world.view = viewDeps({ secrets: [aSecret({ name: 'raw', data: { k: Buffer.from([255]) } })] })),
    fails: 'CreateContainerError: variable "A" is not valid UTF-8, and runtimes accept nothing else',
    event: 'Warning Failed main: Error: variable "A" is not valid UTF-8, and runtimes accept nothing else',
  },
  {
    it: 'a pod that must not be root and is',
    container: { securityContext: { runAsNonRoot: true, runAsUser: 0 } },
    fails: `CreateContainerConfigError: container's runAsUser breaks non-root policy (pod: "${who}", container: main)`,
    event: `Warning Failed main: Error: container's runAsUser breaks non-root policy (pod: "${who}", container: main)`,
  },
  {
    it: 'what the runtime cannot do',
    arrange: (world) => (world.runtime.refusal = 'this machine has no user namespaces'),
    fails: 'CreateContainerConfigError: this machine has no user namespaces',
    event: 'Warning Failed main: Error: this machine has no user namespaces',
  },
  {
    it: 'a runtime that cannot make it',
    arrange: (world) => world.runtime.fail('createContainer', new RuntimeError('no space left')),
    fails: 'CreateContainerError: no space left',
    event: 'Warning Failed main: Error: no space left',
  },
  {
    it: 'a runtime that cannot start it',
    arrange: (world) => world.runtime.fail('startContainer', new RuntimeError('exec format error')),
    fails: 'RunContainerError: exec format error',
    event: 'Warning Failed main: Error: exec format error',
  },
  {
    it: 'an image that may not be pulled',
    container: { imagePullPolicy: 'Never' },
    arrange: (world) => (world.runtime.presentImages = new Set()),
    fails: 'ErrImageNeverPull: Container image "registry.example/web:1" is not present with pull policy of Never',
    event: 'Warning Failed main: Error: ErrImageNeverPull',
  },
  {
    it: 'an image that cannot be pulled',
    arrange: (world) => {
      world.runtime.presentImages = new Set();
      world.runtime.fail('pullImage', new RuntimeError('manifest unknown'));
    },
    fails: 'ErrImagePull: manifest unknown',
    event: 'Warning Failed main: Error: ErrImagePull',
  },
  {
    it: 'an image that cannot be looked at',
    arrange: (world) => world.runtime.fail('imageStatus', new RuntimeError('broken store')),
    fails: 'ImageInspectError: Failed to inspect image "registry.example/web:1": broken store',
    event: 'Warning Failed main: Error: ImageInspectError',
  },
];
for (const { it, container = {}, pod = {}, arrange, fails, event } of failures) {
  test(`${it} is why a container waits`, async () => {
    const world = new ContainerWorld();
    arrange?.(world);
    assert.deepEqual(reasons(await world.sync(aPod({ containers: [aContainer(container)], ...pod }))), [fails]);
    assert.equal(world.events.lines().at(-1), event);
    assert.equal(
      `${world.startErrors.get(uid, 'main')?.reason}: ${world.startErrors.get(uid, 'main')?.message}`,
      fails,
    );
  });
}

test('the runtime gets the image of a volume by its ID, and as the pod names it', async () => {
  const data = { kind: 'image', reference: 'data:1' } as const;
  const volumes = { ...emptyVolumes, mountedVolumesOf: () => new Map([['data', data]]) };
  const world = new ContainerWorld({ volumes });
  const volumeMounts = [{ name: 'data', mountPath: '/data' }];
  const source = { name: 'data', image: { reference: 'data:1' } };
  await world.syncAll(aPod({ containers: [aContainer({ volumeMounts })], volumes: [source] }));
  const [request] = [...world.runtime.requests.values()];
  const { image, imageId } = request?.mounts.find(({ containerPath }) => containerPath === '/data') ?? {};
  assert.deepEqual([image, imageId], ['data:1', 'sha256:data:1']);
});

test('a failed pull waits 10 s, then 20 s, and reports why', async () => {
  const world = new ContainerWorld();
  world.runtime.presentImages = new Set();
  world.runtime.fail('pullImage', new RuntimeError('unknown'), new RuntimeError('unknown'));
  assert.ok((await world.sync(aPod())).pullFailed);
  const second = await world.sync(aPod());
  assert.deepEqual(reasons(second), [
    'ImagePullBackOff: Back-off pulling image "registry.example/web:1": ErrImagePull: unknown',
  ]);
  assert.equal(second.pullFailed, false, 'nothing was pulled this time');
  assert.deepEqual(world.events.lines().slice(-2), [
    'Normal BackOff main: Back-off pulling image "registry.example/web:1"',
    'Warning Failed main: Error: ImagePullBackOff',
  ]);
  await world.clock.advance(10_000);
  assert.ok((await world.sync(aPod())).pullFailed);
  await world.clock.advance(10_000);
  assert.match(reasons(await world.sync(aPod())).join(), /ImagePullBackOff/);
  await world.clock.advance(10_000);
  await world.sync(aPod());
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.ok(
    world.events
      .lines()
      .includes(
        'Normal Pulled main: Successfully pulled image "registry.example/web:1" in 0s (0s including waiting). Image size: 42 bytes.',
      ),
  );
});

test('a runtime without images pulls none and says what runs instead, once, whatever the policy', async () => {
  for (const imagePullPolicy of ['Always', 'IfNotPresent', 'Never']) {
    const world = new ContainerWorld();
    world.runtime.images = undefined;
    const pod = aPod({ containers: [aContainer({ imagePullPolicy, command: ['$(SHELL)', '-c', 'secret'] })] });
    await world.sync(pod);
    const started = world.events.lines().length;
    world.runtime.exit(uid, 'main');
    await world.sync(pod);
    assert.equal(
      world.events
        .lines()
        .slice(started)
        .filter((line) => line.includes('image')).length,
      0,
    );
    assert.deepEqual(world.events.lines().slice(0, started), [
      'Normal ImageNotUsed main: Image "registry.example/web:1" is not used: this runtime has no images, and runs "$(SHELL)" of this machine',
      'Normal Created main: Created container: main',
      'Normal Started main: Started container main',
    ]);
  }
});

test('without images a container without a command idles with a warning, and arguments alone change nothing', async () => {
  for (const [args, has, how] of [
    [[], 'no command', ''],
    [['--port', '80'], 'arguments and no command', ' (kubectl run has --command)'],
  ] as const) {
    const world = new ContainerWorld();
    world.runtime.images = undefined;
    await world.sync(aPod({ containers: [aContainer({ args: [...args] })] }));
    assert.equal(
      world.events.lines()[0],
      `Warning ContainerIdle main: Image "registry.example/web:1" is not used: this runtime has no images. Container main has ${has}, so it only idles: give it a command${how}, or use a node whose runtime has images (--runtime cri)`,
    );
    assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  }
});

test('without images an init container without a command is not started, and nothing after it; a sidecar idles', async () => {
  const world = new ContainerWorld();
  world.runtime.images = undefined;
  const sidecar = aContainer({ name: 'proxy', restartPolicy: 'Always' });
  const pod = aPod({ initContainers: [sidecar, aContainer({ name: 'prepare' })] });
  await world.syncAll(pod);
  await world.syncAll(pod);
  assert.equal(world.runtime.show(uid), 'ready: proxy#0 running');
  const { reason, message } = world.startErrors.get(uid, 'prepare') ?? {};
  assert.equal(reason, 'ImageRequired');
  assert.match(
    message ?? '',
    /^init container prepare has no command: .* in image "registry.example\/web:1", and this/,
  );
});

test('a sandbox that cannot be made is an event and an error', async () => {
  const world = new ContainerWorld();
  world.runtime.fail('runPod', new RuntimeError('no namespaces'));
  await assert.rejects(world.sync(aPod()), /no namespaces/);
  assert.deepEqual(world.events.lines(), [
    'Warning FailedCreatePodSandBox Failed to create pod sandbox: no namespaces',
  ]);
});

test('a sandbox that was made and cannot be looked at is another event', async () => {
  const world = new ContainerWorld();
  world.runtime.fail('runPod', new RuntimeError('timed out', {}, 'SandboxStatusFailed'));
  await assert.rejects(world.sync(aPod()), /timed out/);
  assert.deepEqual(world.events.lines(), [
    'Warning FailedPodSandBoxStatus Unable to get pod sandbox status: timed out',
  ]);
});

test('a sandbox that is lost before it has containers is replaced, and an event says so', async () => {
  const world = new ContainerWorld();
  world.runtime.fail('createContainer', new RuntimeError('busy'));
  await world.sync(aPod());
  world.runtime.reboot();
  await world.sync(aPod());
  assert.ok(
    world.events.lines().includes('Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.'),
  );
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
});

test('a pod whose group cannot be made is an event of its own, and tried again', async () => {
  const world = new ContainerWorld();
  world.runtime.fail('runPod', new RuntimeError('cgroup "x": EBUSY', {}, 'PodGroupFailed'));
  await assert.rejects(world.sync(aPod()), /EBUSY/);
  assert.deepEqual(world.events.lines(), [
    'Warning FailedCreatePodContainer unable to ensure pod container exists: cgroup "x": EBUSY',
  ]);
  await world.syncAll(aPod());
  assert.match(world.runtime.show(uid), /running/);
});

test('after a reboot the pod is made again, with its restarts counted on', async () => {
  const world = new ContainerWorld();
  const pod = aPod({ initContainers: [aContainer({ name: 'i' })] });
  await world.syncAll(pod);
  world.runtime.exit(uid, 'i');
  await world.syncAll(pod);
  await world.clock.advance(1000);
  world.runtime.reboot();
  await world.sync(pod);
  assert.match(world.runtime.show(uid), /^ready: i#1 running/, 'init containers run again');
  assert.ok(
    world.events.lines().includes('Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.'),
  );
  world.runtime.exit(uid, 'i');
  await world.syncAll(pod);
  assert.match(world.runtime.show(uid), /^ready: main#1 running/);
});

test('a container that the runtime has forgotten goes on with the restart count of its status', async () => {
  const world = new ContainerWorld();
  const told = { name: 'main', ready: true, restartCount: 4, image: '', imageID: '', containerID: 'fake://x' };
  await world.sync(aPod({ status: { containerStatuses: [told] } }));
  assert.match(world.runtime.show(uid), /main#5 running/);
});

test('all containers start over in the same sandbox when one asks for it, and count on', async () => {
  const world = new ContainerWorld();
  const rule = { action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } };
  const containers = [
    aContainer({ name: 'a', restartPolicy: 'Never', restartPolicyRules: [rule] }),
    aContainer({ name: 'b' }),
  ];
  const pod = aPod({ containers, restartPolicy: 'Never' });
  await world.syncAll(pod);
  world.runtime.exit(podUid(pod), 'a', 42);
  const status = (name: string, id: string): object => ({ name, restartCount: 0, containerID: `fake://${id}` });
  await world.syncAll({ ...pod, status: { containerStatuses: [status('a', 'c1'), status('b', 'c2')] } } as Pod);
  assert.deepEqual(
    (await world.runtime.get(podUid(pod)))?.containers
      .map(({ name, attempt, state }) => `${name} ${attempt} ${state.kind}`)
      .sort(),
    ['a 1 running', 'b 1 running'],
  );
  assert.equal(world.runtime.calls.filter((call) => call.startsWith('runPod')).length, 1);
  assert.ok(world.events.lines().includes('Normal Killing b: killing'));
});

test('an ephemeral container sees the processes of the container it names, which must exist', async () => {
  const world = new ContainerWorld();
  const debug = { name: 'debug', image: 'busybox', targetContainerName: 'main' };
  await world.sync(aPod());
  await world.sync(aPod({ ephemeralContainers: [debug] }));
  assert.equal(world.runtime.requests.get('c2')?.processesOf, 'c1');
  const { errors } = await world.sync(
    aPod({ ephemeralContainers: [debug, { ...debug, name: 'd', targetContainerName: 'x' }] }),
  );
  assert.deepEqual(errors.map(String), ['ContainerStartError: unable to find target container x']);
  assert.equal(world.startErrors.get(podUid(aPod()), 'd')?.reason, 'CreateContainerConfigError');
});

test('the sandbox has the DNS of the cluster, and a pod whose name is too long waits and says so', async () => {
  const world = new ContainerWorld();
  await world.sync(aPod());
  assert.deepEqual(world.runtime.podRequests[0]?.dns.servers, ['10.96.0.10']);
  const long = aPod({
    metadata: { uid: 'long' },
    hostname: 'h'.repeat(40),
    subdomain: 's'.repeat(20),
    setHostnameAsFQDN: true,
  });
  await world.sync({ ...long, spec: { ...long.spec, hostNetwork: true } });
  assert.equal(world.runtime.show('long'), 'ready: main#0 running', "it has the host's name");
  await world.runtime.stopPod('long');
  await assert.rejects(world.sync(long), /is too long/);
  assert.match(
    world.events.lines().at(-1) ?? '',
    /^Warning FailedCreatePodSandBox Failed to create pod sandbox: failed to/,
  );
});

test('that the cluster has no DNS is said of the pod and of the node', async () => {
  const world = new ContainerWorld({ dns: async () => ({ ...(await testDns()), clusterDns: [] }) });
  await world.sync(aPod());
  const missing =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';
  assert.deepEqual(world.nodeEvents, [`MissingClusterDNS: ${missing}`]);
  assert.equal(world.events.lines()[0], `Warning MissingClusterDNS pod: "${who}". ${missing}`);
});

test('a container is asked for with variables, labels, user and message file', async () => {
  const world = new ContainerWorld();
  world.view = viewDeps({ configMaps: [aConfigMap({ name: 'x', data: { k: 'v' } })] });
  const pod = aPod({
    securityContext: { runAsUser: 7, fsGroup: 9, supplementalGroups: [8] },
    containers: [
      aContainer({
        command: ['echo', '$(A)'],
        env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'k' } } }],
        terminationMessagePath: '/dev/termination-log',
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'], add: ['CAP_NET_ADMIN'] },
        },
        resources: { limits: { memory: '64Mi', cpu: '500m' } },
      }),
    ],
  });
  await world.sync(pod);
  const request = world.runtime.requests.get('c1');
  assert.deepEqual(request?.command, ['echo', 'v']);
  assert.deepEqual(
    request?.environment.filter(({ name }) => name === 'A'),
    [{ name: 'A', value: 'v' }],
  );
  assert.deepEqual(request?.security, {
    uid: 7,
    username: undefined,
    gid: undefined,
    supplementalGroups: [9, 8],
    supplementalGroupsPolicy: 'Merge',
    readOnlyRootFilesystem: false,
    privileged: false,
    noNewPrivileges: true,
    addCapabilities: ['NET_ADMIN'],
    dropCapabilities: ['ALL'],
    seccomp: { type: 'RuntimeDefault', profile: '' },
    appArmor: undefined,
    procMount: 'Default',
    seLinux: undefined,
  });
  assert.deepEqual(request?.resources, {
    memoryBytesMax: 64 * 1024 * 1024,
    cpuMilliMax: 500,
    cpuMilliRequested: undefined,
    oomScoreAdjustment: 999,
    hugePageBytesMax: {},
  });
  assert.equal(request?.annotations['mountlet.dev/environment-objects'], '[["ConfigMap","x","1"]]');
  assert.ok(request?.mounts.some(({ containerPath }) => containerPath === '/dev/termination-log'));
  assert.equal(request?.logPath, 'main/0.log');
});

const users: readonly { it: string; security: Container['securityContext']; defaultUid: number; fails?: RegExp }[] = [
  { it: 'a user that is not root', security: { runAsNonRoot: true, runAsUser: 5 }, defaultUid: 0 },
  { it: 'a program that is not root itself', security: { runAsNonRoot: true }, defaultUid: 5 },
  {
    it: 'no user where this program is root',
    security: { runAsNonRoot: true },
    defaultUid: 0,
    fails: /container has runAsNonRoot and image will run as root/,
  },
];
for (const { it, security, defaultUid, fails } of users) {
  test(`runAsNonRoot ${fails === undefined ? 'allows' : 'refuses'} ${it}`, async () => {
    const world = new ContainerWorld({ settings: { ...testNodeSettings, defaultUid } });
    const securityContext = security ?? {};
    const [reason] = reasons(await world.sync(aPod({ containers: [aContainer({ securityContext })] })));
    assert.equal(reason === undefined, fails === undefined);
    if (fails !== undefined) assert.match(reason ?? '', fails);
  });
}

test('a postStart hook that fails ends the container and is reported without its output', async () => {
  const world = new ContainerWorld();
  world.runtime.execute = () => Promise.resolve(3);
  const lifecycle = { postStart: { exec: { command: ['hook'] } } };
  const result = await world.sync(aPod({ containers: [aContainer({ lifecycle })], terminationGracePeriodSeconds: 30 }));
  assert.deepEqual(reasons(result), ['PostStartHookError: PostStartHook failed']);
  assert.equal(world.runtime.show(uid), 'ready: main#0 exited 143');
  assert.deepEqual(world.events.lines().slice(-2), [
    'Warning FailedPostStartHook main: PostStartHook failed',
    'Normal Killing main: FailedPostStartHook',
  ]);
});

test('a hook whose container ends meanwhile has not failed', async () => {
  const world = new ContainerWorld();
  const hook = { exec: { command: ['hook'] } };
  const pod = aPod({
    containers: [aContainer({ lifecycle: { postStart: hook, preStop: hook } })],
    terminationGracePeriodSeconds: 30,
  });
  world.runtime.execute = () => {
    world.runtime.exit(uid, 'main', 0);
    return Promise.resolve(137);
  };
  assert.deepEqual(reasons(await world.sync(pod)), []);
  assert.equal(world.runtime.show(uid), 'ready: main#0 exited 0');
  world.runtime.execute = () => Promise.resolve(0);
  await world.sync(pod);
  const runtimePod = await world.runtime.get(uid);
  assert.ok(runtimePod);
  world.runtime.exit(uid, 'main', 0);
  // What the caller saw is older than that.
  await world.killer.killPod(pod, runtimePod, undefined, signal);
  assert.doesNotMatch(world.events.lines().join(), /Hook/);
});

async function kill(world: ContainerWorld, pod: Pod, graceSeconds?: number): Promise<void> {
  const runtimePod = await world.runtime.get(uid);
  assert.ok(runtimePod);
  await world.killer.killPod(pod, runtimePod, graceSeconds, signal);
}

test('the end of a pod: hook, stop signal with what is left of the grace, then its sandbox', async () => {
  const world = new ContainerWorld();
  const lifecycle = { preStop: { sleep: { seconds: 10 } } };
  const pod = aPod({ terminationGracePeriodSeconds: 30, containers: [aContainer({ lifecycle })] });
  await world.sync(pod);
  world.runtime.calls.length = 0;
  const killed = kill(world, pod);
  await settle();
  assert.deepEqual(world.runtime.calls, [], 'the hook runs first');
  await world.clock.advance(10_000);
  await killed;
  assert.deepEqual(world.runtime.calls, ['stopContainer main 20000', 'stopPod web']);
  assert.equal(world.events.lines().at(-1), 'Normal Killing main: Stopping container main');
});

test('a hook that takes the whole grace leaves two seconds; one that fails is reported and changes nothing', async () => {
  const world = new ContainerWorld();
  world.runtime.execute = (_id, [command = '']) => (command === 'bad' ? Promise.resolve(1) : new Promise(() => {}));
  const hook = (command: string): Partial<Container> => ({ lifecycle: { preStop: { exec: { command: [command] } } } });
  const containers = [aContainer({ name: 'a', ...hook('slow') }), aContainer({ name: 'b', ...hook('bad') })];
  const pod = aPod({ terminationGracePeriodSeconds: 5, containers });
  await world.sync(pod);
  world.runtime.calls.length = 0;
  const killed = kill(world, pod);
  await settle();
  await world.clock.advance(5000);
  await killed;
  assert.deepEqual(
    world.runtime.calls.filter((call) => call.startsWith('stop')),
    ['stopContainer b 5000', 'stopContainer a 2000', 'stopPod web'],
  );
  assert.ok(world.events.lines().includes('Warning FailedPreStopHook b: PreStopHook failed'));
});

test('a hook that takes longer than the grace is not ended before its container', async () => {
  const world = new ContainerWorld();
  let ended: AbortSignal | undefined;
  world.runtime.run = async (_id, _command, until) => {
    ended = until;
    return await new Promise(() => {});
  };
  world.runtime.deaf.add('main');
  const lifecycle = { preStop: { exec: { command: ['slow'] } } };
  const pod = aPod({ terminationGracePeriodSeconds: 5, containers: [aContainer({ lifecycle })] });
  await world.sync(pod);
  const killed = kill(world, pod);
  await settle();
  await world.clock.advance(5000);
  await world.clock.advance(1999);
  assert.equal(ended?.aborted, false, 'the container has two more seconds, and so has its hook');
  await world.clock.advance(1);
  await killed;
  assert.equal(ended.aborted, true);
});

test('sidecars end after the containers, the last one first', async () => {
  const world = new ContainerWorld();
  const side = (name: string): Container => aContainer({ name, restartPolicy: 'Always' });
  const pod = aPod({ terminationGracePeriodSeconds: 30, initContainers: [side('s'), side('t')] });
  await world.syncAll(pod);
  world.runtime.calls.length = 0;
  await kill(world, pod, 20);
  assert.deepEqual(
    world.runtime.calls.map((call) => call.split(' ').slice(0, 2).join(' ')),
    ['stopContainer main', 'stopContainer t', 'stopContainer s', 'stopPod web'],
  );
});

test('a container that cannot be stopped does not keep the others running', async () => {
  const world = new ContainerWorld();
  const pod = aPod({ containers: [aContainer({ name: 'a' }), aContainer({ name: 'b' })] });
  await world.sync(pod);
  world.runtime.fail('stopContainer', new RuntimeError('stuck'));
  await assert.rejects(kill(world, pod, 1), /stuck/);
  assert.equal(world.runtime.show(uid), 'ready: b#0 running, a#0 exited 143');
});
