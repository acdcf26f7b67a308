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
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import {
  type ContainerRequest,
  type ContainerUsage,
  type ExecRequest,
  type ExecResult,
  type PodRequest,
  type ProcessStreams,
  type Runtime,
  RuntimeError,
  type RuntimePod,
} from '../runtime.ts';
import { Commands } from './commands.ts';
import { type PodRecord, Records } from './container-records.ts';
import { describePod, identityOf } from './container-translation.ts';
import { Containers } from './containers.ts';
import { type ControlGroups, usageOf } from './control-groups.ts';
import { Holders } from './holders.ts';
import type { Powers } from './sandbox/container-program.ts';
import { type HostFiles, HostFilesView, readMounts } from './sandbox/host-files.ts';
import { filesName } from './sandbox/sandbox-program.ts';
import { unsupportedReason } from './sandbox/security.ts';
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

  constructor(settings: ProcessRuntimeSettings, deps: ProcessRuntimeDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#pods = new Records(join(settings.stateDirectory, 'pods'));
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
  }

  unsupported(pod: PodRequest, container: ContainerRequest): string | undefined {
    return unsupportedReason(pod, container, this.#deps.powers, this.#hidden, readMounts);
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
    const known = this.#pods.get(request.uid);
    if (known?.state === 'ready' && this.#holders.holds(known.uid)) return this.#describe(known);
    const { uid, namespace, name, hostname, hostPid, hostIpc, hostNetwork, logDirectory, sysctls } = request;
    const shareProcessNamespace = request.shareProcessNamespace && !hostPid;
    const shared = { hostPid, hostIpc, hostNetwork, shareProcessNamespace };
    const holder = await this.#holders.holdPod(uid, { pod: shared, hostname, sysctls }, `pod "${namespace}/${name}"`);
    const record: PodRecord = {
      uid,
      namespace,
      name,
      hostname,
      ...shared,
      directory: request.directory,
      logDirectory,
      // A pod that lost what its containers shared begins again.
      createdAtMs: this.#deps.clock.now(),
      state: 'ready',
      ...(holder && { holder }),
    };
    try {
      this.#pods.put(uid, record);
    } catch (thrown) {
      await this.#holders.endPod(uid);
      throw thrown;
    }
    return this.#describe(record);
  }

  async stopPod(podUid: string, signal: AbortSignal): Promise<void> {
    await Promise.all(this.#containers.ofPod(podUid).map(({ id }) => this.stopContainer(id, 0, signal)));
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return;
    await this.#holders.endPod(podUid);
    this.#pods.keep(podUid, { ...pod, state: 'notReady' }); // without its holder it is not ready anyway
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    for (const { id } of this.#containers.ofPod(podUid)) await this.removeContainer(id);
    const pod = this.#pods.get(podUid);
    if (pod !== undefined) rmSync(pod.logDirectory, { recursive: true, force: true });
    this.#pods.delete(podUid);
  }

  async createContainer(request: ContainerRequest): Promise<string> {
    const { podUid, name, attempt, image, labels, stopSignal, tty } = request;
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
      logPath: join(pod.logDirectory, request.logPath),
      stopSignal,
      stdin: request.stdin ? (request.stdinOnce ? 'once' : 'keep') : 'none',
      tty,
      identity: identityOf(request.security, this.#deps.powers),
      createdAtMs: this.#deps.clock.now(),
    });
    this.#open.commands.created(id, request);
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

  /** All pods have the network of the machine. */
  async connect(_podUid: string, port: number, signal: AbortSignal): Promise<Duplex> {
    return await new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, signal });
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(socket);
      });
      socket.once('error', reject);
    });
  }

  async usage(podUid: string): Promise<readonly ContainerUsage[]> {
    return this.#containers.ofPod(podUid).flatMap(({ id, name }) => {
      const used = this.#containers.isOver(id) ? undefined : usageOf(this.#deps.groups, id);
      return used === undefined ? [] : [{ name, ...used }];
    });
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

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#deps.clock.sleep(this.#settings.sweepMs, signal).catch(() => {});
      this.#containers.sweepGroups();
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
