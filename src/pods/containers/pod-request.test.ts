import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PodRequest } from '../../runtimes/runtime.ts';
import { aContainer, aPod as buildPod } from '../../testing/fakes/builders.ts';
import { MemoryContainerFiles } from '../../testing/fakes/memory-pod-api.ts';
import { containerResources } from './container-resources.ts';
import { containerSecurity } from './container-security.ts';
import { podRequest } from './pod-request.ts';
import { containerHash, kubeletAnnotations } from './runtime-containers.ts';

function aPod({ spec = {}, ...metadata }: Partial<Pod['metadata']> & { readonly spec?: Partial<Pod['spec']> }): Pod {
  return buildPod({ metadata, ...spec });
}

const gibibyte = 1024 ** 3;

function request(pod: Pod, volumeGroups: readonly number[] = []): PodRequest {
  return podRequest(pod, {
    files: new MemoryContainerFiles(),
    clusterDomain: 'cluster.local',
    dns: { servers: ['10.96.0.10'], searches: [], options: [] },
    runtimeHandler: 'kata',
    volumeGroups,
  });
}

test("labels are the pod's with its coordinates over them, annotations the pod's own", () => {
  const labels = { app: 'web', 'io.kubernetes.pod.uid': 'forged' };
  const pod = aPod({ name: 'web', namespace: 'shop', uid: 'u1', labels, annotations: { note: 'n' } });
  assert.deepEqual(request(pod).labels, {
    app: 'web',
    'io.kubernetes.pod.name': 'web',
    'io.kubernetes.pod.namespace': 'shop',
    'io.kubernetes.pod.uid': 'u1',
  });
  assert.deepEqual(request(pod).annotations, { note: 'n' });
  assert.equal(request(pod).runtimeHandler, 'kata');
  assert.deepEqual(request(pod).dns.servers, ['10.96.0.10']);
});

test('ports of regular containers, each name once in a container', () => {
  const ports = [
    { name: 'http', containerPort: 80 },
    { name: 'http', containerPort: 81 },
    { containerPort: 53, protocol: 'UDP', hostPort: 5353, hostIP: '127.0.0.1' },
    { containerPort: 53, protocol: 'UDP', hostPort: 5353, hostIP: '127.0.0.1' },
    { containerPort: 53, protocol: 'TCP', hostPort: 5353, hostIP: '127.0.0.1' },
  ];
  const containers = [aContainer({ name: 'a', ports }), aContainer({ name: 'b', ports: ports.slice(0, 1) })];
  const initContainers = [aContainer({ name: 'side', restartPolicy: 'Always', ports: [{ containerPort: 99 }] })];
  const http = { protocol: 'TCP', containerPort: 80, hostPort: 0, hostIp: '' };
  assert.deepEqual(request(aPod({ spec: { containers, initContainers } })).ports, [
    http,
    { protocol: 'UDP', containerPort: 53, hostPort: 5353, hostIp: '127.0.0.1' },
    { protocol: 'TCP', containerPort: 53, hostPort: 5353, hostIp: '127.0.0.1' },
    http,
  ]);
});

test('a full name that the kernel cannot keep is refused', () => {
  const spec = {
    containers: [aContainer()],
    hostname: 'h'.repeat(40),
    subdomain: 's'.repeat(20),
    setHostnameAsFQDN: true,
  };
  assert.throws(() => request(aPod({ spec, namespace: 'shop' })), {
    message: `failed to construct FQDN from pod hostname and cluster domain, FQDN ${'h'.repeat(40)}.${'s'.repeat(20)}.shop.svc.cluster.local is too long (64 characters is the max, 84 characters requested)`,
  });
  assert.equal(
    request(aPod({ spec: { ...spec, hostname: 'h', subdomain: 's' }, namespace: 'shop' })).hostname,
    'h.s.shop.svc.cluster.local',
  );
});

test('the security of the pod: groups of volumes before its own, privileged if any container is', () => {
  const spec = {
    containers: [aContainer()],
    initContainers: [aContainer({ name: 'i', securityContext: { privileged: true } })],
    securityContext: {
      runAsUser: 1,
      runAsGroup: 2,
      fsGroup: 3,
      supplementalGroups: [5],
      seLinuxOptions: { level: 's0' },
    },
  };
  assert.deepEqual(request(aPod({ spec }), [4]).security, {
    privileged: true,
    uid: 1,
    gid: 2,
    supplementalGroups: [3, 4, 5],
    supplementalGroupsPolicy: 'Merge',
    seLinux: { user: '', role: '', type: '', level: 's0' },
  });
  const odd = { containers: [aContainer()], securityContext: { supplementalGroupsPolicy: 'Odd' } };
  assert.throws(() => request(aPod({ spec: odd })), { message: 'unsupported supplementalGroupsPolicy: Odd' });
});

const limited = { limits: { cpu: '200m', memory: '64Mi' }, requests: { cpu: '100m', memory: '32Mi' } };

test('a pod is limited as a whole when all its containers are, with what it costs beside them', () => {
  const overhead = { cpu: '50m', memory: '16Mi' };
  const one = request(aPod({ spec: { containers: [aContainer({ resources: limited })], overhead } }));
  assert.equal(one.qosClass, 'Burstable');
  assert.deepEqual(one.resources, { cpuMilliRequested: 150, cpuMilliMax: 250, memoryBytesMax: 80 * 1024 ** 2 });
  assert.deepEqual(one.containersTotal, { cpuMilliRequested: 100, cpuMilliMax: 200, memoryBytesMax: 64 * 1024 ** 2 });
  assert.deepEqual(one.overhead, { cpuMilliRequested: 50, cpuMilliMax: 50, memoryBytesMax: 16 * 1024 ** 2 });
  const containers = [aContainer({ resources: limited }), aContainer({ name: 'free' })];
  const two = request(aPod({ spec: { containers } }));
  assert.deepEqual(two.resources, { cpuMilliRequested: 100, cpuMilliMax: undefined, memoryBytesMax: undefined });
  assert.deepEqual(two.overhead, {});
  const whole = request(
    aPod({ spec: { containers, resources: { limits: { memory: '1Gi' }, requests: { cpu: '2' } } } }),
  );
  assert.deepEqual(whole.resources, { cpuMilliRequested: 2000, cpuMilliMax: undefined, memoryBytesMax: gibibyte });
  assert.deepEqual(request(aPod({ spec: { containers: [aContainer()] } })).containersTotal, {
    cpuMilliMax: 0,
    memoryBytesMax: 0,
  });
});

const scores: readonly { readonly it: string; readonly spec: Partial<Pod['spec']>; readonly score: number }[] = [
  { it: 'asks for nothing', spec: {}, score: 1000 },
  {
    it: 'is guaranteed',
    spec: {
      containers: [
        aContainer({ resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '1', memory: '1Gi' } } }),
      ],
    },
    score: -997,
  },
  { it: 'the node needs', spec: { priorityClassName: 'system-node-critical' }, score: -997 },
  {
    it: 'asks for a tenth',
    spec: { containers: [aContainer({ resources: { requests: { memory: '1Gi' } } })] },
    score: 900,
  },
  {
    it: 'asks for very little',
    spec: { containers: [aContainer({ resources: { requests: { memory: '1Ki' } } })] },
    score: 999,
  },
  {
    it: 'asks for it all',
    spec: { containers: [aContainer({ resources: { requests: { memory: '10Gi' } } })] },
    score: 3,
  },
  {
    it: 'has a share in what its pod asks for',
    spec: { containers: [aContainer(), aContainer({ name: 'b' })], resources: { requests: { memory: '4Gi' } } },
    score: 800,
  },
];
for (const { it, spec, score } of scores) {
  test(`OOM score of a container that ${it}`, () => {
    const pod = aPod({ spec: { containers: [aContainer()], ...spec } });
    const [container = aContainer()] = pod.spec.containers;
    assert.equal(containerResources(container, pod, 10 * gibibyte).oomScoreAdjustment, score);
  });
}

test('a sidecar is not killed before the container with the smallest request', () => {
  const memory = (amount: string): object => ({ resources: { requests: { memory: amount } } });
  const sidecar = aContainer({ name: 's', restartPolicy: 'Always', ...memory('1Gi') });
  const containers = [aContainer(memory('2Gi')), aContainer({ name: 'b', ...memory('3Gi') })];
  const pod = aPod({ spec: { containers, initContainers: [sidecar] } });
  assert.equal(containerResources(sidecar, pod, 10 * gibibyte).oomScoreAdjustment, 800);
});

test('limits of a container, those of its pod where it has none, and huge pages', () => {
  const container = aContainer({ resources: { limits: { cpu: '500m', 'hugepages-2Mi': '4Mi' } } });
  const pod = aPod({ spec: { containers: [container], resources: { limits: { cpu: '2', memory: '1Gi' } } } });
  const { oomScoreAdjustment: _, ...limits } = containerResources(container, pod, gibibyte);
  assert.deepEqual(limits, {
    cpuMilliMax: 500,
    memoryBytesMax: gibibyte,
    cpuMilliRequested: undefined,
    hugePageBytesMax: { '2Mi': 4 * 1024 ** 2 },
  });
});

function security(pod: Pod, image: object = {}, seccompDefault = false): ReturnType<typeof containerSecurity> {
  const [container = aContainer()] = pod.spec.containers;
  const seccompFile = (profile: string): string => `/root/seccomp/${profile}`;
  return containerSecurity({ pod, container, image, defaultUid: 0, volumeGroups: [7], seccompFile, seccompDefault });
}

test('a container runs as the user of its pod, else of its image', () => {
  const containers = [aContainer()];
  const asPod = security(aPod({ spec: { containers, securityContext: { runAsUser: 5 } } }), { uid: 6 });
  assert.deepEqual([asPod.uid, asPod.username], [5, undefined]);
  const numeric = security(aPod({ spec: { containers } }), { uid: 6 });
  assert.deepEqual([numeric.uid, numeric.username], [6, undefined]);
  const named = security(aPod({ spec: { containers } }), { username: 'www-data' });
  assert.deepEqual([named.uid, named.username], [undefined, 'www-data']);
});

test("groups of a container: that of the files, the pod's, those of volumes", () => {
  const securityContext = { fsGroup: 3, supplementalGroups: [5] };
  assert.deepEqual(
    security(aPod({ spec: { containers: [aContainer()], securityContext } })).supplementalGroups,
    [3, 5, 7],
  );
});

test('where a pod names no seccomp profile the node decides', () => {
  const containers = [aContainer()];
  const named = aPod({ spec: { containers, securityContext: { seccompProfile: { type: 'Unconfined' } } } });
  const types = [false, true].map((byDefault) => security(aPod({ spec: { containers } }), {}, byDefault).seccomp.type);
  assert.deepEqual([...types, security(named, {}, true).seccomp.type], ['Unconfined', 'RuntimeDefault', 'Unconfined']);
});

test('profiles of this machine are named by their file or their name', () => {
  const seccompProfile = { type: 'Localhost', localhostProfile: 'p.json' };
  const own = security(aPod({ spec: { containers: [aContainer({ securityContext: { seccompProfile } })] } }));
  assert.deepEqual(own.seccomp, { type: 'Localhost', profile: '/root/seccomp/p.json' });
  const nameless = { containers: [aContainer()], securityContext: { seccompProfile: { type: 'Localhost' } } };
  assert.throws(() => security(aPod({ spec: nameless })), {
    message: 'localhostProfile must be set if seccompProfile type is Localhost.',
  });
  const annotated = (value: string): unknown =>
    security(
      aPod({
        annotations: { 'container.apparmor.security.beta.kubernetes.io/main': value },
        spec: { containers: [aContainer({ name: 'main' })] },
      }),
    ).appArmor;
  assert.deepEqual(annotated('localhost/mine'), { type: 'Localhost', profile: 'mine' });
  assert.deepEqual(annotated('runtime/default'), { type: 'RuntimeDefault', profile: '' });
  assert.deepEqual(annotated('unconfined'), { type: 'Unconfined', profile: '' });
  assert.equal(annotated('odd'), undefined);
});

test("the hash of a container is the kubelet's", () => {
  assert.equal(containerHash(aContainer({ name: 'nginx', image: 'nginx:1.25' })), '5d0e8bc9');
  assert.equal(containerHash(aContainer({ name: 'c', image: 'busybox' })), 'ad819b5c');
});

test('a container has the notes of the kubelet', () => {
  const container = aContainer({
    name: 'main',
    image: 'busybox',
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'FallbackToLogsOnError',
    lifecycle: { preStop: { exec: { command: ['a', '<b>'] } } },
    ports: [{ containerPort: 80 }],
  });
  const pod = aPod({ spec: { containers: [container], terminationGracePeriodSeconds: 30 } });
  const noted = kubeletAnnotations(
    { ...pod, metadata: { ...pod.metadata, deletionGracePeriodSeconds: 5 } },
    container,
    2,
  );
  assert.deepEqual(noted, {
    'io.kubernetes.container.hash': containerHash(container),
    'io.kubernetes.container.restartCount': '2',
    'io.kubernetes.container.terminationMessagePath': '/dev/termination-log',
    'io.kubernetes.container.terminationMessagePolicy': 'FallbackToLogsOnError',
    'io.kubernetes.pod.terminationGracePeriod': '30',
    'io.kubernetes.pod.deletionGracePeriod': '5',
    'io.kubernetes.container.preStopHandler': '{"exec":{"command":["a","\\u003cb\\u003e"]}}',
    'io.kubernetes.container.ports': '[{"containerPort":80}]',
  });
});
