import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { create, toJson } from '@bufbuild/protobuf';
import { type ContainerConfig, ContainerConfigSchema } from '../../grpc/messages/cri_pb.ts';
import { containerRequest, podRequest, security } from '../../testing/machine/process-sandboxes.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import type { ContainerRequest, ContainerSecurity, PodRequest } from '../runtime.ts';
import { containerConfig } from './container-config.ts';
import { type MachineFacts, readMachineFacts } from './machine-facts.ts';

const machine: MachineFacts = { cgroupVersion: 1, limitsSwap: false, hugePageBytes: [], thermalPaths: [] };

interface Case {
  readonly container?: Partial<ContainerRequest>;
  readonly pod?: Partial<PodRequest>;
  readonly machine?: Partial<MachineFacts>;
}

function config({ container = {}, pod = {}, machine: facts = {} }: Case): ContainerConfig {
  const request = podRequest('/node', pod);
  const sent = containerConfig(containerRequest(request.uid, container), request, { ...machine, ...facts });
  return create(ContainerConfigSchema, sent);
}

/** As JSON has it, where fields without a value are absent. */
function shown(given: Case): Record<string, unknown> & { readonly linux: Record<string, Record<string, unknown>> } {
  return toJson(ContainerConfigSchema, config(given)) as ReturnType<typeof shown>;
}

function securityShown(own: Partial<ContainerSecurity>, given: Case = {}): Record<string, unknown> {
  const container = { ...given.container, security: security(own) };
  return shown({ ...given, container }).linux['securityContext'] ?? {};
}

test('what a container is and runs', () => {
  const sent = shown({
    container: {
      name: 'web',
      attempt: 2,
      image: 'nginx:1.8',
      imageId: 'sha256:1234',
      command: ['nginx'],
      args: ['-g', 'daemon off;'],
      workingDirectory: '/srv',
      environment: [{ name: 'GREETING', value: 'héllo' }],
      labels: { 'io.kubernetes.container.name': 'web' },
      annotations: { 'io.kubernetes.container.hash': '5d0e8bc9' },
      logPath: 'web/2.log',
      stdin: true,
      stdinOnce: true,
      tty: true,
    },
  });
  delete (sent as { linux?: unknown }).linux;
  assert.deepEqual(sent, {
    metadata: { name: 'web', attempt: 2 },
    image: { image: 'sha256:1234', userSpecifiedImage: 'nginx:1.8' },
    command: ['nginx'],
    args: ['-g', 'daemon off;'],
    workingDir: '/srv',
    envs: [{ key: 'GREETING', value: Buffer.from('héllo').toString('base64') }],
    labels: { 'io.kubernetes.container.name': 'web' },
    annotations: { 'io.kubernetes.container.hash': '5d0e8bc9' },
    logPath: 'web/2.log',
    stdin: true,
    stdinOnce: true,
    tty: true,
    stopSignal: 'SIGNAL_SIGTERM',
  });
});

test("the signal that ends a container is the image's own unless the pod names one", () => {
  assert.equal(config({ container: { stopSignal: '' } }).stopSignal, 0);
  assert.equal(config({ container: { stopSignal: 'SIGRTMIN+3' } }).stopSignal, 38);
  assert.equal(config({ container: { stopSignal: 'SIGRTMAX-1' } }).stopSignal, 64);
});

test('mounts in order, with propagation, and devices', () => {
  const plain = { readOnly: false, recursiveReadOnly: false, propagation: 'None' } as const;
  const { mounts, devices } = shown({
    pod: { annotations: { note: 'n' }, runtimeHandler: 'runc' },
    container: {
      mounts: [
        { ...plain, hostPath: '/a', containerPath: '/1' },
        { ...plain, hostPath: '/b', containerPath: '/2', readOnly: true, propagation: 'HostToContainer' },
        { ...plain, hostPath: '/c', containerPath: '/3', propagation: 'Bidirectional' },
        { ...plain, hostPath: '/d', containerPath: '/4', readOnly: true, recursiveReadOnly: true },
        {
          ...plain,
          hostPath: '',
          containerPath: '/5',
          readOnly: true,
          image: 'data:1',
          imageId: 'sha256:1',
          imageSubPath: 'x',
        },
      ],
      devices: [{ hostPath: '/dev/loop0', containerPath: '/dev/data', permissions: 'mrw' }],
    },
  });
  assert.deepEqual(mounts, [
    { containerPath: '/1', hostPath: '/a' },
    { containerPath: '/2', hostPath: '/b', readonly: true, propagation: 'PROPAGATION_HOST_TO_CONTAINER' },
    { containerPath: '/3', hostPath: '/c', propagation: 'PROPAGATION_BIDIRECTIONAL' },
    { containerPath: '/4', hostPath: '/d', readonly: true, recursiveReadOnly: true },
    {
      containerPath: '/5',
      readonly: true,
      image: {
        image: 'sha256:1',
        userSpecifiedImage: 'data:1',
        runtimeHandler: 'runc',
        annotations: { note: 'n' },
      },
      imageSubPath: 'x',
    },
  ]);
  assert.deepEqual(devices, [{ hostPath: '/dev/loop0', containerPath: '/dev/data', permissions: 'mrw' }]);
});

const resourceCases = [
  { it: 'without any', resources: {}, sent: { cpuShares: '2', cpuPeriod: '100000' } },
  {
    it: 'with limits alone',
    resources: { cpuMilliMax: 500, memoryBytesMax: 1024 },
    sent: { cpuShares: '512', cpuPeriod: '100000', cpuQuota: '50000', memoryLimitInBytes: '1024' },
  },
  {
    it: 'with an OOM score',
    resources: { cpuMilliRequested: 100, oomScoreAdjustment: -997 },
    sent: { cpuShares: '102', cpuPeriod: '100000', oomScoreAdj: '-997' },
  },
  {
    it: 'with huge pages, those of other sizes forbidden',
    resources: { hugePageBytesMax: { '2Mi': 4_194_304 } },
    machine: { hugePageBytes: [2_097_152, 1_073_741_824] },
    sent: {
      cpuShares: '2',
      cpuPeriod: '100000',
      hugepageLimits: [{ pageSize: '2MB', limit: '4194304' }, { pageSize: '1GB' }],
    },
  },
  {
    it: 'without swap, cgroup version 1',
    resources: { memoryBytesMax: 1024 },
    machine: { limitsSwap: true },
    sent: { cpuShares: '2', cpuPeriod: '100000', memoryLimitInBytes: '1024', memorySwapLimitInBytes: '1024' },
  },
  {
    it: 'without swap, cgroup version 2',
    resources: { memoryBytesMax: 1024 },
    machine: { limitsSwap: true, cgroupVersion: 2 },
    sent: {
      cpuShares: '2',
      cpuPeriod: '100000',
      memoryLimitInBytes: '1024',
      unified: { 'memory.oom.group': '1', 'memory.min': '0', 'memory.low': '0', 'memory.swap.max': '0' },
    },
  },
] as const;
for (const { it, resources, sent, ...rest } of resourceCases) {
  test(`resources ${it}`, () => {
    const facts = 'machine' in rest ? rest.machine : {};
    assert.deepEqual(shown({ container: { resources }, machine: facts }).linux['resources'], sent);
  });
}

test('users, groups and capabilities', () => {
  const {
    namespaceOptions: _,
    maskedPaths: _masked,
    readonlyPaths: _readOnly,
    ...sent
  } = securityShown({
    uid: 0,
    gid: 3000,
    supplementalGroups: [4000, 5000],
    supplementalGroupsPolicy: 'Strict',
    readOnlyRootFilesystem: true,
    privileged: true,
    noNewPrivileges: true,
    addCapabilities: ['NET_ADMIN'],
    dropCapabilities: ['ALL'],
    seccomp: { type: 'Localhost', profile: '/node/seccomp/p.json' },
    appArmor: { type: 'Localhost', profile: 'mine' },
    seLinux: { user: 'u', role: 'r', type: 't', level: 's0' },
  });
  assert.deepEqual(sent, {
    runAsUser: {},
    runAsGroup: { value: '3000' },
    supplementalGroups: ['4000', '5000'],
    supplementalGroupsPolicy: 'Strict',
    readonlyRootfs: true,
    privileged: true,
    noNewPrivs: true,
    capabilities: { addCapabilities: ['NET_ADMIN'], dropCapabilities: ['ALL'] },
    seccomp: { profileType: 'Localhost', localhostRef: '/node/seccomp/p.json' },
    apparmor: { profileType: 'Localhost', localhostRef: 'mine' },
    apparmorProfile: 'localhost/mine',
    selinuxOptions: { user: 'u', role: 'r', type: 't', level: 's0' },
  });
  const { runAsUser, runAsUsername, apparmor } = securityShown({ uid: undefined, username: 'www-data' });
  assert.deepEqual([runAsUser, runAsUsername, apparmor], [undefined, 'www-data', undefined]);
  assert.deepEqual(securityShown({ seccomp: { type: 'Unconfined', profile: '' } })['seccomp'], {
    profileType: 'Unconfined',
  });
});

test('what /proc shows is masked unless the container asks for all of it', () => {
  const masked = securityShown({}, { machine: { thermalPaths: ['/sys/devices/system/cpu/cpu0/thermal_throttle'] } });
  assert.deepEqual(masked['maskedPaths'], [
    '/proc/asound',
    '/proc/acpi',
    '/proc/interrupts',
    '/proc/kcore',
    '/proc/keys',
    '/proc/latency_stats',
    '/proc/timer_list',
    '/proc/timer_stats',
    '/proc/sched_debug',
    '/proc/scsi',
    '/sys/firmware',
    '/sys/devices/virtual/powercap',
    '/sys/devices/system/cpu/cpu0/thermal_throttle',
  ]);
  assert.deepEqual(masked['readonlyPaths'], ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']);
  const unmasked = securityShown({ procMount: 'Unmasked' });
  assert.deepEqual([unmasked['maskedPaths'], unmasked['readonlyPaths']], [undefined, undefined]);
});

test('a container that looks at another sees its processes, unless the pod shares them all', () => {
  const container = { processesOf: 'c-1' };
  const namespaces = (given: Case): unknown => securityShown({}, given)['namespaceOptions'];
  const users = { usernsOptions: { mode: 'NODE' } };
  assert.deepEqual(namespaces({ container }), { pid: 'TARGET', targetId: 'c-1', ...users });
  assert.deepEqual(namespaces({ container, pod: { shareProcessNamespace: true } }), users);
  assert.deepEqual(namespaces({ container, pod: { hostPid: true } }), { pid: 'NODE', ...users });
});

test('the facts of a machine with cgroup version 2', async (t) => {
  const root = temporaryDirectory(t);
  const files = [
    'sys/fs/cgroup/cgroup.controllers',
    'sys/fs/cgroup/user.slice/memory.swap.max',
    'sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages',
    'sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages',
    'sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count',
    'sys/devices/system/cpu/cpufreq/boost',
  ];
  for (const file of files) {
    await mkdir(join(root, file, '..'), { recursive: true });
    await writeFile(join(root, file), '');
  }
  await mkdir(join(root, 'proc/self'), { recursive: true });
  await writeFile(join(root, 'proc/self/cgroup'), '0::/user.slice\n');
  assert.deepEqual(await readMachineFacts(root), {
    cgroupVersion: 2,
    limitsSwap: true,
    hugePageBytes: [2_097_152, 1_073_741_824],
    thermalPaths: ['/sys/devices/system/cpu/cpu1/thermal_throttle'],
  });
});
