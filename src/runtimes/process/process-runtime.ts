/**
 * Containers as sandboxed processes of this machine, without images: a view of the machine's files, with the container's volumes
 * at their mount paths. What runs outlives this program: it belongs to the spawner (spawner/spawner.ts), and is found again from
 * the records and from what the spawner knows. One runtime for one state directory.
 *
 * Here are pods and the runtime itself; the life of containers is in containers.ts, what they run in commands.ts.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type Duplex, Writable } from 'node:stream';
import { withDeadline } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import { readInterfaceCounters } from '../../linux/network-counters.ts';
import {
  type ContainerRequest,
  type CommandRequest,
  type CommandResult,
  type ExecRequest,
  type ExecResult,
  type PodRequest,
  type PodStats,
  type PortMapping,
  type ProcessStreams,
  type Runtime,
  RuntimeError,
  type RuntimePod,
  type ServiceNetwork,
} from '../runtime.ts';
import { Commands } from './commands.ts';
import { type PodRecord, Records } from './container-records.ts';
import { describePod, identityOf } from './container-translation.ts';
import { Containers } from './containers.ts';
import { type ControlGroups, usageOf } from './control-groups.ts';
import { Holders } from './holders.ts';
import { PodConnections } from './network/pod-connection.ts';
import type { PodInterface } from './network/pod-interface.ts';
import { PodNetworks } from './network/pod-networks.ts';
import { Resolvers } from './network/resolvers.ts';
import type { Powers } from './sandbox/container-program.ts';
import { type HostFiles, HostFilesView, readMounts } from './sandbox/host-files.ts';
import { filesName } from './sandbox/sandbox-program.ts';
import { sysctlRefusal, unsupportedReason } from './sandbox/security.ts';
import { SpawnerClient, endSpawner } from './spawner/spawner-client.ts';
import { type ChildFacts, recordedEnds } from './spawner/spawner-protocol.ts';

export interface ProcessRuntimeSettings {
  /** Its own: nothing else writes there. */
  readonly stateDirectory: string;
  /** Paths of the machine that no container may see; the state directory is always one of them. */
  readonly hidden: readonly string[];
  readonly hostFiles: HostFiles;
  /** Directories and files that containers see beside those. */
  readonly hostPaths: readonly string[];
  readonly logSizeBytesMax: number;
  readonly logFilesMax: number;
  /** Bounds what a container can write to its root, /tmp, /run and /dev/shm together. */
  readonly writableBytesMax: number;
  /** Of the machine's loopback address: pods with a network of their own reach them at an address for that. */
  readonly machinePorts: readonly number[];
  /** How often to look for control groups that could not be removed yet. */
  readonly sweepMs: number;
}

export const defaultProcessRuntimeSettings = {
  hidden: [],
  hostFiles: 'system',
  hostPaths: [],
  logSizeBytesMax: 10 * 1024 * 1024,
  logFilesMax: 5,
  writableBytesMax: 256 * 1024 * 1024,
  machinePorts: [],
  sweepMs: 10_000,
} as const satisfies Omit<ProcessRuntimeSettings, 'stateDirectory'>;

/** Something that the owner of a pod should know. */
export interface PodProblem {
  readonly podUid: string;
  readonly namespace: string;
  readonly podName: string;
  readonly reason: string;
  readonly message: string;
}

export interface ProcessRuntimeDeps {
  readonly clock: Clock;
  readonly report: (problem: PodProblem) => void;
  readonly powers: Powers;
  readonly groups: ControlGroups;
}

export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly version = '1';
  readonly images = undefined;
  readonly #settings: ProcessRuntimeSettings;
  readonly #deps: ProcessRuntimeDeps;
  readonly #pods: Records<PodRecord>;
  readonly #containers: Containers;
  readonly #spawner: SpawnerClient;
  /** UIDs of pods. */
  readonly #changes = new CoalescingTopic<string>();
  readonly #closing = new AbortController();
  /** Containers whose writable layer was found full, reported once. */
  readonly #full = new Set<string>();
  #opened: { readonly holders: Holders; readonly commands: Commands } | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  /** Undefined for an ordinary user, whose pods have the network of the machine. */
  readonly #networks: PodNetworks | undefined;
  readonly #connections: PodConnections;
  readonly #resolvers: Resolvers;

  constructor(settings: ProcessRuntimeSettings, deps: ProcessRuntimeDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#pods = new Records(join(settings.stateDirectory, 'pods'));
    const hasNetworks = deps.powers.kind === 'root';
    this.#networks = hasNetworks ? new PodNetworks(settings) : undefined;
    this.#connections = new PodConnections(deps.powers.architecture);
    this.#resolvers = new Resolvers(join(settings.stateDirectory, 'resolvers'));
    this.#spawner = new SpawnerClient(settings.stateDirectory, {
      changed: (facts) => this.#reported(facts),
      lost: () => this.#lost(),
    });
    this.#containers = new Containers(join(settings.stateDirectory, 'containers'), {
      clock: deps.clock,
      groups: deps.groups,
      spawner: this.#spawner,
      closing: this.#closing.signal,
      changed: (podUid) => this.#changes.publish(podUid),
      ended: (id) => this.#forget(id),
      lostHolder: (podUid) => (this.#holders.holds(podUid) ? undefined : this.#pods.get(podUid)?.holder),
    });
  }

  /** Takes up what an earlier program left, running or ended meanwhile. */
  async open(): Promise<void> {
    const { stateDirectory, hostFiles, hostPaths } = this.#settings;
    for (const path of [stateDirectory, ...hostPaths]) {
      // The kernel takes the layers of an overlay as one text.
      if (/[,:\\\s]/.test(path)) {
        throw new RuntimeError(`Cannot use the directory "${path}": its path must be free of space, ",", ":" and "\\"`);
      }
    }
    const missing = hostPaths.find((path) => !existsSync(path));
    if (missing !== undefined) throw new RuntimeError(`Cannot show "${missing}" to containers: there is no such path`);
    const work = join(stateDirectory, 'work');
    mkdirSync(work, { recursive: true, mode: 0o700 });
    const files = new HostFilesView(hostFiles, hostPaths, join(work, filesName));
    const { clock, powers, groups } = this.#deps;
    const [spawner, containers] = [this.#spawner, this.#containers];
    const holders = new Holders(spawner, powers, work, files);
    const commands = new Commands(
      { ...this.#settings, work, hidden: this.#hidden },
      { clock, powers, groups, spawner, containers, holders, files },
    );
    this.#opened = { holders, commands };
    this.#pods.load();
    containers.load();
    await spawner.open();
    await containers.takeUp(recordedEnds(stateDirectory));
    for (const { id } of spawner.all()) {
      const pod = holders.podOf(id);
      const isKnown = pod === undefined ? containers.get(id) !== undefined : this.#pods.get(pod) !== undefined;
      if (!isKnown && !holders.isFiles(id)) await holders.end(id);
    }
    if (powers.kind === 'user') {
      await holders.tryNamespaces().catch(async (thrown: unknown) => {
        await this.close();
        throw thrown;
      });
    }
    containers.sweepGroups();
    this.#resolvers.sweep((uid) => this.#pods.get(uid) !== undefined);
    await this.#networks?.adopt(this.#leases());
    this.#sweeping = this.#sweep();
  }

  /** Containers go on. Without a pod that may have some, the spawner has nothing left to do and is ended. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#spawner.close();
    if (this.#pods.all().every(({ state }) => state === 'notReady'))
      await endSpawner(this.#settings.stateDirectory).catch(() => {}); // one that hangs is found again
    await Promise.all([this.#sweeping, this.#containers.lost()]);
    this.#containers.sweepGroups();
    await this.#networks?.close();
  }

  supports(): boolean {
    return true;
  }

  unsupported(pod: PodRequest, container: ContainerRequest): string | undefined {
    return unsupportedReason(pod, container, this.#deps.powers, this.#hidden, readMounts);
  }

  async openServiceNetwork(): Promise<ServiceNetwork> {
    if (this.#networks === undefined) throw new RuntimeError('a network for each pod takes root');
    return await this.#networks.openForServices();
  }

  async list(): Promise<readonly RuntimePod[]> {
    return this.#pods.all().map((pod) => this.#describe(pod));
  }

  async get(podUid: string): Promise<RuntimePod | undefined> {
    const pod = this.#pods.get(podUid);
    return pod === undefined ? undefined : this.#describe(pod);
  }

  changes(signal: AbortSignal): AsyncIterable<string> {
    return this.#changes.follow(AbortSignal.any([signal, this.#closing.signal]));
  }

  async runPod(request: PodRequest, signal: AbortSignal): Promise<RuntimePod> {
    signal.throwIfAborted();
    if (request.runtimeHandler !== '' && request.runtimeHandler !== this.name) {
      throw new RuntimeError(`no runtime for "${request.runtimeHandler}" is configured`);
    }
    const known = this.#pods.get(request.uid);
    if (known?.state === 'ready' && this.#holders.holds(known.uid)) return this.#describe(known);
    const { uid, hostNetwork } = request;
    const network = hostNetwork ? undefined : await this.#networks?.lease(uid, request.ports);
    if (network === undefined && !hostNetwork) this.#reportNoNetwork(request);
    try {
      const record = await this.#makeShared(request, network);
      this.#pods.put(uid, record);
      return this.#describe(record);
    } catch (thrown) {
      await this.#endShared(uid).catch(() => {}); // the next start finds what is left
      if (network !== undefined) this.#networks?.doubt();
      throw thrown;
    }
  }

  async stopPod(podUid: string, signal: AbortSignal): Promise<void> {
    await Promise.all(this.#containers.ofPod(podUid).map(({ id }) => this.stopContainer(id, 0, signal)));
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return;
    await this.#endShared(podUid);
    this.#pods.keep(podUid, { ...pod, state: 'notReady' }); // without its holder it is not ready anyway
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    for (const { id } of this.#containers.ofPod(podUid)) await this.removeContainer(id);
    const pod = this.#pods.get(podUid);
    if (pod !== undefined) rmSync(pod.logDirectory, { recursive: true, force: true });
    this.#resolvers.remove(podUid);
    this.#pods.delete(podUid);
  }

  /** A pod keeps its sandbox for as long as it is here. */
  async removeReplaced(): Promise<void> {}

  async createContainer(request: ContainerRequest): Promise<string> {
    const { podUid, name, attempt, image, labels, annotations, stopSignal, tty } = request;
    const pod = this.#pods.get(podUid);
    if (pod?.state !== 'ready') throw new RuntimeError(`Cannot create container "${name}": its pod is not running`);
    const id = randomBytes(32).toString('hex');
    this.#containers.created({
      id,
      podUid,
      name,
      attempt,
      image,
      labels,
      annotations,
      logPath: join(pod.logDirectory, request.logPath),
      stopSignal,
      stdin: request.stdin ? (request.stdinOnce ? 'once' : 'keep') : 'none',
      tty,
      identity: identityOf(request.security, this.#deps.powers),
      createdAtMs: this.#deps.clock.now(),
    });
    this.#open.commands.created(id, request);
    if (request.processesOf !== undefined && !pod.shareProcessNamespace && !pod.hostPid)
      this.#reportNoTarget(pod, name);
    return id;
  }

  async startContainer(id: string, signal: AbortSignal): Promise<void> {
    const record = this.#containers.known(id);
    await this.#open.commands.start(record, this.#pods.get(record.podUid), signal);
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    if (this.#containers.isOver(id)) this.#forget(id); // it must not be started any more
    await this.#containers.stop(id, graceMs, signal);
  }

  async removeContainer(id: string): Promise<void> {
    this.#containers.remove(id);
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const record = this.#containers.known(id);
    return await this.#open.commands.exec(record, this.#pods.get(record.podUid), request, signal);
  }

  async attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    const untilClosed = AbortSignal.any([signal, this.#closing.signal]);
    await this.#open.commands.attach(this.#containers.known(id), streams, untilClosed);
  }

  async connect(podUid: string, port: number, signal: AbortSignal): Promise<Duplex> {
    const pod = this.#pods.get(podUid);
    // The machine's own ports are for a pod that shares its network, and for as long as it runs.
    if (pod?.state !== 'ready' || !this.#holders.holds(podUid)) throw new RuntimeError('the pod is not running');
    const { address, holder } = pod;
    if (address !== undefined && holder !== undefined) return await this.#connections.connect(holder, port, signal);
    return await new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, signal });
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(socket);
      });
      socket.once('error', reject);
    });
  }

  async run(
    id: string,
    { command, timeoutMs, bytesMax }: CommandRequest,
    signal: AbortSignal,
  ): Promise<CommandResult | 'timedOut'> {
    const chunks: Buffer[] = [];
    let size = 0;
    const collect = (chunk: Buffer): void => {
      const taken = chunk.subarray(0, bytesMax - size);
      size += taken.length;
      if (taken.length > 0) chunks.push(taken);
    };
    const sink = (): Writable =>
      new Writable({
        write: (chunk: Buffer, _encoding, done) => {
          collect(chunk);
          done();
        },
      });
    const run = (limited: AbortSignal): Promise<ExecResult> =>
      this.exec(id, { command, tty: false, stdout: sink(), stderr: sink() }, limited);
    const late = new RuntimeError('The command takes too long');
    try {
      const { exitCode } = await (timeoutMs === undefined
        ? run(signal)
        : withDeadline(this.#deps.clock, timeoutMs, () => late, signal, run));
      return { exitCode, output: Buffer.concat(chunks) };
    } catch (thrown) {
      if (thrown === late) return 'timedOut';
      throw thrown;
    }
  }

  async stats(): Promise<readonly PodStats[]> {
    const ready = this.#pods.all().filter(({ uid, state }) => state === 'ready' && this.#holders.holds(uid));
    return await Promise.all(
      ready.map(async ({ uid, namespace, name, createdAtMs, address, holder }) => {
        const isOwn = address !== undefined && holder !== undefined;
        const interfaces = isOwn ? await readInterfaceCounters(holder.pid) : [];
        const atMs = this.#deps.clock.now();
        return {
          uid,
          namespace,
          name,
          startedAtMs: createdAtMs,
          network: isOwn ? { atMs, interfaces } : undefined,
          whole: undefined,
          containers: this.#containers.ofPod(uid).flatMap(({ id, name: container, run }) => {
            const used = this.#containers.isOver(id) ? undefined : usageOf(this.#deps.groups, id);
            if (used === undefined || run === undefined) return [];
            return [{ name: container, startedAtMs: run.startedAtMs, atMs, ...used, writableLayer: undefined }];
          }),
        };
      }),
    );
  }

  problems(): readonly string[] {
    return [];
  }

  networkProblem(): string | undefined {
    return undefined;
  }

  /** What a pod's containers share: their namespaces, and with them their network. */
  async #makeShared(request: PodRequest, network: PodInterface | undefined): Promise<PodRecord> {
    const { uid, namespace, name, hostname, hostPid, hostIpc, hostNetwork, directory, logDirectory, sysctls } = request;
    const refusal = sysctlRefusal(sysctls, network !== undefined);
    if (refusal !== undefined)
      throw new RuntimeError(`Cannot set what pod "${namespace}/${name}" asks for: ${refusal}`);
    const shareProcessNamespace = request.shareProcessNamespace && !hostPid;
    const { address } = network ?? {};
    const shared = { hostPid, hostIpc, hostNetwork, shareProcessNamespace, ...(address && { address }) };
    const hold = { pod: shared, hostname, sysctls, ...(network && { network }) };
    const holder = await this.#holders.holdPod(uid, hold, `pod "${namespace}/${name}"`);
    const resolver = this.#resolvers.write(uid, request.dns);
    return {
      uid,
      namespace,
      name,
      hostname,
      ...shared,
      directory,
      logDirectory,
      // A pod that lost what its containers shared begins again.
      createdAtMs: this.#deps.clock.now(),
      state: 'ready',
      ...(holder && { holder }),
      ...(resolver && { resolver }),
      ...(network && { hostPorts: request.ports.filter(({ hostPort }) => hostPort > 0) }),
    };
  }

  async #endShared(podUid: string): Promise<void> {
    await this.#holders.endPod(podUid);
    await this.#networks?.release(podUid);
  }

  /** Once, of the first pod that notices it. */
  #reportNoNetwork({ uid: podUid, namespace, name: podName }: PodRequest): void {
    const problem = this.#networks?.takeProblem();
    if (problem === undefined) return;
    const message = `Pods have the network of this machine instead of one of their own: ${problem}`;
    this.#deps.report({ podUid, namespace, podName, reason: 'PodNetworkUnavailable', message });
  }

  #reportNoTarget({ uid: podUid, namespace, name: podName }: PodRecord, container: string): void {
    const message =
      `container "${container}" does not see the processes of its target: the process runtime shares them only in pods with ` +
      'shareProcessNamespace or hostPID; use kubectl exec, or --runtime cri';
    this.#deps.report({ podUid, namespace, podName, reason: 'TargetNotShared', message });
  }

  #reported(facts: ChildFacts): void {
    const pod = this.#holders.podOf(facts.id);
    if (pod === undefined) this.#containers.reported(facts);
    // Without its holder a pod has lost what its containers share: it has to be made again.
    else if (facts.end !== undefined) this.#changes.publish(pod);
  }

  #lost(): void {
    this.#containers.loseAll();
    for (const { uid } of this.#pods.all()) this.#changes.publish(uid);
  }

  #forget(id: string): void {
    this.#open.commands.forget(id);
    this.#full.delete(id);
  }

  #describe(pod: PodRecord): RuntimePod {
    const isHeld = this.#holders.holds(pod.uid);
    return describePod({ ...pod, state: isHeld ? pod.state : 'notReady' }, this.#containers.ofPod(pod.uid));
  }

  get #open(): { readonly holders: Holders; readonly commands: Commands } {
    if (this.#opened === undefined) throw new RuntimeError('Cannot run containers: the runtime is not open');
    return this.#opened;
  }

  get #holders(): Holders {
    return this.#open.holders;
  }

  get #hidden(): readonly string[] {
    return [this.#settings.stateDirectory, ...this.#settings.hidden];
  }

  /** Of pods whose namespaces are there. */
  #leases(): Map<string, { readonly address: string; readonly ports: readonly PortMapping[] }> {
    const held = this.#pods.all().filter(({ uid, state }) => state === 'ready' && this.#holders.holds(uid));
    return new Map(
      held.flatMap(({ uid, address, hostPorts = [] }) =>
        address === undefined ? [] : [[uid, { address, ports: hostPorts }]],
      ),
    );
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#deps.clock.sleep(this.#settings.sweepMs, signal).catch(() => {});
      this.#containers.sweepGroups();
      await this.#networks?.sweep().catch(() => {}); // tried again
      await this.#reportFullLayers().catch(() => {}); // containers come and go meanwhile
    }
  }

  async #reportFullLayers(): Promise<void> {
    for (const { id, podUid, name, run } of this.#containers.all()) {
      const pod = this.#pods.get(podUid);
      if (this.#containers.isOver(id) || run?.main === undefined || pod === undefined || this.#full.has(id)) continue;
      const { bavail } = await statfs(`/proc/${run.main.pid}/root/dev/shm`);
      if (bavail > 0) continue;
      this.#full.add(id);
      this.#deps.report({
        podUid,
        namespace: pod.namespace,
        podName: pod.name,
        reason: 'WritableLayerFull',
        message: `Container ${name} has used up the ${this.#settings.writableBytesMax} bytes it can write outside of its volumes: mount a volume there, or give the node a larger --writable-layer`,
      });
    }
  }
}
