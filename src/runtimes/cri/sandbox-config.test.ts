import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PodSandboxConfig, PodSandboxConfigSchema } from '../../grpc/messages/cri_pb.ts';
import { create, toJson } from '@bufbuild/protobuf';
import { podRequest } from '../../testing/machine/process-sandboxes.ts';
import type { PodRequest } from '../runtime.ts';
import {
  cgroupParent,
  cpuQuota,
  cpuShares,
  linuxResources,
  normalSysctlName,
  sandboxConfig,
} from './sandbox-config.ts';

function config(request: Partial<PodRequest> = {}, attempt = 0): PodSandboxConfig {
  return create(PodSandboxConfigSchema, sandboxConfig(podRequest('/node', request), attempt, 'cgroupfs'));
}

/** As JSON has it, where fields without a value are absent. */
function shown(request: Partial<PodRequest> = {}): Record<string, unknown> {
  return toJson(PodSandboxConfigSchema, config(request)) as Record<string, unknown>;
}

test('a sandbox is named after its pod and counts its attempts', () => {
  const { metadata, logDirectory } = config({ uid: 'u-1', name: 'web', namespace: 'shop' }, 3);
  assert.deepEqual(
    { ...metadata },
    { $typeName: 'runtime.v1.PodSandboxMetadata', uid: 'u-1', name: 'web', namespace: 'shop', attempt: 3 },
  );
  assert.equal(logDirectory, '/node/logs/u-1');
});

test('a pod with the network of the host has no hostname of its own', () => {
  assert.equal(config({ hostname: 'web-0' }).hostname, 'web-0');
  assert.equal(config({ hostname: 'web-0', hostNetwork: true }).hostname, '');
});

test('names, ports, labels and annotations are passed on', () => {
  const sent = shown({
    dns: { servers: ['10.0.0.10'], searches: ['shop.svc.cluster.local'], options: ['ndots:5'] },
    ports: [
      { protocol: 'TCP', containerPort: 80, hostPort: 0, hostIp: '' },
      { protocol: 'SCTP', containerPort: 53, hostPort: 5353, hostIp: '127.0.0.1' },
    ],
    labels: { app: 'web', 'io.kubernetes.pod.name': 'web' },
    annotations: { note: 'n' },
  });
  assert.deepEqual(sent['dnsConfig'], {
    servers: ['10.0.0.10'],
    searches: ['shop.svc.cluster.local'],
    options: ['ndots:5'],
  });
  assert.deepEqual(sent['portMappings'], [
    { containerPort: 80 },
    { protocol: 'SCTP', containerPort: 53, hostPort: 5353, hostIp: '127.0.0.1' },
  ]);
  assert.deepEqual(sent['labels'], { app: 'web', 'io.kubernetes.pod.name': 'web' });
  assert.deepEqual(sent['annotations'], { note: 'n' });
});

const namespaceCases: readonly { readonly it: string; readonly pod: Partial<PodRequest>; readonly sent: object }[] = [
  { it: 'of its own, processes for each container', pod: {}, sent: { pid: 'CONTAINER' } },
  { it: 'with one for processes', pod: { shareProcessNamespace: true }, sent: {} },
  { it: 'with the processes of the host', pod: { hostPid: true, shareProcessNamespace: true }, sent: { pid: 'NODE' } },
  { it: 'with the network of the host', pod: { hostNetwork: true }, sent: { pid: 'CONTAINER', network: 'NODE' } },
  { it: 'with the IPC of the host', pod: { hostIpc: true }, sent: { pid: 'CONTAINER', ipc: 'NODE' } },
];
for (const { it, pod, sent } of namespaceCases) {
  test(`namespaces ${it}`, () => {
    const { linux } = shown(pod) as { linux: { securityContext: { namespaceOptions: object } } };
    assert.deepEqual(linux.securityContext.namespaceOptions, { ...sent, usernsOptions: { mode: 'NODE' } });
  });
}

test('the security of the pod, and a seccomp profile whatever the pod says', () => {
  const { linux } = config({
    security: {
      privileged: true,
      uid: 0,
      gid: 7,
      supplementalGroups: [2000, 3000],
      supplementalGroupsPolicy: 'Strict',
      seLinux: { user: 'u', role: 'r', type: 't', level: 's0' },
    },
  });
  const sent = linux?.securityContext;
  assert.equal(sent?.privileged, true);
  assert.equal(sent?.runAsUser?.value, 0n);
  assert.equal(sent?.runAsGroup?.value, 7n);
  assert.deepEqual(sent?.supplementalGroups, [2000n, 3000n]);
  assert.equal(sent?.supplementalGroupsPolicy, 1);
  assert.equal(sent?.seccomp?.profileType, 0);
  assert.equal(sent?.selinuxOptions?.level, 's0');
  assert.equal(config().linux?.securityContext?.runAsUser, undefined);
});

test('sysctls are spelled with dots', () => {
  assert.deepEqual(config({ sysctls: { 'kernel/shm_rmid_forced': '1' } }).linux?.sysctls, {
    'kernel.shm_rmid_forced': '1',
  });
  assert.equal(normalSysctlName('net.ipv4.conf.eno2/100.rp_filter'), 'net.ipv4.conf.eno2/100.rp_filter');
  assert.equal(normalSysctlName('net/ipv4/conf/eno2.100/rp_filter'), 'net.ipv4.conf.eno2/100.rp_filter');
});

test('overhead is request and limit at once, and empty without one', () => {
  assert.deepEqual((shown()['linux'] as Record<string, unknown>)['overhead'], {});
  const { linux } = shown({
    overhead: { cpuMilliMax: 250, cpuMilliRequested: 250, memoryBytesMax: 1024 },
    containersTotal: { cpuMilliRequested: 100, memoryBytesMax: 4096 },
  }) as { linux: Record<string, unknown> };
  assert.deepEqual(linux['overhead'], {
    cpuShares: '256',
    cpuQuota: '25000',
    cpuPeriod: '100000',
    memoryLimitInBytes: '1024',
  });
  assert.deepEqual(linux['resources'], { cpuShares: '102', cpuPeriod: '100000', memoryLimitInBytes: '4096' });
});

const parentCases = [
  { qosClass: 'Guaranteed', cgroupfs: '/kubepods/poda-b', systemd: '/kubepods.slice/kubepods-poda_b.slice' },
  {
    qosClass: 'Burstable',
    cgroupfs: '/kubepods/burstable/poda-b',
    systemd: '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice',
  },
  {
    qosClass: 'BestEffort',
    cgroupfs: '/kubepods/besteffort/poda-b',
    systemd: '/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice',
  },
] as const;
for (const { qosClass, cgroupfs, systemd } of parentCases) {
  test(`the cgroup of a pod that is ${qosClass}`, () => {
    assert.equal(cgroupParent({ uid: 'a-b', qosClass }, 'cgroupfs'), cgroupfs);
    assert.equal(cgroupParent({ uid: 'a-b', qosClass }, 'systemd'), systemd);
  });
}

test('shares and quota of processors have bounds', () => {
  assert.deepEqual([0, 1, 100, 1000, 999_999_999].map(cpuShares), [2, 2, 102, 1024, 262_144]);
  assert.deepEqual([0, 1, 100, 1500].map(cpuQuota), [0, 1000, 10_000, 150_000]);
  assert.equal(linuxResources({ cpuMilliMax: 2000 }).cpuShares, 2048n);
  assert.equal(linuxResources({ cpuMilliMax: 2000, cpuMilliRequested: 0 }).cpuShares, 2n);
});
