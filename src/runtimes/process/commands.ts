/**
 * Starts containers, and commands beside them. Knows their variables and arguments, which may be secret and are never
 * written to disk: the spawner keeps those of a running container in memory, and what was created and not started is lost
 * with this program.
 */
import { constants } from 'node:os';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { systemPrograms } from '../../disk/devices/programs.ts';
import { isAlive } from '../../linux/process-table.ts';
import { type CompiledProgram, type StepFailure, readFailure } from '../../linux/system-program.ts';
import {
  commandStartError,
  ContainerNotRunningError,
  type ContainerRequest,
  type ExecRequest,
  type ExecResult,
  type ProcessStreams,
  RuntimeError,
} from '../runtime.ts';
import type { ContainerEnd, ContainerRecord, PodRecord } from './container-records.ts';
import { commandOf, failureText, sandboxRequestOf, sourcesOf } from './container-translation.ts';
import type { Containers } from './containers.ts';
import { type ControlGroups, joiningFiles, listingFiles, makeGroup } from './control-groups.ts';
import type { Holders } from './holders.ts';
import { type Command, type Powers, execProgram, launchProgram } from './sandbox/container-program.ts';
import type { HostFiles, HostFilesView } from './sandbox/host-files.ts';
import { makeVolumePoint } from './sandbox/root-path.ts';
import { planSandbox } from './sandbox/sandbox-plan.ts';
import { type SpawnerClient, SpawnerGoneError } from './spawner/spawner-client.ts';
import type { StartAnswer } from './spawner/spawner-protocol.ts';

const { SIGKILL } = constants.signals;

interface CommandsDeps {
  readonly clock: Clock;
  readonly powers: Powers;
  readonly groups: ControlGroups;
  readonly spawner: SpawnerClient;
  readonly containers: Containers;
  readonly holders: Holders;
  readonly files: HostFilesView;
}

interface CommandsSettings {
  readonly work: string;
  readonly hidden: readonly string[];
  readonly hostFiles: HostFiles;
  readonly logSizeBytesMax: number;
  readonly logFilesMax: number;
  readonly writableBytesMax: number;
}

export class Commands {
  readonly #settings: CommandsSettings;
  readonly #deps: CommandsDeps;
  /** Of containers that were not started yet. */
  readonly #requests = new Map<string, ContainerRequest>();
  /** Of containers that run. */
  readonly #commands = new Map<string, Command>();
  readonly #programs = systemPrograms();

  constructor(settings: CommandsSettings, deps: CommandsDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  created(id: string, request: ContainerRequest): void {
    this.#requests.set(id, request);
  }

  forget(id: string): void {
    this.#requests.delete(id);
    this.#commands.delete(id);
  }

  /** Resolves when the container's program runs. */
  async start(record: ContainerRecord, pod: PodRecord | undefined, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { id, name } = record;
    const { clock, containers, spawner } = this.#deps;
    const request = this.#requests.get(id);
    if (record.run !== undefined) throw new RuntimeError(`Cannot start container "${name}": it was started before`);
    if (request === undefined || pod === undefined) {
      throw new RuntimeError(`Cannot start container "${name}": it was created before a restart; create it again`);
    }
    this.#requests.delete(id);
    containers.launching(record);
    let launch: Launched;
    try {
      launch = await this.#launch(record, pod, request, signal);
    } catch (thrown) {
      containers.launched(id);
      await containers.killLeft(id);
      await containers.settle(id, startError(clock.now(), messageOf(thrown)));
      throw thrown;
    }
    containers.launched(id);
    const { answer, failure } = launch;
    const facts = spawner.get(id);
    if (answer.outcome === 'failed') {
      const wasKilled = answer.exitCode === 128 + SIGKILL;
      const end = startError(clock.now(), failure);
      await containers.settle(
        id,
        wasKilled ? { ...end, exitCode: answer.exitCode, reason: 'Error', message: '' } : end,
      );
      signal.throwIfAborted();
      throw new RuntimeError(wasKilled ? `Cannot start container "${name}": it was stopped` : failure);
    }
    containers.running(id, answer.pid, answer.startedAtMs);
    if (facts !== undefined) containers.reported(facts); // it may have ended while it was launched
  }

  async exec(
    record: ContainerRecord,
    pod: PodRecord | undefined,
    request: ExecRequest,
    signal: AbortSignal,
  ): Promise<ExecResult> {
    signal.throwIfAborted();
    const { id, name, identity } = record;
    const { containers, groups, powers, spawner } = this.#deps;
    const { main } = record.run ?? {};
    if (main === undefined || pod === undefined || containers.isOver(id)) throw new ContainerNotRunningError(name);
    if (request.command.length === 0) throw commandStartError('Cannot run a command: none is given');
    const own = await this.#commandOf(id, name);
    const environment = request.tty ? [{ name: 'TERM', value: 'xterm' }, ...own.environment] : own.environment;
    const command = { ...own, environment, words: request.command };
    const program = execProgram({ pod, groups: joiningFiles(groups, id), identity, command, tty: request.tty }, powers);
    const outcome = await spawner.exec(id, program, request, signal).catch(asNotRunning(name));
    if (!('outcome' in outcome)) return outcome;
    // The container may have ended meanwhile: then its namespaces, groups or root are gone.
    const failure = readReport(program, outcome);
    const isOwn = failure !== undefined && ['execve', 'chdir'].includes(failure.call);
    if (failure === undefined || containers.isOver(id) || (!isOwn && !isAlive(main))) {
      throw new ContainerNotRunningError(name);
    }
    const { workingDirectory } = own;
    const { hostFiles } = this.#settings;
    throw commandStartError(
      failureText(failure, outcome, { program: request.command[0] ?? '', workingDirectory, hostFiles }),
    );
  }

  async attach({ id, name }: ContainerRecord, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    if (this.#deps.containers.isOver(id)) throw new ContainerNotRunningError(name);
    await this.#deps.spawner.attach(id, streams, signal).catch(asNotRunning(name));
  }

  async #launch(
    record: ContainerRecord,
    pod: PodRecord,
    request: ContainerRequest,
    signal: AbortSignal,
  ): Promise<Launched> {
    const { id } = record;
    const { groups, holders, spawner } = this.#deps;
    const { logSizeBytesMax, logFilesMax, hostFiles } = this.#settings;
    const [sources, joins] = await Promise.all([
      sourcesOf(request.mounts, this.#programs, signal),
      holders.joinedBy(pod.uid),
    ]);
    const command = commandOf(request, pod, record.identity.uid);
    this.#commands.set(id, command);
    const program = this.#programOf(record, pod, request, sources, joins.length > 1, command);
    const hasStrays = pod.hostPid || pod.shareProcessNamespace;
    const stopListening = onAbort(signal, () => void spawner.signal(id, SIGKILL).catch(() => {}));
    const answer = await spawner.start(id, program, {
      log: { path: record.logPath, limits: { sizeBytesMax: logSizeBytesMax, filesMax: logFilesMax } },
      stdin: record.stdin,
      tty: record.tty,
      joins,
      keepsSpawner: true,
      ...(hasStrays ? { strays: { groups: listingFiles(groups, id) } } : {}),
      context: command,
    });
    stopListening();
    if (answer.outcome === 'started') return { answer, failure: '' };
    const { program: word, workingDirectory } = request;
    const names = { program: word, workingDirectory, hostFiles };
    return { answer, failure: failureText(readReport(program, answer), answer, names) };
  }

  #programOf(
    { id, identity, tty }: ContainerRecord,
    pod: PodRecord,
    request: ContainerRequest,
    sources: Awaited<ReturnType<typeof sourcesOf>>,
    hasFiles: boolean,
    command: Command,
  ): CompiledProgram {
    const { clock, files, groups, powers } = this.#deps;
    const { work, hidden, writableBytesMax } = this.#settings;
    const { address, resolver } = pod;
    const places = { work, hidden, view: files.view, ownNetwork: address !== undefined, resolver };
    const plan = planSandbox(sandboxRequestOf(request, sources, places, powers), files.host(clock.now()));
    for (const point of plan.volumePoints) makeVolumePoint(point);
    const joined = makeGroup(groups, id, request.resources);
    return launchProgram(
      { pod, hasFiles, groups: joined, work, writableBytesMax, plan, identity, command, tty },
      powers,
    );
  }

  /** After a restart of this program the spawner still knows it. */
  async #commandOf(id: string, containerName: string): Promise<Command> {
    const known = this.#commands.get(id);
    if (known !== undefined) return known;
    const kept = await this.#deps.spawner.context(id).catch(asNotRunning(containerName));
    if (kept === undefined) throw new ContainerNotRunningError(containerName);
    const command = kept as Command;
    this.#commands.set(id, command);
    return command;
  }
}

interface Launched {
  readonly answer: StartAnswer;
  /** Why it could not be started. */
  readonly failure: string;
}

/** For what is asked of a container that has just gone with the spawner. */
function asNotRunning(containerName: string): (thrown: unknown) => never {
  return (thrown) => {
    throw thrown instanceof SpawnerGoneError ? new ContainerNotRunningError(containerName) : thrown;
  };
}

function readReport(program: CompiledProgram, answer: { readonly report: string }): StepFailure | undefined {
  return readFailure(Buffer.from(answer.report, 'hex'), program.steps);
}

function startError(finishedAtMs: number, message: string): ContainerEnd {
  return { finishedAtMs, exitCode: 128, reason: 'StartError', message };
}
