/**
 * The life of a runtime's containers, from their records and from what the spawner reports.
 *
 *   created ──launching──▶ launching ──running──▶ running ──settle──▶ ended     Invariant: a record says `end` after the
 *                              └────────────────settle──────────────────▲        container's last process is gone and its
 *                                                                                last line is in the log.
 */
import { constants } from 'node:os';
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import {
  type ProcessName,
  isAlive,
  processNamed,
  processesOfContainer,
  signalProcess,
} from '../../linux/process-table.ts';
import { NoSuchContainerError, RuntimeError } from '../runtime.ts';
import { type ContainerEnd, type ContainerRecord, Records } from './container-records.ts';
import { endOf } from './container-translation.ts';
import { type ControlGroups, listingFiles, ranOutOfMemory, removeGroup, sweepGroups } from './control-groups.ts';
import type { SpawnerClient } from './spawner/spawner-client.ts';
import type { ChildEndRecord, ChildFacts } from './spawner/spawner-protocol.ts';

/** A container that was killed and is still there may have been stuck in the kernel, or have forked: it is killed again. */
const killAgainMs = 1_000;
const lostMessage = 'the process that runs containers was killed, and with it the container: its exit code is unknown';
const { SIGKILL, SIGTERM } = constants.signals;

interface ContainersDeps {
  readonly clock: Clock;
  readonly groups: ControlGroups;
  readonly spawner: SpawnerClient;
  /** Aborts when the runtime closes. */
  readonly closing: AbortSignal;
  /** A container of this pod has started or ended. */
  readonly changed: (podUid: string) => void;
  readonly ended: (id: string) => void;
  /** The process that held what a pod's containers share, where the spawner no longer runs it. */
  readonly lostHolder: (podUid: string) => ProcessName | undefined;
}

export class Containers {
  readonly #records: Records<ContainerRecord>;
  readonly #deps: ContainersDeps;
  readonly #launching = new Set<string>();
  readonly #waiters = new Map<string, Set<() => void>>();
  #losing: Promise<unknown> = Promise.resolve();

  constructor(directory: string, deps: ContainersDeps) {
    this.#records = new Records(directory);
    this.#deps = deps;
  }

  load(): void {
    this.#records.load();
  }

  get(id: string): ContainerRecord | undefined {
    return this.#records.get(id);
  }

  /** Throws when it was removed. */
  known(id: string): ContainerRecord {
    const record = this.#records.get(id);
    if (record === undefined) throw new NoSuchContainerError(id);
    return record;
  }

  all(): readonly ContainerRecord[] {
    return this.#records.all();
  }

  /** Newest first. */
  ofPod(podUid: string): ContainerRecord[] {
    return this.#records
      .all()
      .filter((record) => record.podUid === podUid)
      .toSorted((a, b) => b.createdAtMs - a.createdAtMs || b.attempt - a.attempt);
  }

  /** Not started, or ended. */
  isOver(id: string): boolean {
    const record = this.#records.get(id);
    return record?.run === undefined || record.end !== undefined;
  }

  created(record: ContainerRecord): void {
    this.#records.note(record.id, record);
  }

  /** Until `launched`, reports of the spawner do not settle it: the launch does. */
  launching(record: ContainerRecord): void {
    this.#launching.add(record.id);
    this.#records.note(record.id, { ...record, run: { startedAtMs: this.#deps.clock.now() } });
  }

  launched(id: string): void {
    this.#launching.delete(id);
  }

  running(id: string, pid: number, startedAtMs: number): void {
    const record = this.#records.get(id);
    if (record === undefined || record.end !== undefined || record.run?.main?.pid === pid) return;
    const main = processNamed(pid);
    const run = { startedAtMs, ...(main && { main }) };
    this.#records.keep(id, { ...record, run: { ...record.run, ...run } });
    this.#deps.changed(record.podUid);
  }

  /** The spawner reports an end. */
  reported({ id, end }: ChildFacts): void {
    if (end !== undefined && !this.#launching.has(id)) void this.settle(id, this.#endOf(id, end));
  }

  async settle(id: string, end: ContainerEnd): Promise<void> {
    const record = this.#records.get(id);
    let isKept = true;
    if (record !== undefined && record.end === undefined) {
      isKept = this.#records.keep(id, { ...record, end });
      this.#deps.ended(id);
      removeGroup(this.#deps.groups, id);
      this.#deps.changed(record.podUid);
      for (const wake of this.#waiters.get(id) ?? []) wake();
    }
    if (isKept) await this.#deps.spawner.forget(id).catch(() => {}); // else the next start learns it from the spawner again
  }

  /** Takes up what an earlier program left: `ends` are those that the spawner recorded before it ended itself. */
  async takeUp(ends: ReadonlyMap<string, ChildEndRecord>): Promise<void> {
    for (const { id, run, end } of this.#records.all()) {
      if (end !== undefined) continue;
      const facts = this.#deps.spawner.get(id);
      const ended = facts?.end ?? ends.get(id);
      if (ended !== undefined) await this.settle(id, this.#endOf(id, ended));
      else if (facts?.pid !== undefined) this.running(id, facts.pid, facts.startedAtMs);
      else if (run !== undefined) this.#lose([id]);
    }
  }

  async stop(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    const record = this.#records.get(id);
    if (record === undefined) return;
    const { spawner } = this.#deps;
    if (!this.isOver(id) && graceMs > 0 && !this.#launching.has(id)) {
      await spawner.signal(id, constants.signals[record.stopSignal as NodeJS.Signals] ?? SIGTERM);
      await this.#untilOver(id, graceMs, signal);
    }
    while (!this.isOver(id)) {
      await spawner.signal(id, SIGKILL);
      await this.#untilOver(id, killAgainMs, signal);
    }
  }

  remove(id: string): void {
    const record = this.#records.get(id);
    if (record === undefined) return;
    if (!this.isOver(id)) throw new RuntimeError(`Cannot remove container "${record.name}": it is running`);
    this.#deps.ended(id);
    removeGroup(this.#deps.groups, id);
    this.#records.delete(id);
  }

  /** The spawner was killed: its containers have lost their output and the process that would learn their exit codes. */
  loseAll(): void {
    const running = this.#records.all().filter(({ run, end }) => run !== undefined && end === undefined);
    this.#lose(running.flatMap(({ id }) => (this.#launching.has(id) ? [] : id)));
  }

  /** Resolves when the processes of lost containers are gone, or the runtime closes. */
  async lost(): Promise<void> {
    await this.#losing;
  }

  /**
   * In place of a spawner: kills the container's processes, again and again, until none is left or the runtime closes.
   * A control group no longer lists a process that has begun to end. The first process of a pid namespace is gone only after
   * all others in it: of the container, its main process or the holder of its pod.
   */
  async killLeft(id: string): Promise<void> {
    const { clock, closing, groups, lostHolder } = this.#deps;
    const holder = lostHolder(this.#records.get(id)?.podUid ?? '');
    const seen = new Map<number, ProcessName>();
    const backOff = new BackOff({ firstMs: 1, msMax: killAgainMs });
    while (!closing.aborted) {
      const { main } = this.#records.get(id)?.run ?? {};
      const listed = processesOfContainer(listingFiles(groups, id), undefined);
      for (const name of [...listed, main, holder]) if (name !== undefined) seen.set(name.pid, name);
      const left = [...seen.values()].filter(isAlive);
      if (left.length === 0) return;
      for (const name of left) signalProcess(name, 'SIGKILL');
      await clock.sleep(backOff.next(), closing).catch(() => {});
    }
  }

  /** A group cannot be removed while a process in it is dying: those that were left are tried again. */
  sweepGroups(): void {
    sweepGroups(this.#deps.groups, (id) => this.#records.get(id) !== undefined);
  }

  #lose(ids: readonly string[]): void {
    this.#losing = Promise.all([this.#losing, ...ids.map((id) => this.#loseOne(id))]);
  }

  async #loseOne(id: string): Promise<void> {
    await this.killLeft(id);
    if (this.#deps.closing.aborted) return; // the next start looks again
    const finishedAtMs = this.#deps.clock.now();
    await this.settle(id, { finishedAtMs, exitCode: 128 + SIGKILL, reason: 'Error', message: lostMessage });
  }

  /** Until it is over or the time is; rejects when the signal aborts. */
  async #untilOver(id: string, ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.isOver(id)) return;
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

  #endOf(id: string, end: ChildEndRecord): ContainerEnd {
    return endOf(end, ranOutOfMemory(this.#deps.groups, id));
  }
}
