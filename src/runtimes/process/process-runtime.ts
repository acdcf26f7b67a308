/**
 * Containers as sandboxed processes of this machine, without images: the host read-only, with the container's volumes at
 * their mount paths. What was decided is in the plan; what runs outlives this program and is found again from the records
 * and from what the launchers write. One runtime for one state directory.
 */
import { randomBytes } from 'node:crypto';
import {
  mkdirSync,
  openSync,
  closeSync,
  constants,
  readFileSync,
  rmSync,
  statSync,
  watch,
  type FSWatcher,
} from 'node:fs';
import { connect, Socket } from 'node:net';
import { join } from 'node:path';
import { kill as sendSignal } from 'node:process';
import type { Duplex } from 'node:stream';
import { errorCode } from '../../base/errors.ts';
import type { Clock } from '../../base/clock.ts';
import {
  NoSuchContainerError,
  RuntimeError,
  type ContainerRequest,
  type ContainerUsage,
  type ExecRequest,
  type ExecResult,
  type ImageStatus,
  type PodRequest,
  type ProcessStreams,
  type Runtime,
  type RuntimeContainer,
  type RuntimePod,
} from '../runtime.ts';
import { Changes } from './changes.ts';
import {
  Records,
  type ContainerEnd,
  type ContainerRecord,
  type ContainerRun,
  type PodRecord,
} from './container-records.ts';
import { makeGroup, ranOutOfMemory, removeGroup, sweepGroups, usageOf, type ControlGroups } from './control-groups.ts';
import { execCommand, feed, followResizes } from './exec.ts';
import { makeSkeleton, viewHost } from './host-view.ts';
import { execWords, identityOf, type Powers } from './identity.ts';
import { initOf, launchContainer, namespaceWords, startHolder } from './launch.ts';
import { LogPumps } from './log-pump.ts';
import {
  isAlive,
  mountNamespaceOf,
  oldestChild,
  processNamed,
  processesOfMountNamespace,
  type ProcessName,
} from './process-table.ts';
import { planSandbox } from './sandbox-plan.ts';
import { commandOf, endOf, sandboxRequestOf, stateOf } from './container-translation.ts';
import { readStatus } from './status-file.ts';
import { unsupportedReason } from './unsupported.ts';
import { makeVolumePoint } from './volume-points.ts';

export interface ProcessRuntimeSettings {
  /** Its own: nobody else writes there. */
  readonly stateDirectory: string;
  /** Paths of the host that no container may see; the state directory is always one of them. */
  readonly hidden: readonly string[];
  readonly logSizeBytesMax: number;
  readonly logFilesMax: number;
  /** Bounds what a container can write to its root, /tmp, /run and /dev/shm together. */
  readonly writableBytesMax: number;
  /** How often to look for containers whose launcher was killed and could not say so. */
  readonly sweepMs: number;
}

export const defaultProcessRuntimeSettings = {
  hidden: [],
  logSizeBytesMax: 10 * 1024 * 1024,
  logFilesMax: 5,
  writableBytesMax: 256 * 1024 * 1024,
  sweepMs: 10_000,
} as const satisfies Omit<ProcessRuntimeSettings, 'stateDirectory'>;

export interface ProcessRuntimeDeps {
  readonly clock: Clock;
  readonly powers: Powers;
  readonly groups: ControlGroups;
}

const cleanRoomUid = 'clean-room';

export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly version = '1';
  readonly #settings: ProcessRuntimeSettings;
  readonly #deps: ProcessRuntimeDeps;
  readonly #pods: Records<PodRecord>;
  readonly #containers: Records<ContainerRecord>;
  readonly #logs: LogPumps;
  readonly #changes = new Changes();
  readonly #closing = new AbortController();
  /** Environments and arguments are secret: what was created and not started is lost with this program. */
  readonly #created = new Map<string, ContainerRequest>();
  readonly #waiters = new Map<string, Set<() => void>>();
  readonly #settling = new Map<string, Promise<void>>();
  #watcher: FSWatcher | undefined;
  #sweeping: Promise<void> = Promise.resolve();
  #cleanRoom: Promise<ContainerRun> | undefined;

  constructor(settings: ProcessRuntimeSettings, deps: ProcessRuntimeDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#pods = new Records(join(settings.stateDirectory, 'pods'));
    this.#containers = new Records(join(settings.stateDirectory, 'containers'));
    const limits = { sizeBytesMax: settings.logSizeBytesMax, filesMax: settings.logFilesMax };
    this.#logs = new LogPumps(join(settings.stateDirectory, 'spool'), limits, deps.clock);
  }

  /** Takes up what an earlier program left, running or ended meanwhile. */
  async open(): Promise<void> {
    const { stateDirectory } = this.#settings;
    if (/[,:\\\s]/.test(stateDirectory)) {
      throw new RuntimeError(
        `Cannot use the state directory "${stateDirectory}": its path must be free of space, ",", ":" and "\\"`,
      );
    }
    for (const name of ['work', 'status', 'run'])
      mkdirSync(join(stateDirectory, name), { recursive: true, mode: 0o700 });
    makeSkeleton(join(stateDirectory, 'skeleton'));
    this.#pods.load();
    this.#containers.load();
    this.#logs.watch();
    this.#watcher = watch(join(stateDirectory, 'status'), (_, name) => {
      if (name !== null) void this.#look(name);
    });
    this.#watcher.on('error', () => {}); // the sweep looks too
    this.#watcher.unref();
    for (const { id, logPath, run, end } of this.#containers.all()) {
      if (run !== undefined && end === undefined) this.#logs.add(id, logPath);
      await this.#look(id);
    }
    sweepGroups(this.#deps.groups, (id) => this.#containers.get(id) !== undefined);
    this.#sweeping = this.#sweep();
  }

  /** Lets go of everything and ends nothing: containers go on. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#watcher?.close();
    this.#changes.close();
    await this.#sweeping;
    await Promise.all(this.#settling.values());
    await this.#logs.close();
  }

  unsupported(pod: PodRequest, container: ContainerRequest): string | undefined {
    return unsupportedReason(pod, container, this.#deps.powers, () => viewHost().mounts);
  }

  async list(): Promise<readonly RuntimePod[]> {
    await Promise.all(this.#containers.all().map(({ id }) => this.#look(id)));
    return this.#pods
      .all()
      .filter(({ uid }) => uid !== cleanRoomUid)
      .map((pod) => this.#describe(pod));
  }

  async get(podUid: string): Promise<RuntimePod | undefined> {
    await Promise.all(this.#containersOf(podUid).map(({ id }) => this.#look(id)));
    const pod = this.#pods.get(podUid);
    return pod === undefined ? undefined : this.#describe(pod);
  }

  changes(signal: AbortSignal): AsyncIterable<string> {
    return this.#changes.follow(signal);
  }

  async runPod(request: PodRequest, signal: AbortSignal): Promise<RuntimePod> {
    const known = this.#pods.get(request.uid);
    if (known?.state === 'ready' && isAlive(known.holder)) return this.#describe(known);
    const holder = await startHolder(request, this.#deps.powers, signal);
    const { uid, namespace, name, hostname, hostPid, hostIpc, hostNetwork, logDirectory } = request;
    const record: PodRecord = {
      ...{ uid, namespace, name, hostname, hostPid, hostIpc, hostNetwork, logDirectory, holder },
      shareProcessNamespace: request.shareProcessNamespace && !hostPid,
      createdAtMs: known?.createdAtMs ?? this.#deps.clock.now(),
      state: 'ready',
    };
    try {
      this.#pods.put(uid, record);
    } catch (thrown) {
      killProcess(holder);
      throw thrown;
    }
    return this.#describe(record);
  }

  async stopPod(podUid: string, signal: AbortSignal): Promise<void> {
    await Promise.all(this.#containersOf(podUid).map(({ id }) => this.stopContainer(id, 0, signal)));
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return;
    killProcess(pod.holder);
    this.#pods.put(podUid, { ...pod, state: 'notReady' });
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    for (const { id } of this.#containersOf(podUid)) await this.removeContainer(id);
    const pod = this.#pods.get(podUid);
    if (pod !== undefined) rmSync(pod.logDirectory, { recursive: true, force: true });
    this.#pods.delete(podUid);
    if (podUid !== cleanRoomUid && this.#pods.all().every(({ uid }) => uid === cleanRoomUid)) {
      this.#cleanRoom = undefined;
      await this.removePod(cleanRoomUid, signal);
    }
  }

  async createContainer(request: ContainerRequest): Promise<string> {
    const pod = this.#pods.get(request.podUid);
    if (pod?.state !== 'ready')
      throw new RuntimeError(`Cannot create container "${request.name}": its pod is not running`);
    const id = randomBytes(32).toString('hex');
    const { podUid, name, attempt, image, labels, stopSignal, tty } = request;
    this.#containers.put(id, {
      ...{ id, podUid, name, attempt, image, labels, stopSignal, tty },
      logPath: join(pod.logDirectory, request.logPath),
      stdin: request.stdin ? (request.stdinOnce ? 'once' : 'keep') : 'none',
      identity: identityOf(request.security, this.#deps.powers),
      memoryLimited: (request.resources.memoryBytesMax ?? 0) > 0,
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
    if (record.run !== undefined)
      throw new RuntimeError(`Cannot start container "${record.name}": it was started before`);
    if (request === undefined || pod === undefined) {
      throw new RuntimeError(
        `Cannot start container "${record.name}": it was created before a restart; create it again`,
      );
    }
    this.#created.delete(id);
    await this.#launch(record, pod, request);
    await this.#until(
      id,
      () => {
        const { started, failure, ended } = readStatus(this.#statusPath(id));
        return started || failure !== undefined || ended || this.#known(id).end !== undefined;
      },
      signal,
    );
    await this.#look(id);
    const { started, failure } = readStatus(this.#statusPath(id));
    if (started) return;
    // What went wrong with the sandbox is known when the launcher has ended.
    await this.#until(id, () => this.#known(id).end !== undefined, signal);
    throw new RuntimeError(this.#known(id).end?.message ?? failure ?? 'Cannot start the container');
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    const record = this.#containers.get(id);
    if (record === undefined) return;
    await this.#look(id);
    const isOver = (): boolean => {
      const { run, end } = this.#containers.get(id) ?? {};
      return run === undefined || end !== undefined;
    };
    if (isOver()) {
      this.#created.delete(id);
      return;
    }
    const main = this.#find(id)?.main;
    if (graceMs > 0 && main !== undefined) {
      signalProcess(main, record.stopSignal as NodeJS.Signals);
      const grace = new AbortController();
      const bound = AbortSignal.any([grace.signal, signal]);
      const over = this.#until(id, isOver, bound).then(
        () => true,
        () => false,
      );
      await Promise.race([over, this.#deps.clock.sleep(graceMs, bound).catch(() => {})]);
      grace.abort();
      signal.throwIfAborted();
    }
    if (isOver()) return;
    this.#killAll(id);
    await this.#until(id, isOver, signal);
  }

  async removeContainer(id: string): Promise<void> {
    const record = this.#containers.get(id);
    if (record === undefined) return;
    await this.#look(id);
    const { run, end, name } = this.#known(id);
    if (run !== undefined && end === undefined)
      throw new RuntimeError(`Cannot remove container "${name}": it is running`);
    removeGroup(this.#deps.groups, id);
    rmSync(this.#runDirectory(id), { recursive: true, force: true });
    rmSync(this.#statusPath(id), { force: true });
    this.#created.delete(id);
    this.#containers.delete(id);
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const record = this.#known(id);
    const run = this.#find(id);
    const pod = this.#pods.get(record.podUid);
    if (run?.init === undefined || record.end !== undefined || pod === undefined) {
      throw new RuntimeError(`Cannot run a command in container "${record.name}": it is not running`);
    }
    const { init: room } = await this.#openCleanRoom(signal);
    const { init } = run;
    const { powers, groups } = this.#deps;
    const enter = [
      namespaceWords(init.pid, pod, powers),
      `--mount=/proc/${init.pid}/ns/mnt --pid=/proc/${init.pid}/ns/pid_for_children --no-fork`,
      `--root=/proc/${room?.pid}/root --wd=/proc/${init.pid}/root --`,
    ].join(' ');
    const place = {
      words: execWords(record.identity, powers),
      enter,
      groups: [...new Set(groups.controllers.map((name) => join(groups.directory(name) ?? '', id, 'cgroup.procs')))],
      command: `/proc/${init.pid}/fd/3`,
    };
    return await execCommand(place, request, signal);
  }

  async attach(id: string, { stdin, stdout, stderr, resizes }: ProcessStreams, signal: AbortSignal): Promise<void> {
    const record = this.#known(id);
    const run = this.#find(id);
    if (run === undefined || record.end !== undefined) {
      throw new RuntimeError(`Cannot attach to container "${record.name}": it is not running`);
    }
    const left = new AbortController();
    const bound = AbortSignal.any([signal, left.signal, this.#closing.signal]);
    const leave = (): void => left.abort();
    for (const stream of [stdout, stderr]) stream?.once('close', leave);
    const stop = this.#logs.listen(id, (stream, chunk) => void (stream === 'stdout' ? stdout : stderr)?.write(chunk));
    let keyboard: Socket | undefined;
    let terminal: number | undefined;
    try {
      if (stdin !== undefined && record.stdin !== 'none') {
        const pipe = openSync(join(this.#runDirectory(id), 'stdin'), constants.O_WRONLY | constants.O_NONBLOCK);
        keyboard = new Socket({ fd: pipe, readable: false, writable: true });
        keyboard.on('error', () => {}); // the container closed its input
        void feed(stdin, keyboard);
      }
      if (record.tty && run.init !== undefined) {
        terminal = openSync(`/proc/${run.init.pid}/fd/8`, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
        void followResizes(terminal, resizes, bound);
      }
      await this.#until(id, () => this.#containers.get(id)?.end !== undefined, bound).catch(() => {});
    } finally {
      stop();
      left.abort();
      keyboard?.destroy();
      if (terminal !== undefined) closeSync(terminal);
      for (const stream of [stdout, stderr]) stream?.off('close', leave);
    }
  }

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

  async reopenLog(id: string): Promise<void> {
    this.#known(id);
    this.#logs.reopen(id);
  }

  async usage(podUid: string): Promise<readonly ContainerUsage[]> {
    return this.#containersOf(podUid).flatMap(({ id, name, run, end }) => {
      const used = run !== undefined && end === undefined ? usageOf(this.#deps.groups, id) : undefined;
      return used === undefined ? [] : [{ name, ...used }];
    });
  }

  async imageStatus(image: string): Promise<ImageStatus> {
    return { id: image, sizeBytes: 0 };
  }

  async pullImage(image: string): Promise<ImageStatus> {
    return await this.imageStatus(image);
  }

  async #launch(record: ContainerRecord, pod: PodRecord, request: ContainerRequest): Promise<void> {
    const { stateDirectory, hidden, writableBytesMax } = this.#settings;
    const { id } = record;
    const work = join(stateDirectory, 'work');
    const plan = planSandbox(
      sandboxRequestOf(request, { work, hidden: [stateDirectory, ...hidden] }, this.#deps.powers),
      viewHost(),
    );
    for (const point of plan.volumePoints) makeVolumePoint(point);
    const groups = makeGroup(this.#deps.groups, id, request.resources);
    const places = {
      work,
      skeleton: join(stateDirectory, 'skeleton'),
      directory: this.#runDirectory(id),
      status: this.#statusPath(id),
      spool: this.#logs.spool(id),
    };
    const command = commandOf(request, pod, record.identity.uid);
    const child = launchContainer({ record, pod, plan, command, groups, writableBytesMax }, places, this.#deps.powers);
    const supervisor = child.pid === undefined ? undefined : processNamed(child.pid);
    child.once('exit', () => void this.#look(id));
    if (supervisor === undefined) throw new RuntimeError('Cannot start a container: sh(1) is needed');
    this.#containers.put(id, { ...record, run: { startedAtMs: this.#deps.clock.now(), supervisor } });
    this.#logs.add(id, record.logPath);
  }

  /** The clean room of exec.ts: kept as long as there are pods. */
  async #openCleanRoom(signal: AbortSignal): Promise<ContainerRun> {
    const known = this.#containersOf(cleanRoomUid)[0];
    if (known !== undefined && known.end === undefined) {
      const run = this.#find(known.id);
      if (run?.init !== undefined && isAlive(run.init)) return run;
    }
    this.#cleanRoom ??= this.#makeCleanRoom(signal).finally(() => {
      this.#cleanRoom = undefined;
    });
    return await this.#cleanRoom;
  }

  async #makeCleanRoom(signal: AbortSignal): Promise<ContainerRun> {
    for (const { id } of this.#containersOf(cleanRoomUid)) await this.removeContainer(id);
    const { pod, container } = cleanRoom(join(this.#settings.stateDirectory, 'clean-room'));
    await this.runPod(pod, signal);
    const id = await this.createContainer(container);
    await this.startContainer(id, signal);
    const run = this.#find(id);
    if (run?.init === undefined)
      throw new RuntimeError('Cannot run commands in containers: their clean room did not start');
    return run;
  }

  /** Brings the record in line with what the launcher wrote; tells whoever waits. */
  async #look(id: string): Promise<void> {
    const record = this.#containers.get(id);
    if (record === undefined || record.end !== undefined) return;
    const status = readStatus(this.#statusPath(id));
    if (record.run === undefined) {
      // Started by a program that was killed before it could note it down.
      const supervisor =
        status.supervisorPid === undefined || this.#created.has(id) ? undefined : processNamed(status.supervisorPid);
      if (supervisor === undefined || !commandLine(supervisor.pid).includes('mountlet-supervise')) return;
      this.#containers.put(id, { ...record, run: { startedAtMs: record.createdAtMs, supervisor } });
      this.#logs.add(id, record.logPath);
      return await this.#look(id);
    }
    if (status.started) this.#find(id);
    // Its first process is gone, but others of the pod's namespace may still hold its output.
    if ((status.code !== undefined || status.failure !== undefined) && !status.ended) this.#killStrays(id);
    if (status.ended || !isAlive(record.run.supervisor)) {
      const settling = this.#settling.get(id) ?? this.#settle(id).finally(() => this.#settling.delete(id));
      this.#settling.set(id, settling);
      await settling;
    }
    for (const wake of this.#waiters.get(id) ?? []) wake();
  }

  async #settle(id: string): Promise<void> {
    this.#killAll(id);
    await this.#logs.finish(id);
    const record = this.#containers.get(id);
    if (record?.run === undefined) return;
    // Read again: the last lines may have come between the look and the death.
    const end: ContainerEnd = endOf(
      readStatus(this.#statusPath(id)),
      ranOutOfMemory(this.#deps.groups, id),
      launchTrouble(this.#runDirectory(id)),
      this.#deps.clock.now(),
    );
    this.#containers.put(id, { ...record, end });
    removeGroup(this.#deps.groups, id);
    this.#changes.tell(record.podUid);
  }

  /** The processes of a running container, noted down when they are first seen. */
  #find(id: string): ContainerRun | undefined {
    const record = this.#containers.get(id);
    const pod = record === undefined ? undefined : this.#pods.get(record.podUid);
    if (record?.run === undefined || pod === undefined || record.end !== undefined) return record?.run;
    if (record.run.main !== undefined) return record.run;
    const { buildPid, started } = readStatus(this.#statusPath(id));
    if (buildPid === undefined || !started) return record.run;
    const init = record.run.init ?? initOf(buildPid, pod);
    const main = init === undefined ? undefined : oldestChild(init.pid);
    const mountNamespace = init === undefined ? undefined : mountNamespaceOf(init.pid);
    const run: ContainerRun = {
      ...record.run,
      ...(init === undefined ? {} : { init }),
      ...(main === undefined ? {} : { main }),
      ...(mountNamespace === undefined ? {} : { mountNamespace }),
    };
    if (record.run.init === undefined && init !== undefined) this.#changes.tell(record.podUid);
    this.#containers.put(id, { ...record, run });
    return run;
  }

  /** The first process takes its pid namespace with it; where that is shared, all that have the mount namespace go. */
  #killAll(id: string): void {
    const run = this.#find(id);
    if (run === undefined) return;
    if (run.init !== undefined) killProcess(run.init);
    const { buildPid } = readStatus(this.#statusPath(id));
    const build = run.init === undefined && buildPid !== undefined ? processNamed(buildPid) : undefined;
    if (build !== undefined && isAlive(run.supervisor)) killProcess(build); // it hangs before its command
    if (!isAlive(run.supervisor)) killNamespace(run);
    else this.#killStrays(id);
  }

  #killStrays(id: string): void {
    const record = this.#containers.get(id);
    const pod = record === undefined ? undefined : this.#pods.get(record.podUid);
    if (record?.run !== undefined && (pod?.hostPid || pod?.shareProcessNamespace)) killNamespace(record.run);
  }

  async #until(id: string, isSo: () => boolean, signal: AbortSignal): Promise<void> {
    while (!isSo()) {
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const waiters = this.#waiters.get(id) ?? new Set();
        this.#waiters.set(id, waiters);
        const abort = (): void => {
          waiters.delete(wake);
          reject(signal.reason);
        };
        const wake = (): void => {
          waiters.delete(wake);
          if (waiters.size === 0) this.#waiters.delete(id);
          signal.removeEventListener('abort', abort);
          resolve();
        };
        waiters.add(wake);
        signal.addEventListener('abort', abort, { once: true });
      });
    }
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await this.#deps.clock.sleep(this.#settings.sweepMs, signal);
      } catch {
        return;
      }
      for (const { id } of this.#containers.all()) {
        await this.#logs.drain(id);
        await this.#look(id);
      }
    }
  }

  #describe(pod: PodRecord): RuntimePod {
    const { uid, namespace, name, state, createdAtMs } = pod;
    const containers = this.#containersOf(uid).map((record): RuntimeContainer => {
      const { id, attempt, image, logPath, labels } = record;
      return { id, name: record.name, attempt, image, imageId: image, state: stateOf(record), logPath, labels };
    });
    // A holder that was killed took the shared namespaces with it: the pod has to be made again.
    return { uid, namespace, name, state: isAlive(pod.holder) ? state : 'notReady', createdAtMs, ips: [], containers };
  }

  #containersOf(podUid: string): ContainerRecord[] {
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

  #statusPath(id: string): string {
    return join(this.#settings.stateDirectory, 'status', id);
  }

  #runDirectory(id: string): string {
    return join(this.#settings.stateDirectory, 'run', id);
  }
}

function cleanRoom(directory: string): { readonly pod: PodRequest; readonly container: ContainerRequest } {
  return {
    pod: {
      ...{
        uid: cleanRoomUid,
        namespace: 'mountlet',
        name: cleanRoomUid,
        hostname: '',
        labels: {},
        sysctls: {},
        resources: {},
      },
      ...{ hostNetwork: true, hostPid: false, hostIpc: false, shareProcessNamespace: false },
      directory,
      logDirectory: directory,
    },
    container: {
      ...{
        podUid: cleanRoomUid,
        name: cleanRoomUid,
        attempt: 0,
        image: '',
        command: [],
        args: [],
        workingDirectory: '/',
      },
      ...{ environment: [], mounts: [], devices: [], resources: {}, labels: {}, stopSignal: 'SIGTERM', logPath: 'log' },
      ...{ stdin: false, stdinOnce: false, tty: false },
      security: {
        ...{ uid: undefined, gid: undefined, supplementalGroups: [], readOnlyRootFilesystem: true, privileged: false },
        ...{ noNewPrivileges: true, addCapabilities: [], dropCapabilities: ['ALL'] },
      },
    },
  };
}

function killNamespace({ mountNamespace }: ContainerRun): void {
  if (mountNamespace === undefined) return;
  for (const stray of processesOfMountNamespace(mountNamespace)) killProcess(stray);
}

function killProcess(name: ProcessName): void {
  signalProcess(name, 'SIGKILL');
}

function signalProcess(name: ProcessName, signal: NodeJS.Signals): void {
  if (!isAlive(name)) return;
  try {
    sendSignal(name.pid, signal);
  } catch (thrown) {
    if (errorCode(thrown) !== 'ESRCH') throw thrown;
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function launchTrouble(directory: string): string {
  try {
    const path = join(directory, 'launch.log');
    return statSync(path).size === 0 ? '' : readFileSync(path, 'utf8').slice(-500).trim();
  } catch {
    return '';
  }
}
