/** Directories of claims: what programs may leave in them must go, and nothing else may go with it. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { directoryForMounts, needsMounts, temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { localDirectories } from './local-directories.ts';

const mounts = systemMounts();
const asRoot = { skip: needsMounts(mounts) };

/** A volume beside something precious, which no deletion may touch. */
async function volumeIn(t: TestContext, directory = temporaryDirectory(t)) {
  const precious = join(directory, 'precious');
  mkdirSync(precious);
  writeFileSync(join(precious, 'data'), 'kept');
  const directories = localDirectories(join(directory, 'volumes'));
  await directories.make('v');
  const path = directories.pathOf('v');
  return {
    path,
    precious,
    remove: () => directories.remove('v'),
    assertGone: () => {
      assert.deepEqual(readdirSync(join(directory, 'volumes')), []);
      assert.equal(readFileSync(join(precious, 'data'), 'utf8'), 'kept');
    },
  };
}

test('links, hard links and odd names go with a volume; what they lead to stays', async (t) => {
  const { path, precious, remove, assertGone } = await volumeIn(t);
  symlinkSync(precious, join(path, 'link'));
  symlinkSync(join(precious, 'data'), join(path, 'file link'));
  linkSync(join(precious, 'data'), join(path, 'hard link'));
  const odd = Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0x0a, 0xff, 0xfe])]);
  mkdirSync(odd);
  writeFileSync(Buffer.concat([odd, Buffer.from('/\n')]), '');
  await remove();
  assertGone();
  assert.equal(statSync(join(precious, 'data')).nlink, 1);
});

test('a volume with something mounted in it stays as it is, until that is unmounted', asRoot, async (t) => {
  const { path, precious, remove, assertGone } = await volumeIn(t, directoryForMounts(t));
  const target = join(path, 'a', 'b');
  mkdirSync(target, { recursive: true });
  writeFileSync(join(path, '0-first'), '');
  mounts.bind(precious, target);
  await assert.rejects(remove(), { reason: 'MountPointBelow' });
  assert.ok(existsSync(join(path, '0-first')));
  mounts.unmount(target);
  await remove();
  assertGone();
});

test('a bind of the same file system that comes during a deletion is not entered', asRoot, async (t) => {
  const { path, precious, remove, assertGone } = await volumeIn(t, directoryForMounts(t));
  for (let number = 0; number < 5_000; number += 1) mkdirSync(join(path, `d${number}`));
  const removing = remove();
  // The table was read when the deletion began. They go in the order of the directory, so the last of it is still there.
  const target = join(path, readdirSync(path).at(-1) ?? '');
  mounts.bind(precious, target);
  await assert.rejects(removing, { reason: 'MountPointBelow' });
  assert.equal(readFileSync(join(precious, 'data'), 'utf8'), 'kept');
  mounts.unmount(target);
  await remove();
  assertGone();
});

test('directories that another swaps for links during a deletion lead nowhere', async (t) => {
  const { path, precious, remove, assertGone } = await volumeIn(t);
  // Directories are exchanged with links to what is precious, as fast as a program can.
  const script = `
    const { mkdirSync, renameSync, symlinkSync, writeFileSync, existsSync } = require('node:fs');
    const [path, precious] = process.argv.slice(1);
    process.stdout.write('ready');
    for (let turn = 0; existsSync(path) && turn < 200_000; turn += 1) {
      const at = path + '/d' + turn % 8;
      try {
        mkdirSync(at + '/below', { recursive: true });
        writeFileSync(at + '/below/file', '');
        symlinkSync(precious, at + '.link');
        renameSync(at, at + '.old');
        renameSync(at + '.link', at);
      } catch {}
    }`;
  const other = spawn(process.execPath, ['--eval', script, path, precious], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(other, 'exit');
  t.after(() => other.kill('SIGKILL'));
  await once(other.stdout, 'data');
  // It may make new files faster than they go; what matters is where the deletion went.
  for (let tries = 0; tries < 20; tries += 1) await remove().catch(() => {});
  other.kill('SIGKILL');
  await ended;
  await remove();
  assertGone();
});

test('directories that are closed to everyone, of whichever user, go as well', async (t) => {
  const { path, remove, assertGone } = await volumeIn(t);
  mkdirSync(join(path, 'a', 'b'), { recursive: true });
  writeFileSync(join(path, 'a', 'b', 'file'), '', { mode: 0o000 });
  if (process.getuid?.() === 0) for (const name of ['a/b/file', 'a/b', 'a']) chownSync(join(path, name), 65534, 65534);
  chmodSync(join(path, 'a', 'b'), 0o000);
  chmodSync(join(path, 'a'), 0o000);
  await remove();
  assertGone();
});

test('a file that must not be deleted keeps its volume, and the error says so', asRoot, async (t) => {
  const { path, remove, assertGone } = await volumeIn(t);
  const file = join(path, 'immutable');
  writeFileSync(file, '');
  if (spawnSync('chattr', ['+i', file]).status !== 0) return t.skip('needs chattr and a file system that knows it');
  t.after(() => spawnSync('chattr', ['-i', file]));
  await assert.rejects(remove(), /operation not permitted/);
  spawnSync('chattr', ['-i', file]);
  await remove();
  assertGone();
});

test('thirty thousand files go in many turns, between which other things happen', async (t) => {
  const { path, remove, assertGone } = await volumeIn(t);
  for (let number = 0; number < 30_000; number += 1) writeFileSync(join(path, `f${number}`), '');
  let turns = 0;
  const counting = setInterval(() => (turns += 1), 0);
  await remove();
  clearInterval(counting);
  assert.ok(turns > 50, String(turns));
  assertGone();
});
