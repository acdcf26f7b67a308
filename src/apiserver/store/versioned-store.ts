/**
 * The store in memory, with group commit. Three states of the same keys:
 *
 *   on disk ⊆ committed     what readers see: published at once when a commit is on disk
 *             committed + undurable = newest     what `decide` sees, in the order of the calls
 *
 *   update ─▶ decide on the newest ─▶ queue ─▶ commit (one at a time, all that is queued) ─▶ publish ─▶ listeners, answers
 *                                      └──────────── fails: all that is undurable goes, its updates reject
 *
 * Nothing here knows files; the journal does. Nothing here parses a value.
 */
import { ChangeLog, type ChangeLogLimits, type LoggedChange } from './change-log.ts';
import type { Journal, JournalContent } from './journal.ts';
import { ObjectTree } from './object-tree.ts';
import {
  DiskFullError,
  StoreBusyError,
  StoreClosedError,
  StoreFullError,
  damagedValue,
  invalidKey,
  storeStopped,
} from './store-errors.ts';
import type { Change, DamagedValue, Decision, ListRequest, ListResult, Store, StoredObject } from './store.ts';

export interface StoreLimits extends ChangeLogLimits {
  /** Of all keys and values together; they are in memory. */
  readonly objectBytesMax: number;
  /** Updates that wait for the disk. */
  readonly waitingMax: number;
}

export interface StoreOptions {
  readonly now: () => number;
  readonly limits: StoreLimits;
}

/** Twice as many changes go with a commit as come, so that the log always gets back to its bounds; and a few more. */
const cutExtra = 64;
/** Two names of 253 bytes and a group leave half of this. */
const keyBytesMax = 1_024;

export class VersionedStore implements Store {
  readonly #journal: Journal;
  readonly #options: StoreOptions;
  readonly #committed: ObjectTree;
  readonly #log: ChangeLog;
  readonly #damaged: Map<string, string>;
  readonly #undurable = new Map<string, LoggedChange>();
  readonly #listeners = new Set<(changes: readonly Change[]) => void>();
  readonly #queue: CommitQueue;
  #revision: number;
  #newestRevision: number;
  #newestBytes: number;
  #isDeciding = false;
  #refusal: Error | undefined;
  readonly damaged: readonly DamagedValue[];

  constructor(journal: Journal, content: JournalContent, options: StoreOptions) {
    this.#journal = journal;
    this.#options = options;
    this.#committed = new ObjectTree(content.objects);
    this.#log = new ChangeLog(options.limits, content.compactedRevision, content.changes);
    this.damaged = content.damaged;
    this.#damaged = new Map(content.damaged.map(({ key, reason }) => [key, reason]));
    this.#revision = content.revision;
    this.#newestRevision = content.revision;
    this.#newestBytes = this.#committed.bytes;
    this.#queue = new CommitQueue({
      commit: (group) => this.#commit(group),
      rollBack: (error) => this.#rollBack(error),
    });
  }

  get revision(): number {
    return this.#revision;
  }

  get compactedRevision(): number {
    return this.#log.compactedRevision;
  }

  get(key: string): StoredObject | undefined {
    this.#checkWhole(key);
    return this.#committed.get(key);
  }

  underway(prefix: string): readonly LoggedChange[] {
    return [...this.#undurable.values()].filter(({ key }) => key.startsWith(prefix));
  }

  list(request: ListRequest): ListResult {
    for (const [key, reason] of this.#damaged) {
      if (request.leavesOutDamaged !== true && key.startsWith(request.prefix)) throw damagedValue(key, reason);
    }
    return this.#committed.list(request, this.#revision, this.#log);
  }

  changesAfter(revision: number, prefix: string): readonly Change[] {
    return this.#log.after(revision).filter(({ key }) => key.startsWith(prefix));
  }

  subscribe(listener: (changes: readonly Change[]) => void): () => void {
    // One of its own for each call: the same function may be given twice, and stopped once.
    const own = (changes: readonly Change[]): void => listener(changes);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /** Of a key that nothing can be stored under, nothing is stored; who decides knows best what is wrong with the name. */
  async update<R>(
    key: string,
    decide: (current: StoredObject | undefined, revision: number) => Decision<R>,
  ): Promise<R> {
    this.#checkUpdate(key);
    const pending = this.#undurable.get(key);
    const current = pending === undefined ? this.#committed.get(key) : objectAfter(pending);
    const revision = this.#newestRevision + 1;
    let decision: Decision<R>;
    try {
      decision = this.#decide(decide, current, revision);
    } catch (refusal) {
      if (pending !== undefined) await this.#queue.add({ change: undefined });
      throw refusal;
    }
    if (decision.kind === 'keep' || (decision.kind === 'delete' && current === undefined)) {
      // What was decided on may still fail to reach the disk, and then this answer would be about nothing.
      if (pending !== undefined) await this.#queue.add({ change: undefined });
      return decision.result;
    }
    checkKey(key);
    const change: LoggedChange = {
      type: decision.kind,
      key,
      revision,
      value: decision.value,
      previous: current?.value,
      previousRevision: current?.revision ?? 0,
      time: this.#options.now(),
    };
    if (decision.kind === 'put' && decision.ending !== true && this.#isFull()) throw new DiskFullError();
    this.#account(change, current);
    this.#newestRevision = revision;
    this.#undurable.set(key, change);
    await this.#queue.add({ change });
    return decision.result;
  }

  /**
   * Encrypts again what is on disk in clear or with an old encryption key. No revision changes. Resolves to the number of
   * objects that it concerned, with those that only the change log has; after that the old keys are not needed any more.
   */
  reseal(): Promise<number> {
    return this.#refusal === undefined ? this.#journal.reseal() : Promise.reject(this.#refusal);
  }

  backup(file: string): Promise<void> {
    return this.#journal.backup(file);
  }

  async close(): Promise<void> {
    this.#refusal ??= new StoreClosedError();
    await this.#queue.emptied();
    await this.#journal.close();
  }

  #checkWhole(key: string): void {
    const damage = this.#damaged.get(key);
    if (damage !== undefined) throw damagedValue(key, damage);
  }

  #checkUpdate(key: string): void {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (this.#isDeciding) throw new Error('update was called from within a decision');
    if (this.#queue.length >= this.#options.limits.waitingMax) throw new StoreBusyError(this.#queue.length);
    this.#checkWhole(key);
  }

  #decide<R>(
    decide: (current: StoredObject | undefined, revision: number) => Decision<R>,
    current: StoredObject | undefined,
    revision: number,
  ): Decision<R> {
    this.#isDeciding = true;
    try {
      return decide(current, revision);
    } finally {
      this.#isDeciding = false;
    }
  }

  /** A write that makes things smaller is always taken: it is the way out of a full store. */
  #account(change: LoggedChange, current: StoredObject | undefined): void {
    const before = current === undefined ? 0 : current.key.length + current.value.length;
    const after = change.type === 'delete' ? 0 : change.key.length + change.value.length;
    const { objectBytesMax } = this.#options.limits;
    if (after > before && this.#newestBytes + after - before > objectBytesMax) {
      throw new StoreFullError(change.key, objectBytesMax);
    }
    this.#newestBytes += after - before;
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const changes = group.flatMap(({ change }) => change ?? []);
    if (changes.length === 0) return;
    const compactedRevision = this.#log.cutFor(changes, this.#options.now(), cutExtra + 2 * changes.length);
    const commit = { revision: changes.at(-1)?.revision ?? this.#revision, compactedRevision, changes };
    try {
      await this.#journal.commit(commit);
    } catch (thrown) {
      if (!(thrown instanceof DiskFullError)) throw thrown;
      // Now that the disk is known to be full, less is written.
      await this.#journal.commit(commit);
    }
    this.#publish(changes, compactedRevision);
  }

  #isFull(): boolean {
    return this.#journal.isFull?.() ?? false;
  }

  #publish(changes: readonly LoggedChange[], compactedRevision: number): void {
    for (const change of changes) {
      const object = objectAfter(change);
      if (object === undefined) this.#committed.delete(change.key);
      else this.#committed.set(object);
      if (this.#undurable.get(change.key) === change) this.#undurable.delete(change.key);
      this.#revision = change.revision;
    }
    this.#log.append(changes);
    this.#log.cut(compactedRevision);
    if (changes.length > 0) for (const listener of this.#listeners) publishTo(listener, changes);
  }

  /** To what is on disk; where that cannot be known any more, nothing more is written. */
  #rollBack(error: unknown): unknown {
    this.#undurable.clear();
    this.#newestRevision = this.#revision;
    this.#newestBytes = this.#committed.bytes;
    if (this.#isOnDisk(this.#revision)) return error;
    const reason = storeStopped({ cause: error });
    this.#refusal ??= reason;
    return reason;
  }

  #isOnDisk(revision: number): boolean {
    try {
      return this.#journal.revisionOnDisk() === revision;
    } catch {
      return false;
    }
  }
}

function objectAfter({ type, key, value, revision }: LoggedChange): StoredObject | undefined {
  return type === 'delete' ? undefined : { key, value, revision };
}

/** A listener that throws is a bug in it: it ends the process, but not in the middle of publishing. */
function publishTo(listener: (changes: readonly Change[]) => void, changes: readonly Change[]): void {
  try {
    listener(changes);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** One update on its way to the disk. */
interface Waiting {
  /** Undefined when nothing is written and only the state that was decided on must be durable. */
  readonly change: LoggedChange | undefined;
}

interface CommitQueueDeps {
  /** Resolves when the group is on disk and published. */
  commit(group: readonly Waiting[]): Promise<void>;
  /** A commit has failed: undoes all that is not on disk, and answers why, for all who wait. */
  rollBack(error: unknown): unknown;
}

interface Entry {
  readonly waiting: Waiting;
  done(): void;
  failed(error: unknown): void;
}

/** An ordinary write takes some 5 µs to encode and hand over: a commit holds up the event loop for a few milliseconds. */
const commitUpdatesMax = 1_000;
const commitBytesMax = 8 * 1024 * 1024;

/** Updates that wait for the disk: one commit at a time, each of all that came while the last was under way. */
class CommitQueue {
  readonly #deps: CommitQueueDeps;
  #entries: Entry[] = [];
  #committing: Promise<void> | undefined;

  constructor(deps: CommitQueueDeps) {
    this.#deps = deps;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** Resolves when it is on disk. */
  add(waiting: Waiting): Promise<void> {
    return new Promise((done, failed) => {
      this.#entries.push({ waiting, done, failed });
      this.#committing ??= this.#commitAll();
    });
  }

  /** Resolves when nothing waits any more. */
  async emptied(): Promise<void> {
    while (this.#committing !== undefined) await this.#committing;
  }

  /** One turn of the event loop before each commit gathers the requests that came in together. */
  async #commitAll(): Promise<void> {
    while (this.#entries.length > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      const group = this.#takeGroup();
      try {
        await this.#deps.commit(group.map(({ waiting }) => waiting));
      } catch (error) {
        // Updates behind the failed ones were decided on top of them, so they go too.
        const failed = [...group, ...this.#entries];
        this.#entries = [];
        const reason = this.#deps.rollBack(error);
        for (const entry of failed) entry.failed(reason);
        continue;
      }
      for (const entry of group) entry.done();
    }
    this.#committing = undefined;
  }

  #takeGroup(): Entry[] {
    let bytes = 0;
    let count = 0;
    for (const { waiting } of this.#entries) {
      if (count >= commitUpdatesMax || bytes > commitBytesMax) break;
      bytes += waiting.change?.value.length ?? 0;
      count += 1;
    }
    return this.#entries.splice(0, count);
  }
}

function checkKey(key: string): void {
  if (!key.startsWith('/') || key.endsWith('/')) throw invalidKey(key, 'it must begin, and not end, with "/"');
  if (Buffer.byteLength(key) > keyBytesMax) throw invalidKey(key, `it is longer than ${keyBytesMax} bytes`);
}
