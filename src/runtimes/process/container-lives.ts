/**
 * The lives of containers, as their launchers tell them: brings the records in line with it, hands the news on and ends
 * what has to end. Nothing polls: launchers append to files of one watched directory. A launcher that was killed says
 * nothing; the sweep finds those.
 *
 *   created ──launched──▶ running ──settle──▶ ended        Invariant: a record says `end` after the container's last process
 *                            │  ▲                          is gone and its last line is in the log, never before.
 *                            └──┘ find: its processes
 */
import { mkdirSync, readFileSync, rmSync, watch, type FSWatcher } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { NoSuchContainerError } from '../runtime.ts';
import type { Changes } from './changes.ts';
import { Records, type ContainerRecord, type ContainerRun, type PodRecord } from './container-records.ts';
import { endOf } from './container-translation.ts';
import { ranOutOfMemory, removeGroup, sweepGroups, type ControlGroups } from './control-groups.ts';
import { killEvery, signalProcess } from './kill.ts';
import { initOf } from './launch.ts';
import type { LogPumps } from './log-pump.ts';
import { isAlive, oldestChild, processNamed, processesOfMountNamespace, type ProcessName } from './process-table.ts';
import { readStatus } from './status-file.ts';

export interface ContainerLivesDeps {
  readonly clock: Clock;
  readonly groups: ControlGroups;
  readonly logs: LogPumps;
  readonly changes: Changes;
  readonly pods: { get(uid: string): PodRecord | undefined };
}

/** A killed process is gone after about that long, unless it is stuck in the kernel. */
const dyingMs = 5;

export class ContainerLives {
  readonly #directory: string;
  readonly #sweepMs: number;
  readonly #deps: ContainerLivesDeps;
  readonly #records: Records<ContainerRecord>;
  readonly #waiters = new Map<string, Set<() => void>>();
  readonly #settling = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #watcher: FSWatcher | undefined;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(directory: string, sweepMs: number, deps: ContainerLivesDeps) {
    this.#directory = directory;
    this.#sweepMs = sweepMs;
    this.#deps = deps;
    this.#records = new Records(join(directory, 'containers'));
  }

  async open(): Promise<void> {
    for (const name of ['status', 'run']) mkdirSync(join(this.#directory, name), { recursive: true, mode: 0o700 });
    this.#records.load();
    this.#watcher = watch(join(this.#directory, 'status'), (_, name) => {
      if (name !== null) void this.look(name);
    });
    this.#watcher.on('error', () => {}); // the sweep looks too
    this.#watcher.unref();
    for (const { id, logPath, run, end } of this.#records.all()) {
      if (run !== undefined && end === undefined) this.#deps.logs.add(id, logPath);
      await this.look(id);
    }
    this.#sweepGroups();
    this.#sweeping = this.#sweep();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#watcher?.close();
    await this.#sweeping;
    await Promise.all(this.#settling.values());
    this.#sweepGroups();
  }

  get(id: string): ContainerRecord | undefined {
    return this.#records.get(id);
  }

  known(id: string): ContainerRecord {
    const record = this.#records.get(id);
    if (record === undefined) throw new NoSuchContainerError(id);
    return record;
  }

  put(record: ContainerRecord): void {
    this.#records.put(record.id, record);
  }

  /** Newest first. */
  of(podUid: string): ContainerRecord[] {
    return this.#records
      .all()
      .filter((record) => record.podUid === podUid)
      .toSorted((a, b) => b.createdAtMs - a.createdAtMs || b.attempt - a.attempt);
  }

  /** Of a container that is not running. */
  forget(id: string): void {
    removeGroup(this.#deps.groups, id);
    rmSync(this.runDirectory(id), { recursive: true, force: true });
    rmSync(this.statusPath(id), { force: true });
    this.#records.delete(id);
  }

  launched(id: string, supervisor: ProcessName, startedAtMs: number): void {
    const record = this.known(id);
    this.put({ ...record, run: { startedAtMs, supervisor } });
    this.#deps.logs.add(id, record.logPath);
  }

  async lookAt(podUid: string): Promise<void> {
    await Promise.all(this.of(podUid).map(({ id }) => this.look(id)));
  }

  /** Brings the record in line with what the launcher wrote; tells whoever waits. */
  async look(id: string): Promise<void> {
    const record = this.#records.get(id);
    if (record === undefined || record.end !== undefined) return;
    const status = readStatus(this.statusPath(id));
    if (record.run === undefined) {
      if (status.supervisorPid !== undefined) await this.#adopt(record, status.supervisorPid);
      return;
    }
    if (status.started) this.find(id);
    // Its command is over, but others of a shared pid namespace may still hold its output.
    if ((status.code !== undefined || status.failure !== undefined) && !status.ended) this.#killStrays(id);
    if (status.ended || !isAlive(record.run.supervisor)) {
      const settling = this.#settling.get(id) ?? this.#settle(id).finally(() => this.#settling.delete(id));
      this.#settling.set(id, settling);
      await settling;
    }
    for (const wake of this.#waiters.get(id) ?? []) wake();
  }

  /** Started by a program that was killed before it could note it down. In this program `launched` comes first. */
  async #adopt(record: ContainerRecord, supervisorPid: number): Promise<void> {
    const supervisor = processNamed(supervisorPid);
    if (supervisor === undefined || !commandLine(supervisorPid).includes('mountlet-supervise')) return;
    this.launched(record.id, supervisor, record.createdAtMs);
    await this.look(record.id);
  }

  async #settle(id: string): Promise<void> {
    this.killAll(id);
    // Usually gone already; where the launcher was killed, its container dies now.
    const init = this.#records.get(id)?.run?.init;
    const isDying = (): boolean => init !== undefined && isAlive(init) && !this.#closing.signal.aborted;
    while (isDying()) await this.#deps.clock.sleep(dyingMs);
    await this.#deps.logs.finish(id);
    const record = this.#records.get(id);
    if (record?.run === undefined) return;
    // Read again: the last lines may have come between the look and the death.
    const status = readStatus(this.statusPath(id));
    const outOfMemory = ranOutOfMemory(this.#deps.groups, id);
    const end = endOf(status, outOfMemory, launchTrouble(this.runDirectory(id)), this.#deps.clock.now());
    this.put({ ...record, end });
    removeGroup(this.#deps.groups, id);
    this.#deps.changes.tell(record.podUid);
  }

  /** The processes of a running container, noted down when they are first seen. */
  find(id: string): ContainerRun | undefined {
    const record = this.#records.get(id);
    const pod = record === undefined ? undefined : this.#deps.pods.get(record.podUid);
    if (record?.run === undefined || pod === undefined || record.end !== undefined) return record?.run;
    if (record.run.main !== undefined) return record.run;
    const { buildPid, started } = readStatus(this.statusPath(id));
    const init = buildPid === undefined || !started ? undefined : initOf(buildPid, pod);
    const main = init === undefined ? undefined : oldestChild(init.pid);
    if (init === undefined || main === undefined) return record.run; // it just ended
    const run: ContainerRun = { ...record.run, init, main };
    this.put({ ...record, run });
    this.#deps.changes.tell(record.podUid);
    return run;
  }

  /** The first process takes its pid namespace with it; where that is shared, all that have the mount namespace go. */
  killAll(id: string): void {
    const run = this.find(id);
    if (run === undefined) return;
    if (run.init !== undefined) signalProcess(run.init, 'SIGKILL');
    const { buildPid } = readStatus(this.statusPath(id));
    const build = run.init === undefined && buildPid !== undefined ? processNamed(buildPid) : undefined;
    if (build !== undefined && isAlive(run.supervisor)) signalProcess(build, 'SIGKILL'); // it hangs before its command
    this.#killStrays(id);
  }

  #killStrays(id: string): void {
    const { mountNamespace } = readStatus(this.statusPath(id));
    if (mountNamespace === undefined) return;
    killEvery(() => processesOfMountNamespace(mountNamespace));
  }

  /** Asks again after every look at the container. */
  async until(id: string, isSo: () => boolean, signal: AbortSignal): Promise<void> {
    while (!isSo()) {
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const waiters = this.#waiters.get(id) ?? new Set();
        this.#waiters.set(id, waiters);
        const leave = (): void => {
          waiters.delete(wake);
          if (waiters.size === 0) this.#waiters.delete(id);
          signal.removeEventListener('abort', abort);
        };
        const abort = (): void => {
          leave();
          reject(signal.reason);
        };
        const wake = (): void => {
          leave();
          resolve();
        };
        waiters.add(wake);
        signal.addEventListener('abort', abort, { once: true });
      });
    }
  }

  isOver(id: string): boolean {
    const record = this.#records.get(id);
    return record?.run === undefined || record.end !== undefined;
  }

  statusPath(id: string): string {
    return join(this.#directory, 'status', id);
  }

  runDirectory(id: string): string {
    return join(this.#directory, 'run', id);
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await this.#deps.clock.sleep(this.#sweepMs, signal);
      } catch {
        return; // closed
      }
      for (const { id } of this.#records.all()) {
        await this.#deps.logs.drain(id);
        await this.look(id);
      }
      this.#sweepGroups();
    }
  }

  /** A group cannot be removed while a process in it is dying: those that were left are tried again. */
  #sweepGroups(): void {
    sweepGroups(this.#deps.groups, (id) => this.#records.get(id) !== undefined);
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/** What the launcher complained of before it gave up. */
function launchTrouble(directory: string): string {
  try {
    return readFileSync(join(directory, 'launch.log'), 'utf8').slice(-500).trim();
  } catch {
    return '';
  }
}
