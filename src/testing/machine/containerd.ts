/**
 * A containerd of a test's own: its directories, socket, network and images are nobody else's, and nothing of it is left when
 * the test ends. Real runc and real CNI plugins run its containers.
 *
 *   const containerd = await startContainerd(test);
 *   await containerd.import(busyboxImage({ name: 'docker.io/library/busybox:1' }));
 *   // … mountlet up --runtime cri --container-runtime-endpoint ${containerd.endpoint}
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { grpcClient } from '../../grpc/grpc-client.ts';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';
import { type OciImage, busyboxProblem, pauseImage } from './oci-image.ts';
import { mountPointsBelow } from './temporary-directory.ts';

export interface ContainerdSettings {
  /** False: without a network, as on a node whose CNI plugin is not installed yet. */
  readonly cni?: boolean;
}

const pluginDirectories = ['/usr/lib/cni', '/opt/cni/bin'];
const programs = ['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'ip', 'iptables', 'setpriv'];

/** For `skip`: false where a containerd can run pods, else the reason. */
export function containerdSkip(): string | false {
  if (process.geteuid?.() !== 0) return 'needs root: it runs containerd';
  const missing = programs.find((name) => !isInstalled(name));
  if (missing !== undefined) return `needs the program ${missing}`;
  if (pluginDirectory() === undefined) return "needs CNI plugins (Debian's containernetworking-plugins)";
  return busyboxProblem() ?? false;
}

export function isInstalled(program: string): boolean {
  const places = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
  return places.some((directory) => existsSync(join(directory, program)));
}

function pluginDirectory(): string | undefined {
  return pluginDirectories.find((directory) => existsSync(join(directory, 'bridge')));
}

/** Started and ready, with an image for its sandboxes and no other. */
export async function startContainerd(
  test: { after(act: () => Promise<void>): void },
  settings: ContainerdSettings = {},
): Promise<Containerd> {
  const containerd = new Containerd(settings);
  test.after(() => containerd.close());
  await containerd.start();
  await containerd.import(pauseImage(pauseName));
  return containerd;
}

/** Below its directory, one folder for each container. */
const tasks = join('state', 'io.containerd.runtime.v2.task', 'k8s.io');
const pauseName = 'localhost/pause:1';
const bootMsMax = 60_000;
const endMsMax = 60_000;
const lookMs = 20;
const callMs = 60_000;

export class Containerd {
  // Short: the path of a socket has at most 107 bytes.
  readonly directory = realpathSync(mkdtempSync(join(tmpdir(), 'ctd-')));
  readonly socket = join(this.directory, 'containerd.sock');
  readonly endpoint = `unix://${this.socket}`;
  /** The name of the network of its sandboxes, and of the interface that is their gateway. */
  readonly bridge = `ctd${randomBytes(4).toString('hex')}`;
  /** What the addresses of its sandboxes begin with: `10.201.7.`. */
  readonly addresses = freeAddresses();
  readonly #channel = socketChannel(this.socket);
  /** For a look past the program that is tested. */
  readonly runtime = grpcClient(RuntimeService, this.#channel);
  readonly images = grpcClient(ImageService, this.#channel);
  readonly #settings: ContainerdSettings;
  #process: ChildProcess | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: ContainerdSettings) {
    this.#settings = settings;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  /** What it has logged so far. */
  log(): string {
    return readIfAny(join(this.directory, 'containerd.log'));
  }

  async start(): Promise<void> {
    const configuration = join(this.directory, 'config.toml');
    writeFileSync(configuration, this.#configuration());
    mkdirSync(join(this.directory, 'cni'), { recursive: true });
    if (this.#settings.cni !== false) this.installNetwork();
    const log = openSync(join(this.directory, 'containerd.log'), 'a');
    // It ends with this process, even one that was killed.
    const command = ['--pdeathsig', 'KILL', 'containerd', '--config', configuration];
    const child = spawn('setpriv', command, { stdio: ['ignore', log, log] });
    closeSync(log);
    this.#process = child;
    const deadline = performance.now() + bootMsMax;
    while (!(await this.#isReady())) {
      if (child.exitCode !== null || performance.now() > deadline)
        throw new Error(`containerd does not run: ${this.log().slice(-4000)}`);
      await systemClock.sleep(lookMs);
    }
  }

  /** For one that was started with `cni: false`: it notices by itself. */
  installNetwork(): void {
    const plugins = [
      {
        type: 'bridge',
        bridge: this.bridge,
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: {
          type: 'host-local',
          dataDir: join(this.directory, 'addresses'),
          ranges: [[{ subnet: `${this.addresses}0/24` }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ];
    const list = { cniVersion: '1.0.0', name: this.bridge, plugins };
    writeFileSync(join(this.directory, 'cni', '10-test.conflist'), JSON.stringify(list));
  }

  /** Containers go on, as with a restart of a service. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async ctr(args: readonly string[], input?: Buffer): Promise<string> {
    const child = spawn('ctr', ['--address', this.socket, '--namespace', 'k8s.io', ...args]);
    const output: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => output.push(bytes));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    const [code] = (await once(child, 'close')) as [number | null];
    const text = Buffer.concat(output).toString();
    if (code !== 0) throw new Error(`ctr ${args.join(' ')} ended with ${code}: ${text}`);
    return text;
  }

  async import(image: OciImage): Promise<void> {
    await this.ctr(['images', 'import', '-'], image.archive());
    // The runtime interface learns of it a moment later.
    const deadline = performance.now() + callMs;
    while ((await this.images.imageStatus({ image: { image: image.name } }, this.#soon())).image === undefined) {
      if (performance.now() > deadline) throw new Error(`containerd does not list ${image.name}`);
      await systemClock.sleep(lookMs);
    }
  }

  /** Where this process sees what a running container sees; its id may have the runtime's name before it, as in a pod's status. */
  rootOf(containerId: string): string {
    const id = containerId.replace(/^.*:\/\//, '');
    const pid = readFileSync(join(this.directory, tasks, id, 'init.pid'), 'utf8');
    return `/proc/${pid}/root`;
  }

  /** From the next pull on, images of a registry (`docker.io`) come from this address and from nowhere else. */
  mirror(registry: string, url: string): void {
    const directory = join(this.directory, 'registries', registry);
    mkdirSync(directory, { recursive: true });
    writeFileSync(
      join(directory, 'hosts.toml'),
      `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`,
    );
  }

  /** Whatever of it is on this machine now, in the words of the tools that find it; empty when it runs nothing. */
  left(): readonly string[] {
    const running = allPids().filter((pid) => isShimOf(pid, this.socket));
    return [
      ...running.map((pid) => `process ${pid} ${commandLine(pid)}`),
      ...mountPointsBelow(this.directory).map((path) => `mount ${path}`),
      ...this.#containerIds().flatMap((id) => [
        `container ${id}`,
        ...controlGroupsNamed(id).map((path) => `control-group ${path}`),
      ]),
      ...namesIn(join(this.directory, 'addresses', this.bridge))
        .filter((name) => /^\d/.test(name))
        .map((name) => `address ${name}`),
      ...interfacesOf(this.bridge).map((name) => `interface ${name}`),
      ...networkResults(this.bridge).map((path) => `file ${path}`),
    ];
  }

  /** What is left once nothing of it ends any more: a shim answers that its container is gone before it exits. */
  async leftAtLast(): Promise<readonly string[]> {
    const deadline = performance.now() + endMsMax;
    while (this.left().length > 0 && performance.now() < deadline) await systemClock.sleep(lookMs);
    return this.left();
  }

  /** What it has in its own store for containers and sandboxes, running or not. */
  async stored(): Promise<readonly string[]> {
    const { containers } = await this.runtime.listContainers({}, this.#soon());
    const { items } = await this.runtime.listPodSandbox({}, this.#soon());
    const snapshots = (await this.ctr(['snapshots', 'ls'])).split('\n').filter((line) => line.includes(' Active '));
    return [
      ...containers.map(({ id, metadata }) => `container ${id} ${metadata?.name}`),
      ...items.map(({ id, metadata }) => `sandbox ${id} ${metadata?.name}`),
      ...snapshots.map((line) => `snapshot ${line.trim()}`),
    ];
  }

  /** Removes every sandbox, and then by force what may be left. */
  async close(): Promise<void> {
    this.#closed ??= this.#close();
    await this.#closed;
  }

  async #close(): Promise<void> {
    const ids = this.#containerIds();
    try {
      if (existsSync(this.socket)) {
        if (this.#process?.exitCode !== null || this.#process.signalCode !== null) await this.start();
        const { items } = await this.runtime.listPodSandbox({}, this.#soon());
        await Promise.all(items.map(({ id }) => this.#removeSandbox(id)));
      }
    } catch {
      // By force, then.
    }
    this.#channel.close();
    await this.kill();
    this.#removeByForce(ids);
  }

  async #removeSandbox(podSandboxId: string): Promise<void> {
    await this.runtime.stopPodSandbox({ podSandboxId }, this.#soon());
    await this.runtime.removePodSandbox({ podSandboxId }, this.#soon());
  }

  #removeByForce(ids: readonly string[]): void {
    for (const pid of this.#processes(ids)) endProcess(pid);
    spawnSync('ip', ['link', 'delete', this.bridge]);
    for (const path of mountPointsBelow(this.directory)) spawnSync('umount', ['--lazy', path]);
    for (const path of networkResults(this.bridge)) rmSync(path, { force: true });
    for (const group of ids.flatMap(controlGroupsNamed)) removeGroup(group);
    if (mountPointsBelow(this.directory).length > 0) return; // deleting the tree would delete what is mounted
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Shims first: they would report the end of the others. */
  #processes(ids: readonly string[]): readonly number[] {
    const pids = allPids();
    const contained = pids.filter((pid) => {
      const groups = readIfAny(`/proc/${pid}/cgroup`);
      return ids.some((id) => groups.includes(id));
    });
    return [...pids.filter((pid) => isShimOf(pid, this.socket)), ...contained];
  }

  /** Of containers and sandboxes that have a process, or had one until a moment ago. */
  #containerIds(): readonly string[] {
    return namesIn(join(this.directory, tasks));
  }

  async #isReady(): Promise<boolean> {
    try {
      await this.runtime.listContainers({}, this.#soon());
      return true;
    } catch {
      return false; // the socket is not there yet, or its server reads what it had before
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  #soon(): { readonly timeoutMs: number; readonly signal: AbortSignal } {
    return { timeoutMs: callMs, signal: new AbortController().signal };
  }

  #configuration(): string {
    // Network namespaces below the state directory; no cgroups of systemd; OOM scores as far as this user may set them.
    return `version = 2
root = "${this.directory}/root"
state = "${this.directory}/state"
[grpc]
  address = "${this.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pauseName}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${pluginDirectory()}"
    conf_dir = "${this.directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "${this.directory}/runc"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${this.directory}/registries"
`;
  }
}

/** A /24 that no interface of this machine has. */
function freeAddresses(): string {
  const taken = Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
  for (;;) {
    const addresses = `10.${randomInt(200, 250)}.${randomInt(256)}.`;
    if (!taken.some((address) => address.startsWith(addresses))) return addresses;
  }
}

function isShimOf(pid: number, socket: string): boolean {
  const words = commandLine(pid);
  return words.includes('containerd-shim') && words.includes(`-address ${socket}`);
}

/** The gateway and the ends of pods' interfaces at it. */
function interfacesOf(bridge: string): readonly string[] {
  return namesIn(`/sys/class/net/${bridge}/brif`);
}

/** What CNI plugins answered, kept by whoever calls them, at a place that cannot be chosen. */
function networkResults(network: string): readonly string[] {
  const directory = '/var/lib/cni/results';
  return namesIn(directory)
    .filter((name) => name.startsWith(`${network}-`))
    .map((name) => join(directory, name));
}

function controlGroupsNamed(id: string): readonly string[] {
  return readIfAny('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => line.includes(' - cgroup'))
    .map((line) => line.split(' ')[4] ?? '')
    .flatMap((point) => groupsBelow(point).filter((path) => basename(path).includes(id)));
}

/** Deepest last. */
export function groupsBelow(directory: string): readonly string[] {
  try {
    return readdirSync(directory, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) => [join(directory, name), ...groupsBelow(join(directory, name))]);
  } catch {
    return [];
  }
}

function removeGroup(path: string): void {
  for (const group of [...groupsBelow(path).toReversed(), path]) {
    try {
      rmdirSync(group);
    } catch {
      // gone meanwhile, or a process in it is ending still
    }
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // gone meanwhile
  }
}

function allPids(): readonly number[] {
  return namesIn('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function commandLine(pid: number): string {
  return readIfAny(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim();
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function readIfAny(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
