import assert from 'node:assert/strict';
import { test } from 'node:test';
import { put, valueOf } from '../../testing/servers/stores.ts';
import type { Journal, JournalCommit } from './journal.ts';
import { storeDefaults } from './durable-store.ts';
import { StoreBusyError, commitFailed } from './store-errors.ts';
import { VersionedStore } from './versioned-store.ts';

/** A disk that does what the test says, when the test says so. */
class ScriptedJournal implements Journal {
  readonly commits: JournalCommit[] = [];
  #settle: ((error?: Error) => void) | undefined;
  #arrived: (() => void) | undefined;
  revision = 0;

  commit(commit: JournalCommit): Promise<void> {
    this.commits.push(commit);
    return new Promise((resolve, reject) => {
      this.#settle = (error) => {
        if (error === undefined) {
          this.revision = commit.revision;
          resolve();
        } else reject(error);
      };
      this.#arrived?.();
    });
  }

  /** Waits for the next commit to arrive and ends it. */
  async next(error?: Error): Promise<void> {
    if (this.#settle === undefined) await new Promise<void>((resolve) => (this.#arrived = resolve));
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(error);
  }

  revisionOnDisk(): number {
    return this.revision;
  }

  reseal(): Promise<number> {
    return Promise.resolve(0);
  }

  backup(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function newStore(limits = storeDefaults): { store: VersionedStore; disk: ScriptedJournal } {
  const disk = new ScriptedJournal();
  const empty = {
    revision: 0,
    compactedRevision: 0,
    objects: [],
    changes: [],
    damaged: [],
  };
  return { disk, store: new VersionedStore(disk, empty, { limits, now: () => 0 }) };
}

test('updates that come together are one commit; those that come meanwhile are the next', async () => {
  const { store, disk } = newStore();
  const first = [put(store, '/a/1', 'x'), put(store, '/a/2', 'x'), put(store, '/a/1', 'y')];
  const firstDone = disk.next();
  await new Promise((resolve) => setImmediate(resolve));
  const second = Array.from({ length: 10 }, (_, i) => put(store, `/b/${i}`, 'x'));
  await firstDone;
  await Promise.all(first);
  assert.equal(store.revision, 3);
  assert.equal(store.list({ prefix: '/b/' }).items.length, 0);
  await disk.next();
  await Promise.all(second);
  assert.deepEqual(
    disk.commits.map(({ changes }) => changes.length),
    [3, 10],
  );
  assert.deepEqual(
    disk.commits[0]?.changes.map(({ value }) => value),
    [valueOf('x', 1), valueOf('x', 2), valueOf('y', 3)],
  );
});

test('until a commit is on disk nobody sees or hears of it', async () => {
  const { store, disk } = newStore();
  let heard = 0;
  store.subscribe((changes) => (heard += changes.length));
  const written = put(store, '/a/1', 'x');
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(disk.commits.length, 1, 'it is under way');
  assert.deepEqual([store.get('/a/1'), store.revision, store.changesAfter(0, '/').length, heard], [undefined, 0, 0, 0]);
  await disk.next();
  await written;
  assert.deepEqual(
    [store.get('/a/1')?.revision, store.revision, store.changesAfter(0, '/').length, heard],
    [1, 1, 1, 1],
  );
});

test('a commit that fails takes all with it that was decided on top of it, and leaves what was before', async () => {
  const { store, disk } = newStore();
  const kept = put(store, '/a/1', 'kept');
  await disk.next();
  await kept;
  let heard = 0;
  store.subscribe(() => (heard += 1));
  const failed = [put(store, '/a/1', 'lost'), put(store, '/a/2', 'lost')];
  await new Promise((resolve) => setImmediate(resolve));
  const behind = [
    put(store, '/a/3', 'decided after the lost ones'),
    store.update('/a/1', (current) => ({ kind: 'keep', result: current?.value })),
  ];
  await disk.next(commitFailed('the disk is full'));
  for (const update of [...failed, ...behind]) await assert.rejects(update, { reason: 'CommitFailed' });
  assert.equal(store.get('/a/1')?.value, valueOf('kept', 1));
  assert.deepEqual([store.revision, store.list({ prefix: '/a/' }).items.length, heard], [1, 1, 0]);

  const next = store.update('/a/1', (current, revision) => ({
    kind: 'put',
    value: valueOf('next', revision),
    result: [current?.value, revision],
  }));
  await disk.next();
  assert.deepEqual(await next, [valueOf('kept', 1), 2], 'a later write finds what is on disk, and the next revision');
});

test('an answer about a write that is not on disk waits for it; one about what is does not', async () => {
  const { store, disk } = newStore();
  const look = (key: string): Promise<string | undefined> =>
    store.update(key, (current) => ({ kind: 'keep', result: current?.value }));
  const written = put(store, '/a/1', 'x');
  let isAnswered = false;
  const answer = look('/a/1').then((value) => {
    isAnswered = true;
    return value;
  });
  assert.equal(await look('/a/2'), undefined);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isAnswered, false);
  await disk.next();
  assert.equal(await answer, valueOf('x', 1));
  await written;
});

test('when it is unknown what a failed commit left on disk, nothing is written any more and reads go on', async () => {
  const { store, disk } = newStore();
  const kept = put(store, '/a/1', 'kept');
  await disk.next();
  await kept;
  const lost = put(store, '/a/1', 'lost');
  disk.revision = 2;
  await disk.next(commitFailed('the sync failed'));
  await assert.rejects(lost, { reason: 'StoreStopped' });
  await assert.rejects(put(store, '/a/2', 'x'), { reason: 'StoreStopped' });
  assert.equal(store.get('/a/1')?.value, valueOf('kept', 1));
});

test('updates that wait for the disk are bounded, and so is what one commit writes', async () => {
  const { store, disk } = newStore({ ...storeDefaults, waitingMax: 1_500 });
  const updates = Array.from({ length: 1_500 }, (_, i) => put(store, `/a/${i}`, 'x'));
  await assert.rejects(put(store, '/a/more', 'x'), StoreBusyError);
  await disk.next();
  await disk.next();
  await Promise.all(updates);
  assert.deepEqual(
    disk.commits.map(({ changes }) => changes.length),
    [1_000, 500],
  );
});

test('an update from within a decision is a bug and is told so', async () => {
  const { store } = newStore();
  let inner: Promise<unknown> = Promise.resolve();
  await store.update('/a/1', () => {
    inner = put(store, '/a/2', 'x');
    return { kind: 'keep', result: undefined };
  });
  await assert.rejects(inner, /within a decision/);
});
