/**
 * Containers as sandboxed processes of this machine, without images: the host read-only, with the container's volumes at
 * their mount paths. What runs outlives this program and is found again from the records and from what the launchers
 * write. One runtime for one state directory.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, constants, mkdirSync, openSync, rmSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import {
  RuntimeError,
  type ContainerRequest,
  type ContainerUsage,
  type ExecRequest,
  type ExecResult,
  type ImageStatus,
  type PodRequest,
  type ProcessStreams,
  type Runtime,
  type RuntimePod,
} from '../runtime.ts';
import { Changes } from './changes.ts';
import { cleanRoomContainer, cleanRoomPod, cleanRoomUid } from './clean-room.ts';
import { ContainerLives } from './container-lives.ts';
import { Records, type ContainerRecord, type PodRecord } from './container-records.ts';
import { commandOf, describePod, sandboxRequestOf } from './container-translation.ts';
import { makeGroup, usageOf, type ControlGroups } from './control-groups.ts';
import { execCommand, feed, followResizes } from './exec.ts';
import { makeSkeleton, viewHost } from './host-view.ts';
import { execWords, identityOf, type Powers } from './identity.ts';
import { signalProcess } from './kill.ts';
import { launchContainer, namespaceWords, startHolder } from './launch.ts';
import { LogPumps } from './log-pump.ts';
import { isAlive, processNamed, type ProcessName } from './process-table.ts';
import { planSandbox } from './sandbox-plan.ts';
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

/** A room that does not end in that time is found again, and used, by the next program. */
const closeMsMax = 5_000;

export interface ProcessRuntimeDeps {
  readonly clock: Clock;
  readonly powers: Powers;
  readonly groups: ControlGroups;
}

export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly version = '1';
  readonly #settings: ProcessRuntimeSettings;
  readonly #deps: ProcessRuntimeDeps;
  readonly #pods: Records<PodRecord>;
  readonly #lives: ContainerLives;
  readonly #logs: LogPumps;
  readonly #changes = new Changes();
  readonly #closing = new AbortController();
  /** Environments and arguments are secret: what was created and not started is lost with this program. */
  readonly #created = new Map<string, ContainerRequest>();
  #openingCleanRoom: Promise<ProcessName> | undefined;

  constructor(settings: ProcessRuntimeSettings, deps: ProcessRuntimeDeps) {
    const { stateDirectory, logSizeBytesMax, logFilesMax, sweepMs } = settings;
    const { clock, groups } = deps;
    this.#settings = settings;
    this.#deps = deps;
    this.#pods = new Records(join(stateDirectory, 'pods'));
    const limits = { sizeBytesMax: logSizeBytesMax, filesMax: logFilesMax };
    this.#logs = new LogPumps(join(stateDirectory, 'spool'), limits, clock);
    const shared = { clock, groups, logs: this.#logs, changes: this.#changes, pods: this.#pods };
    this.#lives = new ContainerLives(stateDirectory, sweepMs, shared);
  }

  /** Takes up what an earlier program left, running or ended meanwhile. */
  async open(): Promise<void> {
    const { stateDirectory } = this.#settings;
    if (/[,:\\\s]/.test(stateDirectory)) {
      throw new RuntimeError(
        `Cannot use the state directory "${stateDirectory}": its path must be free of space, ",", ":" and "\\"`,
      );
    }
    mkdirSync(join(stateDirectory, 'work'), { recursive: true, mode: 0o700 });
    makeSkeleton(join(stateDirectory, 'skeleton'));
    this.#pods.load();
    this.#logs.watch();
    await this.#lives.open();
  }

  /** Lets go of everything; containers go on. Only the clean room ends: it is ours, and the next program makes its own. */
  async close(): Promise<void> {
    await this.removePod(cleanRoomUid, AbortSignal.timeout(closeMsMax)).catch(() => {});
    this.#closing.abort();
    this.#changes.close();
    await this.#lives.close();
    await this.#logs.close();
  }

  unsupported(pod: PodRequest, container: ContainerRequest): string | undefined {
    return unsupportedReason(pod, container, this.#deps.powers, () => viewHost().mounts);
  }

  async list(): Promise<readonly RuntimePod[]> {
    const pods = this.#pods.all().filter(({ uid }) => uid !== cleanRoomUid);
    return await Promise.all(
      pods.map(async (pod) => {
        await this.#lives.lookAt(pod.uid);
        return this.#describe(pod);
      }),
    );
  }

  async get(podUid: string): Promise<RuntimePod | undefined> {
    await this.#lives.lookAt(podUid);
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
      uid,
      namespace,
      name,
      hostname,
      hostPid,
      hostIpc,
      hostNetwork,
      shareProcessNamespace: request.shareProcessNamespace && !hostPid,
      logDirectory,
      // Of a pod that lost what its containers shared, everything begins anew.
      createdAtMs: this.#deps.clock.now(),
      state: 'ready',
      holder,
    };
    try {
      this.#pods.put(uid, record);
    } catch (thrown) {
      signalProcess(holder, 'SIGKILL');
      throw thrown;
    }
    return this.#describe(record);
  }

  async stopPod(podUid: string, signal: AbortSignal): Promise<void> {
    await Promise.all(this.#lives.of(podUid).map(({ id }) => this.stopContainer(id, 0, signal)));
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return;
    signalProcess(pod.holder, 'SIGKILL');
    this.#pods.put(podUid, { ...pod, state: 'notReady' });
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    for (const { id } of this.#lives.of(podUid)) await this.removeContainer(id);
    const pod = this.#pods.get(podUid);
    if (pod !== undefined) rmSync(pod.logDirectory, { recursive: true, force: true });
    this.#pods.delete(podUid);
    const isLast = this.#pods.all().every(({ uid }) => uid === cleanRoomUid);
    if (isLast && podUid !== cleanRoomUid) await this.removePod(cleanRoomUid, signal);
  }

  async createContainer(request: ContainerRequest): Promise<string> {
    const { podUid, name, attempt, image, labels, stopSignal, tty } = request;
    const pod = this.#pods.get(podUid);
    if (pod?.state !== 'ready') throw new RuntimeError(`Cannot create container "${name}": its pod is not running`);
    const id = randomBytes(32).toString('hex');
    this.#lives.put({
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
    const record = this.#lives.known(id);
    const request = this.#created.get(id);
    const pod = this.#pods.get(record.podUid);
    const { name } = record;
    if (record.run !== undefined) throw new RuntimeError(`Cannot start container "${name}": it was started before`);
    if (request === undefined || pod === undefined) {
      throw new RuntimeError(`Cannot start container "${name}": it was created before a restart; create it again`);
    }
    this.#created.delete(id);
    this.#launch(record, pod, request);
    const hasStarted = (): boolean => readStatus(this.#lives.statusPath(id)).started;
    await this.#lives.until(id, () => hasStarted() || this.#lives.isOver(id), signal);
    await this.#lives.look(id);
    if (hasStarted()) return;
    throw new RuntimeError(this.#lives.get(id)?.end?.message ?? `Cannot start container "${name}": it was removed`);
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    const record = this.#lives.get(id);
    this.#created.delete(id);
    if (record === undefined) return;
    await this.#lives.look(id);
    const isOver = (): boolean => this.#lives.isOver(id);
    const main = this.#lives.find(id)?.main;
    if (!isOver() && graceMs > 0 && main !== undefined) {
      signalProcess(main, record.stopSignal as NodeJS.Signals);
      const grace = new AbortController();
      const bound = AbortSignal.any([grace.signal, signal]);
      const waits = [this.#lives.until(id, isOver, bound), this.#deps.clock.sleep(graceMs, bound)];
      await Promise.race(waits.map((wait) => wait.catch(() => {})));
      grace.abort();
      signal.throwIfAborted();
    }
    if (isOver()) return;
    this.#lives.killAll(id);
    await this.#lives.until(id, isOver, signal);
  }

  async removeContainer(id: string): Promise<void> {
    await this.#lives.look(id);
    const record = this.#lives.get(id);
    if (record === undefined) return;
    if (!this.#lives.isOver(id)) throw new RuntimeError(`Cannot remove container "${record.name}": it is running`);
    this.#created.delete(id);
    this.#lives.forget(id);
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const record = this.#lives.known(id);
    const init = this.#lives.find(id)?.init;
    const pod = this.#pods.get(record.podUid);
    if (init === undefined || pod === undefined || this.#lives.isOver(id)) {
      throw new RuntimeError(`Cannot run a command in container "${record.name}": it is not running`);
    }
    const room = await this.#cleanRoom(signal);
    const { powers, groups } = this.#deps;
    const enter = [
      namespaceWords(init.pid, pod, powers),
      `--mount=/proc/${init.pid}/ns/mnt --pid=/proc/${init.pid}/ns/pid_for_children --no-fork`,
      `--root=/proc/${room.pid}/root --wd=/proc/${init.pid}/root --`,
    ].join(' ');
    const directories = new Set(groups.controllers.flatMap((name) => groups.directory(name) ?? []));
    const place = {
      enter,
      words: execWords(record.identity, powers),
      groups: [...directories].map((directory) => join(directory, id, 'cgroup.procs')),
      command: `/proc/${init.pid}/fd/3`,
    };
    return await execCommand(place, request, signal);
  }

  async attach(id: string, { stdin, stdout, stderr, resizes }: ProcessStreams, signal: AbortSignal): Promise<void> {
    const record = this.#lives.known(id);
    const init = this.#lives.find(id)?.init;
    if (this.#lives.isOver(id))
      throw new RuntimeError(`Cannot attach to container "${record.name}": it is not running`);
    const left = new AbortController();
    const bound = AbortSignal.any([signal, left.signal, this.#closing.signal]);
    const leave = (): void => left.abort();
    for (const stream of [stdout, stderr]) stream?.once('close', leave);
    const stop = this.#logs.listen(id, (stream, chunk) => void (stream === 'stdout' ? stdout : stderr)?.write(chunk));
    let keyboard: Socket | undefined;
    let terminal: number | undefined;
    try {
      if (stdin !== undefined && record.stdin !== 'none') {
        const pipe = join(this.#lives.runDirectory(id), 'stdin');
        const descriptor = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
        keyboard = new Socket({ fd: descriptor, readable: false, writable: true });
        keyboard.on('error', () => {}); // the container closed its input
        void feed(stdin, keyboard);
      }
      if (record.tty && init !== undefined) {
        const flags = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK;
        terminal = openSync(`/proc/${init.pid}/fd/8`, flags);
        void followResizes(terminal, resizes, bound);
      }
      await this.#lives.until(id, () => this.#lives.isOver(id), bound).catch(() => {});
    } finally {
      stop();
      left.abort();
      keyboard?.destroy();
      if (terminal !== undefined) closeSync(terminal);
      for (const stream of [stdout, stderr]) stream?.off('close', leave);
    }
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

  async reopenLog(id: string): Promise<void> {
    this.#lives.known(id);
    this.#logs.reopen(id);
  }

  async usage(podUid: string): Promise<readonly ContainerUsage[]> {
    return this.#lives.of(podUid).flatMap(({ id, name }) => {
      const used = this.#lives.isOver(id) ? undefined : usageOf(this.#deps.groups, id);
      return used === undefined ? [] : [{ name, ...used }];
    });
  }

  async imageStatus(image: string): Promise<ImageStatus> {
    return { id: image, sizeBytes: 0 };
  }

  async pullImage(image: string): Promise<ImageStatus> {
    return await this.imageStatus(image);
  }

  #launch(record: ContainerRecord, pod: PodRecord, request: ContainerRequest): void {
    const { stateDirectory, hidden, writableBytesMax } = this.#settings;
    const { powers, clock } = this.#deps;
    const { id } = record;
    const work = join(stateDirectory, 'work');
    const covered = [stateDirectory, ...hidden];
    const plan = planSandbox(sandboxRequestOf(request, { work, hidden: covered }, powers), viewHost());
    for (const point of plan.volumePoints) makeVolumePoint(point);
    const groups = makeGroup(this.#deps.groups, id, request.resources);
    const command = commandOf(request, pod, record.identity.uid);
    const places = {
      work,
      skeleton: join(stateDirectory, 'skeleton'),
      directory: this.#lives.runDirectory(id),
      status: this.#lives.statusPath(id),
      spool: this.#logs.spool(id),
    };
    const child = launchContainer({ record, pod, plan, command, groups, writableBytesMax }, places, powers);
    child.once('exit', () => void this.#lives.look(id));
    const supervisor = child.pid === undefined ? undefined : processNamed(child.pid);
    if (supervisor === undefined) throw new RuntimeError('Cannot start a container: sh(1) is needed');
    this.#lives.launched(id, supervisor, clock.now());
  }

  /** A process that has the clean room as its root. Kept as long as there are pods. */
  async #cleanRoom(signal: AbortSignal): Promise<ProcessName> {
    const [known] = this.#lives.of(cleanRoomUid);
    const init = known === undefined || known.end !== undefined ? undefined : this.#lives.find(known.id)?.init;
    if (init !== undefined && isAlive(init)) return init;
    this.#openingCleanRoom ??= this.#openCleanRoom(signal).finally(() => {
      this.#openingCleanRoom = undefined;
    });
    return await this.#openingCleanRoom;
  }

  async #openCleanRoom(signal: AbortSignal): Promise<ProcessName> {
    for (const { id } of this.#lives.of(cleanRoomUid)) await this.removeContainer(id);
    await this.runPod(cleanRoomPod(join(this.#settings.stateDirectory, cleanRoomUid)), signal);
    const id = await this.createContainer(cleanRoomContainer);
    await this.startContainer(id, signal);
    const init = this.#lives.find(id)?.init;
    if (init === undefined) throw new RuntimeError('Cannot run commands in containers: their clean room did not start');
    return init;
  }

  #describe(pod: PodRecord): RuntimePod {
    // A holder that was killed took the shared namespaces with it: the pod has to be made again.
    return describePod({ ...pod, state: isAlive(pod.holder) ? pod.state : 'notReady' }, this.#lives.of(pod.uid));
  }
}
