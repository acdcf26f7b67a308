/** Directories and file systems as pods can make them: large, or of a server that does not answer. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { foreignMeasure } from '../agent/node/node-stats.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import { loadSystemCalls } from '../linux/system-calls.ts';
import { FakeClock, ObservedClock } from '../testing/fakes/fake-clock.ts';
import { directoryForMounts, needsMounts, temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { DirectoryUsage, fileSystemAt } from './directory-usage.ts';

const { signal } = new AbortController();
const asRoot = {
  skip: needsMounts(systemMounts()) || (existsSync('/dev/fuse') ? false : 'needs FUSE in the kernel'),
};

/** Mounts a file system whose server never answers: calls on it wait until the server, a descriptor, is closed. */
function mountHanging(path: string): number {
  mkdirSync(path);
  const server = openSync('/dev/fuse', 'r+');
  const data = `fd=${server},rootmode=40000,user_id=0,group_id=0`;
  loadSystemCalls().mount({ source: 'away', target: path, fileSystem: 'fuse', flags: 0, data });
  return server;
}

test('servers that are away hold up neither the figures of other disks nor files of the agent', asRoot, async (t) => {
  const servers: number[] = [];
  // Before the directory is removed.
  t.after(() => servers.forEach(closeSync));
  const root = directoryForMounts(t);
  const clock = new ObservedClock();
  const directories = new DirectoryUsage(clock, 60_000, foreignMeasure());
  const [reachable = '', ...away] = ['reachable', 'a', 'b', 'c', 'd', 'e'].map((name) => join(root, name));
  mkdirSync(reachable);
  assert.ok((await directories.foreignFileSystem(reachable))?.capacityBytes);
  await clock.nextSleep();
  for (const path of away) servers.push(mountHanging(path));
  const unknown = away.map(() => undefined);
  // Real time has a limit too, which a busy machine may come to first.
  const asked = Promise.all(away.map((path) => directories.foreignFileSystem(path).catch(() => undefined)));
  for (const _ of away) await clock.nextSleep();
  // There are more of them than the program has threads for files.
  assert.equal((await directories.tree(reachable, signal)).inodesUsed, 1);
  await clock.advance(5_000);
  assert.deepEqual(await asked, unknown);
  await clock.advance(60_000);
  const again = await Promise.all(away.map((path) => directories.foreignFileSystem(path)));
  assert.deepEqual(again, unknown);
  assert.ok((await directories.foreignFileSystem(reachable))?.capacityBytes, 'what was known of it');
  await directories.close();
});

test('of servers that failed no answer is waited for again, as long as somebody asks', async () => {
  const clock = new FakeClock();
  let answer = (): Promise<never> => Promise.reject(new Error('away'));
  const directories = new DirectoryUsage(clock, 60_000, () => answer());
  const servers = ['a', 'b'];
  for (const path of servers) await assert.rejects(directories.foreignFileSystem(path), /away/);
  await clock.advance(60_000);
  answer = () => new Promise(() => {});
  const again = await Promise.all(servers.map((path) => directories.foreignFileSystem(path)));
  assert.deepEqual(again, [undefined, undefined]);
});

test('of a directory with more files than can be counted in time, those counted are known', async (t) => {
  const root = temporaryDirectory(t);
  for (let number = 0; number < 600; number += 1) writeFileSync(join(root, `f${number}`), '');
  /** Every look at it takes a second. */
  class SlowClock extends FakeClock {
    #looks = 0;
    override now(): number {
      this.#looks += 1;
      return super.now() + this.#looks * 1_000;
    }
  }
  const { inodesUsed } = await new DirectoryUsage(new SlowClock(), 60_000, fileSystemAt).tree(root, signal);
  assert.ok(inodesUsed > 10 && inodesUsed < 100, String(inodesUsed));
});

test('an answer does not wait for a walk for ever, and has what was counted so far', async (t) => {
  const root = temporaryDirectory(t);
  for (let number = 0; number < 3_000; number += 1) writeFileSync(join(root, `f${number}`), '');
  const clock = new ObservedClock();
  const directories = new DirectoryUsage(clock, 60_000, fileSystemAt);
  const asked = directories.tree(root, signal);
  await clock.nextSleep();
  await clock.advance(5_000);
  assert.ok((await asked).inodesUsed < 3_001);
  const again = directories.tree(root, signal);
  assert.equal((await again).inodesUsed, 3_001, 'the walk went on');
  await directories.close();
});
