/**
 * Every field that a pod can set, asked of a real containerd: what it was sent, what it made of it for runc, and what a program
 * in the container sees. From a pod's own words, by the way they take in a node.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { create, toJson } from '@bufbuild/protobuf';
import { containerFiles } from '../../agent/machine/container-files.ts';
import { systemClock } from '../../base/clock.ts';
import {
  PodSandboxConfigSchema,
  RuntimeService,
  SecurityProfile_ProfileType,
  Signal,
  SupplementalGroupsPolicy,
} from '../../grpc/messages/cri_pb.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { buildContainerRequest } from '../../pods/containers/container-request.ts';
import { podRequest } from '../../pods/containers/pod-request.ts';
import { podDns } from '../../pods/view/dns.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { type Containerd, containerdSkip, startContainerd } from '../../testing/machine/containerd.ts';
import { busyboxImage } from '../../testing/machine/oci-image.ts';
import { directoryForMounts } from '../../testing/machine/temporary-directory.ts';
import { type RuntimeRelay, startRuntimeRelay } from '../../testing/servers/runtime-relay.ts';
import { testDns, testNodeSettings, viewDeps } from '../../testing/worlds/container-world.ts';
import type { PodRequest, RuntimePod } from '../runtime.ts';
import type { CriRuntime } from './cri-runtime.ts';
import { openCriRuntime } from './open-cri-runtime.ts';

const imageName = 'docker.io/library/fields:1';
const volumeGroup = 4242;
const options = { skip: containerdSkip(), timeout: 600_000 };
const signal = AbortSignal.timeout(590_000);
const call = { timeoutMs: 60_000, signal };

/** What containerd tells of a container or a sandbox when it is asked for everything. */
interface Told {
  readonly config: {
    readonly linux: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  } & Readonly<Record<string, unknown>>;
  readonly runtimeSpec: {
    readonly hostname?: string;
    readonly process: Readonly<Record<string, unknown>> & {
      readonly capabilities: { readonly effective?: readonly string[] };
    };
    readonly root: { readonly readonly?: boolean };
    readonly mounts: readonly { readonly destination: string; readonly source: string; readonly options: string[] }[];
    readonly linux: Readonly<Record<string, unknown>> & {
      readonly seccomp?: { readonly defaultAction: string };
    };
    readonly annotations: Readonly<Record<string, string>>;
  };
}

class World {
  readonly containerd: Containerd;
  readonly runtime: CriRuntime;
  /** With every request as it was sent: what a version of containerd does not know is not in what it tells. */
  readonly relay: RuntimeRelay;
  readonly root: string;
  readonly #imageId: string;

  constructor(containerd: Containerd, runtime: CriRuntime, relay: RuntimeRelay, root: string, imageId: string) {
    this.containerd = containerd;
    this.runtime = runtime;
    this.relay = relay;
    this.root = root;
    this.#imageId = imageId;
  }

  static async open(t: TestContext): Promise<World> {
    const ends: (() => Promise<void>)[] = [];
    // Before the directory goes, in which something may be mounted.
    t.after(async () => {
      for (const end of ends.toReversed()) await end();
    });
    const root = directoryForMounts(t);
    const containerd = await startContainerd({ after: (end) => void ends.push(end) });
    await containerd.import(busyboxImage({ name: imageName, command: ['sleep', '1000'] }));
    mkdirSync(join(root, 'pods'));
    const from = join(containerd.directory, 'relay.sock');
    const relay = await startRuntimeRelay(
      { after: (end) => void ends.push(async () => end()) },
      { from, to: containerd.socket },
    );
    const settings = {
      endpoint: relay.endpoint,
      cgroupDriver: 'cgroupfs',
      podPidsMax: undefined,
      logLimits: { bytesMax: 1024 ** 2, filesMax: 2 },
      logRoot: join(root, 'logs'),
      logLinks: undefined,
      podsDirectory: join(root, 'pods'),
    } as const;
    const report = (problem: string): void => t.diagnostic(problem);
    const runtime = await openCriRuntime(settings, { clock: systemClock, report }, signal);
    ends.push(async () => {
      for (const { uid } of await runtime.list(signal)) await runtime.removePod(uid, signal);
      await runtime.close();
    });
    const { image } = await containerd.images.imageStatus({ image: { image: imageName } }, call);
    return new World(containerd, runtime, relay, root, image?.id ?? '');
  }

  async run(pod: Pod, runtimeHandler = ''): Promise<{ readonly request: PodRequest; readonly runtimePod: RuntimePod }> {
    const { config: dns } = podDns(pod, await testDns());
    const parts = { files: this.#files(), clusterDomain: 'cluster.local', dns, runtimeHandler };
    const request = podRequest(pod, { ...parts, volumeGroups: [volumeGroup] });
    return { request, runtimePod: await this.runtime.runPod(request, signal) };
  }

  /** Starts one container and resolves with its ID. `user` is that of its image. */
  async start(
    pod: Pod,
    name: string,
    request: PodRequest,
    user: { readonly uid: number } | { readonly username: string } = { uid: 0 },
  ): Promise<string> {
    const all = [...(pod.spec.initContainers ?? []), ...pod.spec.containers, ...(pod.spec.ephemeralContainers ?? [])];
    const container = all.find((one) => one.name === name) ?? aContainer();
    const runtimePod = await this.runtime.get(request.uid, signal);
    assert.ok(runtimePod);
    const hostsFile = join(this.root, 'hosts');
    const hostsFiles = {
      readNode: async () => '',
      write: async (_: Pod, content: string) => (writeFileSync(hostsFile, content), hostsFile),
    };
    const image = { id: this.#imageId, sizeBytes: 0, ...user };
    const built = await buildContainerRequest(
      {
        pod,
        container,
        attempt: 3,
        podIPs: runtimePod.ips,
        image,
        imageVolumes: new Map(),
        runtimePod,
        runtimeSupportsRecursiveReadOnly: false,
      },
      { view: () => ({ ...viewDeps(), hostsFiles }), volumes: this.#volumes(), files: this.#files() },
      testNodeSettings,
      signal,
    );
    assert.equal(this.runtime.unsupported(request, built.request), undefined);
    const id = await this.runtime.createContainer(built.request, request, signal);
    await this.runtime.startContainer(id, signal);
    return id;
  }

  async container(id: string): Promise<Told> {
    const { info } = await this.containerd.runtime.containerStatus({ containerId: id, verbose: true }, call);
    return JSON.parse(info['info'] ?? '{}') as Told;
  }

  async sandbox(uid: string): Promise<Told> {
    const { items } = await this.containerd.runtime.listPodSandbox({}, call);
    const podSandboxId = items.find(({ metadata }) => metadata?.uid === uid)?.id ?? '';
    const { info } = await this.containerd.runtime.podSandboxStatus({ podSandboxId, verbose: true }, call);
    return JSON.parse(info['info'] ?? '{}') as Told;
  }

  async output(id: string, command: string): Promise<string> {
    const cmd = ['sh', '-c', command];
    const { stdout, stderr } = await this.containerd.runtime.execSync({ containerId: id, cmd, timeout: 60n }, call);
    return Buffer.concat([stdout, stderr]).toString();
  }

  #files(): ReturnType<typeof containerFiles> {
    return containerFiles({ root: this.root, logRoot: join(this.root, 'logs'), tailLog: async () => '' });
  }

  #volumes(): Parameters<typeof buildContainerRequest>[1]['volumes'] {
    const { root } = this;
    return {
      groupsOf: () => [volumeGroup],
      mountedVolumesOf: () => ({
        get: (name) =>
          name === 'disk'
            ? { kind: 'block', link: '/dev/zero', readOnly: true }
            : { kind: 'filesystem', hostPath: join(root, name), specName: name, readOnly: false },
      }),
    };
  }
}

function podNamed(t: TestContext, parts: PodParts): Pod {
  const uid = `fields-${process.pid}-${t.name.length}`;
  return aPod({ ...parts, metadata: { uid, ...parts.metadata } });
}

test('a pod and a container of which every field is set', options, async (t) => {
  const world = await World.open(t);
  const { root } = world;
  mkdirSync(join(root, 'data'));
  writeFileSync(join(root, 'data', 'file'), 'content');
  const pod = podNamed(t, {
    metadata: { labels: { app: 'web' }, annotations: { note: 'n' } },
    hostname: 'web-0',
    terminationGracePeriodSeconds: 7,
    securityContext: {
      runAsUser: 1001,
      runAsGroup: 1002,
      fsGroup: 1003,
      supplementalGroups: [1004],
      seLinuxOptions: { level: 's0' },
      sysctls: [{ name: 'kernel/shm_rmid_forced', value: '1' }],
    },
    overhead: { cpu: '10m', memory: '8Mi' },
    containers: [
      aContainer({
        image: imageName,
        command: ['sh', '-c'],
        args: ['echo started; sleep 1000'],
        workingDir: '/tmp',
        env: [{ name: 'GREETING', value: 'héllo' }],
        ports: [
          { name: 'http', containerPort: 80 },
          { name: 'http', containerPort: 81 },
          { containerPort: 53, protocol: 'UDP' },
        ],
        resources: {
          limits: { cpu: '500m', memory: '64Mi' },
          requests: { cpu: '250m', memory: '32Mi' },
        },
        lifecycle: { preStop: { exec: { command: ['true'] } } },
        securityContext: {
          capabilities: { add: ['NET_ADMIN'], drop: ['CHOWN'] },
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
        },
        volumeMounts: [
          { name: 'data', mountPath: '/read-only', readOnly: true },
          { name: 'data', mountPath: '/data' },
        ],
        volumeDevices: [{ name: 'disk', devicePath: '/dev/data' }],
        terminationMessagePath: '/dev/termination-log',
        stdin: true,
        stdinOnce: true,
        tty: true,
      }),
    ],
  });
  const { request, runtimePod } = await world.run(pod);
  const id = await world.start(pod, 'main', request);
  const { uid } = request;
  const labels = {
    'io.kubernetes.pod.name': 'web',
    'io.kubernetes.pod.namespace': 'shop',
    'io.kubernetes.pod.uid': uid,
  };
  const cpu = { cpu_period: 100_000, cpu_quota: 50_000, cpu_shares: 256 };
  const namespaces = { pid: 1, userns_options: { mode: 2 } };
  const seLinux = { level: 's0' };

  const sandbox = await world.sandbox(uid);
  assert.deepEqual(sandbox.config, {
    metadata: { name: 'web', uid, namespace: 'shop' },
    hostname: 'web-0',
    log_directory: join(root, 'logs', `shop_web_${uid}`),
    dns_config: {
      servers: ['10.96.0.10'],
      searches: ['shop.svc.cluster.local', 'svc.cluster.local', 'cluster.local'],
      options: ['ndots:5'],
    },
    port_mappings: [{ container_port: 80 }, { protocol: 1, container_port: 53 }],
    labels: { app: 'web', ...labels },
    annotations: { note: 'n', 'mountlet.dev/pods-directory': join(root, 'pods') },
    linux: {
      cgroup_parent: `/kubepods/burstable/pod${uid}`,
      security_context: {
        namespace_options: namespaces,
        selinux_options: seLinux,
        run_as_user: { value: 1001 },
        run_as_group: { value: 1002 },
        supplemental_groups: [1003, volumeGroup, 1004],
        seccomp: {},
      },
      sysctls: { 'kernel.shm_rmid_forced': '1' },
      overhead: { cpu_period: 100_000, cpu_quota: 1_000, cpu_shares: 10, memory_limit_in_bytes: 8 * 1024 ** 2 },
      resources: { ...cpu, memory_limit_in_bytes: 64 * 1024 ** 2 },
    },
  });
  assert.equal(sandbox.runtimeSpec.hostname, 'web-0');
  assert.equal(sandbox.runtimeSpec.linux.seccomp?.defaultAction, 'SCMP_ACT_ERRNO');

  const { config, runtimeSpec } = await world.container(id);
  const { image, annotations, linux, mounts, ...rest } = config;
  assert.deepEqual(rest, {
    metadata: { name: 'main', attempt: 3 },
    command: ['sh', '-c'],
    args: ['echo started; sleep 1000'],
    working_dir: '/tmp',
    envs: [{ key: 'GREETING', value: 'héllo' }],
    devices: [{ container_path: '/dev/data', host_path: '/dev/zero', permissions: 'r' }],
    labels: { ...labels, 'io.kubernetes.container.name': 'main' },
    log_path: 'main/3.log',
    stdin: true,
    stdin_once: true,
    tty: true,
  });
  assert.match((image as { readonly image: string }).image, /^sha256:/);
  const messageFile = join(root, 'pods', uid, 'containers', 'main', '3');
  assert.deepEqual(mounts, [
    { container_path: '/read-only', host_path: join(root, 'data'), readonly: true },
    { container_path: '/data', host_path: join(root, 'data') },
    { container_path: '/etc/hosts', host_path: join(root, 'hosts') },
    { container_path: '/dev/termination-log', host_path: messageFile },
  ]);
  const noted = Object.entries(annotations as Record<string, string>).filter(([key]) => key.startsWith('io.kube'));
  assert.deepEqual(Object.fromEntries(noted), {
    'io.kubernetes.container.hash': '710ccaf1',
    'io.kubernetes.container.ports':
      '[{"name":"http","containerPort":80},{"name":"http","containerPort":81},{"containerPort":53,"protocol":"UDP"}]',
    'io.kubernetes.container.preStopHandler': '{"exec":{"command":["true"]}}',
    'io.kubernetes.container.restartCount': '3',
    'io.kubernetes.container.terminationMessagePath': '/dev/termination-log',
    'io.kubernetes.container.terminationMessagePolicy': 'File',
    'io.kubernetes.pod.terminationGracePeriod': '7',
  });
  const { hugepage_limits: hugePages, memory_swap_limit_in_bytes: swap, ...resources } = linux['resources'] ?? {};
  assert.deepEqual(resources, { ...cpu, memory_limit_in_bytes: 64 * 1024 ** 2, oom_score_adj: 997 });
  assert.ok([undefined, 64 * 1024 ** 2].includes(swap as number | undefined));
  for (const size of (hugePages ?? []) as { page_size: string }[]) assert.match(size.page_size, /^\d+(KB|MB|GB)$/);
  const { masked_paths: masked, readonly_paths: readOnly, ...security } = linux['security_context'] ?? {};
  assert.deepEqual(security, {
    capabilities: { add_capabilities: ['NET_ADMIN'], drop_capabilities: ['CHOWN'] },
    namespace_options: namespaces,
    selinux_options: seLinux,
    run_as_user: { value: 1001 },
    run_as_group: { value: 1002 },
    readonly_rootfs: true,
    supplemental_groups: [1003, 1004, volumeGroup],
    no_new_privs: true,
    seccomp: {},
  });
  assert.deepEqual([runtimeSpec.linux['maskedPaths'], runtimeSpec.linux['readonlyPaths']], [masked, readOnly]);
  assert.deepEqual(runtimeSpec.linux['cgroupsPath'], `/kubepods/burstable/pod${uid}/${id}`);
  assert.equal(runtimeSpec.root.readonly, true);
  assert.equal(runtimeSpec.process['noNewPrivileges'], true);
  const { effective = [] } = runtimeSpec.process.capabilities;
  assert.deepEqual([effective.includes('CAP_NET_ADMIN'), effective.includes('CAP_CHOWN')], [true, false]);
  assert.equal(runtimeSpec.annotations['io.kubernetes.cri.image-name'], imageName);

  assert.equal(
    await world.output(id, 'hostname; id -u; id -g; id -G; cat /proc/1/oom_score_adj /proc/sys/kernel/shm_rmid_forced'),
    `web-0\n1001\n1002\n1002 1003 1004 ${volumeGroup}\n997\n1\n`,
  );
  assert.equal(
    await world.output(id, 'cat /etc/resolv.conf'),
    'search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n',
  );
  assert.match(await world.output(id, 'cat /etc/hosts'), new RegExp(`${runtimePod.ips[0]}\\tweb-0`));
  assert.match(await world.output(id, 'touch /read-only/x; touch /x'), /read-only\/x: Read-only.*\/x: Read-only/s);
  assert.equal(await world.output(id, 'cat /data/file; head -c 2 /dev/data | od -An -tx1'), 'content 00 00\n');
  assert.match(readFileSync(join(root, 'logs', `shop_web_${uid}`, 'main', '3.log'), 'utf8'), / stdout F started/);
  assert.equal(
    readFileSync(`/sys/fs/cgroup/memory/kubepods/burstable/pod${uid}/memory.limit_in_bytes`, 'utf8'),
    `${72 * 1024 ** 2}\n`,
  );
  await world.runtime.removePod(uid, signal);
  assert.ok(!existsSync(`/sys/fs/cgroup/memory/kubepods/burstable/pod${uid}`));
});

test('a pod that has all of the machine, and a privileged container', options, async (t) => {
  const world = await World.open(t);
  const pod = podNamed(t, {
    hostNetwork: true,
    hostPID: true,
    hostIPC: true,
    dnsPolicy: 'Default',
    containers: [aContainer({ image: imageName, securityContext: { privileged: true } })],
  });
  const { request, runtimePod } = await world.run(pod);
  assert.deepEqual(runtimePod.ips, []);
  const id = await world.start(pod, 'main', request);
  const sandbox = await world.sandbox(request.uid);
  const namespaces = { network: 2, pid: 2, ipc: 2, userns_options: { mode: 2 } };
  assert.equal(sandbox.config['hostname'], undefined);
  assert.deepEqual(sandbox.config['dns_config'], { servers: ['192.0.2.53'] });
  assert.deepEqual(sandbox.config.linux['security_context'], {
    namespace_options: namespaces,
    supplemental_groups: [volumeGroup],
    privileged: true,
    seccomp: {},
  });
  assert.equal(sandbox.config.linux['cgroup_parent'], `/kubepods/besteffort/pod${request.uid}`);
  const { config, runtimeSpec } = await world.container(id);
  assert.equal(config.linux['security_context']?.['privileged'], true);
  assert.deepEqual(config.linux['security_context']?.['namespace_options'], namespaces);
  assert.deepEqual([runtimeSpec.linux['maskedPaths'], runtimeSpec.linux.seccomp], [undefined, undefined]);
  const seen = 'for name in net pid ipc; do readlink /proc/self/ns/$name; done';
  assert.equal(await world.output(id, seen), execFileSync('sh', ['-c', seen]).toString());
});

test(
  'processes of one pod: each container has its own, all share them, or one looks at another',
  options,
  async (t) => {
    const world = await World.open(t);
    const containers = [aContainer({ image: imageName, command: ['sleep', '1001'] })];
    const debug = { name: 'debug', image: imageName, command: ['sleep', '1002'], targetContainerName: 'main' };
    const pod = podNamed(t, { containers, ephemeralContainers: [debug] });
    const { request } = await world.run(pod);
    const main = await world.start(pod, 'main', request);
    const looking = await world.start(pod, 'debug', request);
    const { config } = await world.container(looking);
    assert.deepEqual(config.linux['security_context']?.['namespace_options'], {
      pid: 3,
      target_id: main,
      userns_options: { mode: 2 },
    });
    assert.match(await world.output(looking, 'ps'), /sleep 1001/);
    const sharing = podNamed(t, { metadata: { uid: `${request.uid}-all` }, containers, shareProcessNamespace: true });
    const shared = await world.run(sharing);
    const id = await world.start(sharing, 'main', shared.request);
    assert.deepEqual((await world.container(id)).config.linux['security_context']?.['namespace_options'], {
      userns_options: { mode: 2 },
    });
    assert.match(await world.output(id, 'ps'), /\/pause/);
  },
);

test('mounts with propagation, and seccomp profiles', options, async (t) => {
  const world = await World.open(t);
  const directory = join(world.root, 'shared');
  mkdirSync(directory);
  execFileSync('mount', ['--bind', directory, directory]);
  execFileSync('mount', ['--make-shared', directory]);
  mkdirSync(join(world.root, 'seccomp'));
  writeFileSync(join(world.root, 'seccomp', 'p.json'), '{"defaultAction":"SCMP_ACT_ALLOW"}');
  const profile = (type: string, localhostProfile?: string): object => ({
    securityContext: { seccompProfile: { type, ...(localhostProfile === undefined ? {} : { localhostProfile }) } },
  });
  const pod = podNamed(t, {
    containers: [
      aContainer({
        image: imageName,
        volumeMounts: [
          { name: 'shared', mountPath: '/private' },
          { name: 'shared', mountPath: '/follows', mountPropagation: 'HostToContainer' },
          { name: 'shared', mountPath: '/both', mountPropagation: 'Bidirectional' },
        ],
        ...profile('Localhost', 'p.json'),
      }),
      aContainer({ image: imageName, name: 'free', ...profile('Unconfined') }),
    ],
  });
  const { request } = await world.run(pod);
  const id = await world.start(pod, 'main', request);
  const { config, runtimeSpec } = await world.container(id);
  assert.deepEqual(
    (config['mounts'] as readonly { readonly propagation?: number }[])
      .slice(0, 3)
      .map(({ propagation = 0 }) => propagation),
    [0, 1, 2],
  );
  const optionsAt = (path: string): readonly string[] =>
    runtimeSpec.mounts.find(({ destination }) => destination === path)?.options ?? [];
  assert.deepEqual(
    ['/private', '/follows', '/both'].map((path) => optionsAt(path)[1]),
    ['rprivate', 'rslave', 'rshared'],
  );
  assert.deepEqual(config.linux['security_context']?.['seccomp'], {
    profile_type: 2,
    localhost_ref: join(world.root, 'seccomp', 'p.json'),
  });
  assert.equal(runtimeSpec.linux.seccomp?.defaultAction, 'SCMP_ACT_ALLOW');
  const free = await world.container(await world.start(pod, 'free', request));
  assert.deepEqual(free.config.linux['security_context']?.['seccomp'], { profile_type: 1 });
  assert.equal(free.runtimeSpec.linux.seccomp, undefined);
});

test('the network of a pod: ports of its machine, names, a hostname in full', options, async (t) => {
  const world = await World.open(t);
  const hostPort = 21_000 + (process.pid % 9_000);
  const pod = podNamed(t, {
    hostname: 'web-0',
    subdomain: 'inner',
    setHostnameAsFQDN: true,
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['192.0.2.1'], searches: ['example.org'], options: [{ name: 'ndots', value: '2' }] },
    initContainers: [
      aContainer({ name: 'first', ports: [{ containerPort: 81 }], securityContext: { privileged: true } }),
    ],
    containers: [
      aContainer({
        image: imageName,
        ports: [
          { containerPort: 80, hostPort, hostIP: '127.0.0.1' },
          { containerPort: 82, protocol: 'SCTP' },
        ],
      }),
    ],
  });
  const { request } = await world.run(pod, 'runc');
  const id = await world.start(pod, 'main', request);
  const [sent] = world.relay.requests(RuntimeService.method.runPodSandbox);
  assert.equal(sent?.runtimeHandler, 'runc');
  const config = toJson(PodSandboxConfigSchema, sent.config ?? create(PodSandboxConfigSchema)) as Record<
    string,
    unknown
  >;
  assert.equal(config['hostname'], 'web-0.inner.shop.svc.cluster.local');
  const dns = { servers: ['192.0.2.1'], searches: ['example.org'], options: ['ndots:2'] };
  assert.deepEqual(config['dnsConfig'], dns);
  assert.deepEqual(config['portMappings'], [
    { containerPort: 80, hostPort, hostIp: '127.0.0.1' },
    { protocol: 'SCTP', containerPort: 82 },
  ]);
  assert.equal(sent.config?.linux?.securityContext?.privileged, true, 'one of its containers is');
  const [created] = world.relay.requests(RuntimeService.method.createContainer);
  assert.deepEqual(created?.sandboxConfig, sent.config, 'a container is made with the words of its sandbox');
  assert.equal(created.config?.linux?.securityContext?.privileged, false);
  assert.equal(
    await world.output(id, 'hostname; cat /etc/resolv.conf'),
    `web-0.inner.shop.svc.cluster.local
search example.org
nameserver 192.0.2.1
options ndots:2
`,
  );
});

test('what a container says of its image, its user and its class', options, async (t) => {
  const world = await World.open(t);
  const limits = { cpu: '100m', memory: '32Mi' };
  const pod = podNamed(t, {
    metadata: { deletionGracePeriodSeconds: 5 },
    os: { name: 'linux' },
    containers: [
      aContainer({
        image: imageName,
        command: ['sh', '-c', 'echo $(WORD); exec sleep 1000'],
        env: [{ name: 'WORD', value: 'expanded' }],
        resources: { limits, requests: limits },
        securityContext: { appArmorProfile: { type: 'Unconfined' } },
      }),
    ],
    securityContext: { supplementalGroups: [4000], supplementalGroupsPolicy: 'Merge' },
  });
  const { request } = await world.run(pod);
  const id = await world.start(pod, 'main', request, { username: 'nginx' });
  const [sent] = world.relay.requests(RuntimeService.method.createContainer);
  const { image, stopSignal, command, annotations = {}, linux } = sent?.config ?? {};
  assert.match(image?.image ?? '', /^sha256:/);
  assert.equal(image?.userSpecifiedImage, imageName);
  assert.equal(stopSignal, Signal.RUNTIME_DEFAULT, "the image's own");
  assert.match(command?.[2] ?? '', /echo expanded;/);
  assert.equal(annotations['io.kubernetes.pod.deletionGracePeriod'], '5');
  const { runAsUser, runAsUsername, apparmor, supplementalGroups, supplementalGroupsPolicy } =
    linux?.securityContext ?? {};
  assert.deepEqual([runAsUser, runAsUsername], [undefined, 'nginx']);
  assert.equal(apparmor?.profileType, SecurityProfile_ProfileType.Unconfined);
  assert.equal(supplementalGroupsPolicy, SupplementalGroupsPolicy.Merge);
  assert.deepEqual(supplementalGroups, [4000n, BigInt(volumeGroup)]);
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes, oomScoreAdj } = linux?.resources ?? {};
  assert.deepEqual(
    [cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes, oomScoreAdj],
    [102n, 10_000n, 100_000n, 32n * 1024n ** 2n, -997n],
  );
  const [sandbox] = world.relay.requests(RuntimeService.method.runPodSandbox);
  assert.equal(sandbox?.config?.linux?.cgroupParent, `/kubepods/pod${request.uid}`, 'Guaranteed');
  // The groups that the image has for its user are merged with those of the pod.
  assert.equal(await world.output(id, 'id -un; id -G'), `nginx\n101 1234 4000 ${volumeGroup}\n`);
  assert.equal(readFileSync(`/sys/fs/cgroup/cpu/kubepods/pod${request.uid}/${id}/cpu.shares`, 'utf8'), '102\n');
});

test(
  'without any request a container has the least, and every size of huge pages is closed to it',
  options,
  async (t) => {
    const world = await World.open(t);
    const pod = podNamed(t, { containers: [aContainer({ image: imageName })] });
    const { request } = await world.run(pod);
    await world.start(pod, 'main', request);
    const [sent] = world.relay.requests(RuntimeService.method.createContainer);
    const { cpuShares, cpuQuota, memoryLimitInBytes, oomScoreAdj, hugepageLimits } =
      sent?.config?.linux?.resources ?? {};
    assert.deepEqual([cpuShares, cpuQuota, memoryLimitInBytes, oomScoreAdj], [2n, 0n, 0n, 1000n]);
    const sizes = readdirSync('/sys/kernel/mm/hugepages').length;
    assert.deepEqual(
      hugepageLimits?.map(({ limit }) => limit),
      Array.from({ length: sizes }, () => 0n),
    );
  },
);

test('a pod whose sandbox was lost is made again, and counts', options, async (t) => {
  const world = await World.open(t);
  const pod = podNamed(t, { containers: [aContainer({ image: imageName })] });
  const { request } = await world.run(pod);
  const { items } = await world.containerd.runtime.listPodSandbox({}, call);
  await world.containerd.runtime.stopPodSandbox({ podSandboxId: items[0]?.id ?? '' }, call);
  await world.run(pod);
  await world.start(pod, 'main', request);
  const attempts = world.relay
    .requests(RuntimeService.method.runPodSandbox)
    .map(({ config }) => config?.metadata?.attempt);
  assert.deepEqual(attempts, [0, 1]);
  const [created] = world.relay.requests(RuntimeService.method.createContainer);
  assert.equal(created?.sandboxConfig?.metadata?.attempt, 1);
});

test('what this runtime cannot do is refused before anything runs', options, async (t) => {
  const world = await World.open(t);
  const containers = [aContainer({ image: imageName })];
  await assert.rejects(world.run(podNamed(t, { containers, hostUsers: false })), {
    message: "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
  });
  const strict = podNamed(t, { containers, securityContext: { supplementalGroupsPolicy: 'Strict' } });
  await assert.rejects(world.run(strict), { message: 'SupplementalGroupsPolicy=Strict is not supported in this node' });
  assert.deepEqual((await world.containerd.runtime.listPodSandbox({}, call)).items, []);
});
