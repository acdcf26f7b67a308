/**
 * Containers as sandboxed processes of this machine, without images: a view of the machine's files, with the container's volumes
 * at their mount paths. What runs outlives this program: it belongs to the spawner (spawner.ts), and is found again from the
 * records and from what the spawner knows. One runtime for one state directory.
 *
 *   created ──startContainer──▶ launching ──▶ running ──settle──▶ ended     Invariant: a record says `end` after the container's
 *                                   └────────────────settle──────────▲      last process is gone and its last line is in the log.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { connect } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import { messageOf } from '../../base/errors.ts';
import {
  type ProcessName,
  isAlive,
  processNamed,
  processesOfContainer,
  signalProcess,
} from '../../linux/process-table.ts';
import { type CompiledProgram, readFailure } from '../../linux/system-program.ts';
import {
  CommandStartError,
  ContainerNotRunningError,
  type ContainerRequest,
  type ContainerUsage,
  type ExecRequest,
  type ExecResult,
  NoSuchContainerError,
  type PodRequest,
  type ProcessStreams,
  type Runtime,
  RuntimeError,
  type RuntimePod,
} from '../runtime.ts';
import { type ContainerEnd, type ContainerRecord, type PodRecord, Records } from './container-records.ts';
import {
  commandOf,
  describePod,
  endOf,
  failureText,
  identityOf,
  sandboxRequestOf,
  sourcesOf,
} from './container-translation.ts';
import {
  type ControlGroups,
  joiningFiles,
  listingFiles,
  makeGroup,
  ranOutOfMemory,
  removeGroup,
  sweepGroups,
  usageOf,
} from './control-groups.ts';
import { Holders } from './holders.ts';
import { type Command, type Powers, execProgram, launchProgram } from './sandbox/container-program.ts';
import { type HostFiles, HostFilesView, readMounts } from './sandbox/host-files.ts';
import { makeVolumePoint } from './sandbox/root-path.ts';
import { planSandbox } from './sandbox/sandbox-plan.ts';
import { filesName } from './sandbox/sandbox-program.ts';
import { unsupportedReason } from './sandbox/security.ts';
import { SpawnerClient, SpawnerGoneError, endSpawner } from './spawner/spawner-client.ts';
import { type ChildFacts, type StartAnswer, recordedEnds } from './spawner/spawner-protocol.ts';

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

/** A container that was killed and is still there may have been stuck in the kernel, or have forked: it is killed again. */
const killAgainMs = 1_000;
const lostMessage = 'the process that runs containers was killed, and with it the container: its exit code is unknown';
const { SIGKILL } = constants.signals;

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
  readonly #containers: Records<ContainerRecord>;
  readonly #spawner: SpawnerClient;
  /** UIDs of pods. */
  readonly #changes = new CoalescingTopic<string>();
  readonly #closing = new AbortController();
  /** Variables and arguments are secret: what was created and not started is lost with this program. */
  readonly #created = new Map<string, ContainerRequest>();
  readonly #commands = new Map<string, Command>();
  readonly #launching = new Set<string>();
  /** Containers whose writable layer was found full, reported once. */
  readonly #full = new Set<string>();
  readonly #waiters = new Map<string, Set<() => void>>();
  #made: { readonly files: HostFilesView; readonly holders: Holders } | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #losing: Promise<unknown> = Promise.resolve();

  constructor(settings: ProcessRuntimeSettings, deps: ProcessRuntimeDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#pods = new Records(join(settings.stateDirectory, 'pods'));
    this.#containers = new Records(join(settings.stateDirectory, 'containers'));
    this.#spawner = new SpawnerClient(settings.stateDirectory, {
      changed: (facts) => this.#changed(facts),
      lost: () => this.#lost(),
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
    mkdirSync(this.#work, { recursive: true, mode: 0o700 });
    const files = new HostFilesView(hostFiles, hostPaths, join(this.#work, filesName));
    const holders = new Holders(this.#spawner, this.#deps.powers, this.#work, files);
    this.#made = { files, holders };
    this.#pods.load();
    this.#containers.load();
    await this.#spawner.open();
    const ends = recordedEnds(stateDirectory);
    for (const { id, run, end } of this.#containers.all()) {
      if (end !== undefined) continue;
      const facts = this.#spawner.get(id);
      const ended = facts?.end ?? ends.get(id);
      if (ended !== undefined) await this.#settle(id, endOf(ended, this.#ranOutOfMemory(id)));
      else if (facts?.pid !== undefined) this.#running(id, facts.pid, facts.startedAtMs);
      else if (run !== undefined) this.#lose([id]);
    }
    for (const { id } of this.#spawner.all()) {
      const pod = holders.podOf(id);
      const isKnown = pod === undefined ? this.#containers.get(id) !== undefined : this.#pods.get(pod) !== undefined;
      if (!isKnown && !holders.isFiles(id)) await holders.end(id);
    }
    if (this.#deps.powers.kind === 'user') {
      await holders.tryNamespaces().catch(async (thrown: unknown) => {
        await this.close();
        throw thrown;
      });
    }
    this.#sweepGroups();
    this.#sweeping = this.#sweep();
  }

  /** Lets go of everything; containers go on. Without a pod that may have some, the spawner has nothing left to do. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#spawner.close();
    if (this.#pods.all().every(({ state }) => state === 'notReady'))
      await endSpawner(this.#settings.stateDirectory).catch(() => {}); // one that hangs is found again
    await Promise.all([this.#sweeping, this.#losing]);
    this.#sweepGroups();
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
    await Promise.all(this.#of(podUid).map(({ id }) => this.stopContainer(id, 0, signal)));
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return;
    await this.#holders.endPod(podUid);
    this.#pods.keep(podUid, { ...pod, state: 'notReady' }); // without its holder it is not ready anyway
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    for (const { id } of this.#of(podUid)) await this.removeContainer(id);
    const pod = this.#pods.get(podUid);
    if (pod !== undefined) rmSync(pod.logDirectory, { recursive: true, force: true });
    this.#pods.delete(podUid);
  }

  async createContainer(request: ContainerRequest): Promise<string> {
    const { podUid, name, attempt, image, labels, stopSignal, tty } = request;
    const pod = this.#pods.get(podUid);
    if (pod?.state !== 'ready') throw new RuntimeError(`Cannot create container "${name}": its pod is not running`);
    const id = randomBytes(32).toString('hex');
    this.#containers.note(id, {
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
    this.#created.set(id, request);
    return id;
  }

  async startContainer(id: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const record = this.#known(id);
    const request = this.#created.get(id);
    const pod = this.#pods.get(record.podUid);
    const { name } = record;
    if (record.run !== undefined) throw new RuntimeError(`Cannot start container "${name}": it was started before`);
    if (request === undefined || pod === undefined) {
      throw new RuntimeError(`Cannot start container "${name}": it was created before a restart; create it again`);
    }
    this.#created.delete(id);
    this.#launching.add(id);
    this.#containers.note(id, { ...record, run: { startedAtMs: this.#deps.clock.now() } });
    let failure: string | undefined;
    let answer: StartAnswer | undefined;
    try {
      const { program, joins } = await this.#launchProgram(record, pod, request);
      const stop = onAbort(signal, () => void this.#spawner.signal(id, SIGKILL).catch(() => {}));
      answer = await this.#spawner.start(id, program, {
        log: {
          path: record.logPath,
          limits: { sizeBytesMax: this.#settings.logSizeBytesMax, filesMax: this.#settings.logFilesMax },
        },
        stdin: record.stdin,
        tty: record.tty,
        joins,
        keepsSpawner: true,
        ...(pod.hostPid || pod.shareProcessNamespace
          ? { strays: { groups: listingFiles(this.#deps.groups, id) } }
          : {}),
        context: this.#commands.get(id),
      });
      stop();
      if (answer.outcome === 'failed') {
        failure = failureText(readReport(program, answer), answer, {
          program: request.program,
          workingDirectory: request.workingDirectory,
          hostFiles: this.#settings.hostFiles,
        });
      }
    } catch (thrown) {
      this.#launching.delete(id);
      await this.#killLeft(id);
      await this.#settle(id, startError(this.#deps.clock.now(), messageOf(thrown)));
      throw thrown;
    }
    this.#launching.delete(id);
    const facts = this.#spawner.get(id);
    if (answer.outcome === 'failed') {
      const wasKilled = answer.exitCode === 128 + SIGKILL;
      const end = startError(this.#deps.clock.now(), failure ?? '');
      await this.#settle(id, wasKilled ? { ...end, exitCode: answer.exitCode, reason: 'Error', message: '' } : end);
      signal.throwIfAborted();
      throw new RuntimeError(wasKilled ? `Cannot start container "${name}": it was stopped` : (failure ?? ''));
    }
    this.#running(id, answer.pid, answer.startedAtMs);
    if (facts?.end !== undefined) this.#changed(facts);
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    const record = this.#containers.get(id);
    this.#created.delete(id);
    if (record === undefined) return;
    const isOver = (): boolean => this.#isOver(id);
    if (!isOver() && graceMs > 0 && !this.#launching.has(id)) {
      await this.#spawner.signal(
        id,
        constants.signals[record.stopSignal as NodeJS.Signals] ?? constants.signals.SIGTERM,
      );
      await this.#until(id, isOver, graceMs, signal);
    }
    while (!isOver()) {
      await this.#spawner.signal(id, SIGKILL);
      await this.#until(id, isOver, killAgainMs, signal);
    }
  }

  async removeContainer(id: string): Promise<void> {
    const record = this.#containers.get(id);
    if (record === undefined) return;
    if (!this.#isOver(id)) throw new RuntimeError(`Cannot remove container "${record.name}": it is running`);
    this.#created.delete(id);
    removeGroup(this.#deps.groups, id);
    this.#containers.delete(id);
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    signal.throwIfAborted();
    const record = this.#known(id);
    const pod = this.#pods.get(record.podUid);
    const { main } = record.run ?? {};
    if (main === undefined || pod === undefined || this.#isOver(id)) throw new ContainerNotRunningError(record.name);
    if (request.command.length === 0) throw new CommandStartError('Cannot run a command: none is given');
    const known = this.#commands.get(id) ?? (await this.#spawner.context(id).catch(asNotRunning(record.name)));
    const own = known as Command | undefined;
    if (own === undefined) throw new ContainerNotRunningError(record.name);
    this.#commands.set(id, own);
    const environment = request.tty ? [{ name: 'TERM', value: 'xterm' }, ...own.environment] : own.environment;
    const command = { ...own, environment, words: request.command };
    const groups = joiningFiles(this.#deps.groups, id);
    const program = execProgram(
      { pod, groups, identity: record.identity, command, tty: request.tty },
      this.#deps.powers,
    );
    const outcome = await this.#spawner.exec(id, program, request, signal).catch(asNotRunning(record.name));
    if (!('outcome' in outcome)) return outcome;
    // The container may have ended under our hands: then its namespaces, groups or root are gone.
    const failure = readReport(program, outcome);
    const isOwn = failure !== undefined && ['execve', 'chdir'].includes(failure.call);
    if (failure === undefined || this.#isOver(id) || (!isOwn && !isAlive(main)))
      throw new ContainerNotRunningError(record.name);
    throw new CommandStartError(
      failureText(failure, outcome, {
        program: request.command[0] ?? '',
        workingDirectory: own.workingDirectory,
        hostFiles: this.#settings.hostFiles,
      }),
    );
  }

  async attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    const record = this.#known(id);
    if (this.#isOver(id)) throw new ContainerNotRunningError(record.name);
    await this.#spawner
      .attach(id, streams, AbortSignal.any([signal, this.#closing.signal]))
      .catch(asNotRunning(record.name));
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
    return this.#of(podUid).flatMap(({ id, name }) => {
      const used = this.#isOver(id) ? undefined : usageOf(this.#deps.groups, id);
      return used === undefined ? [] : [{ name, ...used }];
    });
  }

  async #launchProgram(
    record: ContainerRecord,
    pod: PodRecord,
    request: ContainerRequest,
  ): Promise<{ readonly program: CompiledProgram; readonly joins: readonly string[] }> {
    const { powers } = this.#deps;
    const { id, identity, tty } = record;
    const { files, holders } = this.#open;
    const [sources, joins] = await Promise.all([sourcesOf(request.mounts), holders.joinedBy(pod.uid)]);
    const places = { work: this.#work, hidden: this.#hidden, view: files.view };
    const plan = planSandbox(sandboxRequestOf(request, sources, places, powers), files.host(this.#deps.clock.now()));
    for (const point of plan.volumePoints) makeVolumePoint(point);
    const command = commandOf(request, pod, identity.uid);
    this.#commands.set(id, command);
    const program = launchProgram(
      {
        pod,
        hasFiles: joins.length > 1,
        groups: makeGroup(this.#deps.groups, id, request.resources),
        work: this.#work,
        writableBytesMax: this.#settings.writableBytesMax,
        plan,
        identity,
        command,
        tty,
      },
      powers,
    );
    return { program, joins };
  }

  #running(id: string, pid: number, startedAtMs: number): void {
    const record = this.#containers.get(id);
    if (record === undefined || record.end !== undefined || record.run?.main?.pid === pid) return;
    const main = processNamed(pid);
    const run = { startedAtMs, ...(main && { main }) };
    this.#containers.keep(id, { ...record, run: { ...record.run, ...run } });
    this.#changes.publish(record.podUid);
  }

  /** Brings the record in line with what the spawner reports. */
  #changed({ id, end }: ChildFacts): void {
    const pod = this.#holders.podOf(id);
    if (pod !== undefined) {
      // Without its holder a pod has lost what its containers share: it has to be made again.
      if (end !== undefined) this.#changes.publish(pod);
    } else if (end !== undefined && !this.#launching.has(id)) {
      void this.#settle(id, endOf(end, this.#ranOutOfMemory(id)));
    }
  }

  async #settle(id: string, end: ContainerEnd): Promise<void> {
    const record = this.#containers.get(id);
    let isKept = true;
    if (record !== undefined && record.end === undefined) {
      isKept = this.#containers.keep(id, { ...record, end });
      this.#commands.delete(id);
      this.#full.delete(id);
      removeGroup(this.#deps.groups, id);
      this.#changes.publish(record.podUid);
      for (const wake of this.#waiters.get(id) ?? []) wake();
    }
    if (isKept) await this.#spawner.forget(id).catch(() => {}); // else the next start learns it from the spawner again
  }

  /** The spawner was killed: its containers have lost their output and the one that would learn their exit codes. */
  #lost(): void {
    const running = this.#containers.all().filter(({ run, end }) => run !== undefined && end === undefined);
    this.#lose(running.flatMap(({ id }) => (this.#launching.has(id) ? [] : id)));
    for (const { uid } of this.#pods.all()) this.#changes.publish(uid);
  }

  #lose(ids: readonly string[]): void {
    this.#losing = Promise.all([this.#losing, ...ids.map((id) => this.#loseContainer(id))]);
  }

  async #loseContainer(id: string): Promise<void> {
    await this.#killLeft(id);
    if (this.#closing.signal.aborted) return; // the next start looks again
    const finishedAtMs = this.#deps.clock.now();
    await this.#settle(id, { finishedAtMs, exitCode: 128 + SIGKILL, reason: 'Error', message: lostMessage });
  }

  /**
   * In place of a spawner: kills the container's processes, again and again, until none is left or this runtime is closed.
   * A control group no longer lists a process that has begun to end. The first process of a pid namespace is gone only after
   * all others in it: of the container, its main process or the holder of its pod.
   */
  async #killLeft(id: string): Promise<void> {
    const pod = this.#pods.get(this.#containers.get(id)?.podUid ?? '');
    const holder = pod === undefined || this.#holders.holds(pod.uid) ? undefined : pod.holder;
    const seen = new Map<number, ProcessName>();
    const backOff = new BackOff({ firstMs: 1, msMax: killAgainMs });
    while (!this.#closing.signal.aborted) {
      const { main } = this.#containers.get(id)?.run ?? {};
      const listed = processesOfContainer(listingFiles(this.#deps.groups, id), undefined);
      for (const name of [...listed, main, holder]) if (name !== undefined) seen.set(name.pid, name);
      const left = [...seen.values()].filter(isAlive);
      if (left.length === 0) return;
      for (const name of left) signalProcess(name, 'SIGKILL');
      await this.#deps.clock.sleep(backOff.next(), this.#closing.signal).catch(() => {});
    }
  }

  #describe(pod: PodRecord): RuntimePod {
    const isHeld = this.#holders.holds(pod.uid);
    return describePod({ ...pod, state: isHeld ? pod.state : 'notReady' }, this.#of(pod.uid));
  }

  /** Newest first. */
  #of(podUid: string): ContainerRecord[] {
    return this.#containers
      .all()
      .filter((record) => record.podUid === podUid)
      .toSorted((a, b) => b.createdAtMs - a.createdAtMs || b.attempt - a.attempt);
  }

  #known(id: string): ContainerRecord {
    const record = this.#containers.get(id);
    if (record === undefined) throw new NoSuchContainerError(id);
    return record;
  }

  #isOver(id: string): boolean {
    const record = this.#containers.get(id);
    return record?.run === undefined || record.end !== undefined;
  }

  /** Until it is so or the time is over; rejects when the signal aborts. */
  async #until(id: string, isSo: () => boolean, ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (isSo()) return;
    const waiters = this.#waiters.get(id) ?? new Set();
    this.#waiters.set(id, waiters);
    const done = new AbortController();
    const wake = (): void => done.abort();
    waiters.add(wake);
    try {
      await this.#deps.clock.sleep(ms, AbortSignal.any([done.signal, signal])).catch(() => {});
    } finally {
      waiters.delete(wake);
      if (waiters.size === 0) this.#waiters.delete(id);
    }
    signal.throwIfAborted();
  }

  #ranOutOfMemory(id: string): boolean {
    return ranOutOfMemory(this.#deps.groups, id);
  }

  get #open(): { readonly files: HostFilesView; readonly holders: Holders } {
    if (this.#made === undefined) throw new RuntimeError('Cannot run containers: the runtime is not open');
    return this.#made;
  }

  get #holders(): Holders {
    return this.#open.holders;
  }

  get #work(): string {
    return join(this.#settings.stateDirectory, 'work');
  }

  get #hidden(): readonly string[] {
    return [this.#settings.stateDirectory, ...this.#settings.hidden];
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#deps.clock.sleep(this.#settings.sweepMs, signal).catch(() => {});
      this.#sweepGroups();
      await this.#reportFullLayers().catch(() => {}); // containers come and go meanwhile
    }
  }

  async #reportFullLayers(): Promise<void> {
    for (const { id, podUid, name, run } of this.#containers.all()) {
      const pod = this.#pods.get(podUid);
      if (this.#isOver(id) || run?.main === undefined || pod === undefined || this.#full.has(id)) continue;
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

  /** A group cannot be removed while a process in it is dying: those that were left are tried again. */
  #sweepGroups(): void {
    sweepGroups(this.#deps.groups, (id) => this.#containers.get(id) !== undefined);
  }
}

/** For what is asked of a container that has just gone with the spawner. */
function asNotRunning(containerName: string): (thrown: unknown) => never {
  return (thrown) => {
    throw thrown instanceof SpawnerGoneError ? new ContainerNotRunningError(containerName) : thrown;
  };
}

function readReport(program: CompiledProgram, answer: { readonly report: string }): ReturnType<typeof readFailure> {
  return readFailure(Buffer.from(answer.report, 'hex'), program.steps);
}

function startError(finishedAtMs: number, message: string): ContainerEnd {
  return { finishedAtMs, exitCode: 128, reason: 'StartError', message };
}
