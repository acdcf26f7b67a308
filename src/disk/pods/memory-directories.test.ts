import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { atOnce } from '../../base/turns.ts';
import {
  directoryForMounts,
  needsMounts,
  temporaryDirectory,
  unavailableMounts,
} from '../../testing/machine/temporary-directory.ts';
import { fileSystemOf } from '../mounts/file-system.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { MemoryDirectories } from './memory-directories.ts';
import { DiskError } from '../mounts/disk-error.ts';

const shared = '/dev/shm';
const hasTmpfs = existsSync(shared) && fileSystemOf(shared) === 'tmpfs';
const needsTmpfs = hasTmpfs ? false : 'needs a tmpfs at /dev/shm';
const options = { mode: 0o777, sizeBytes: 1024n * 1024n };
const modeOf = (path: string): string => (lstatSync(path).mode & 0o7777).toString(8);

function without(mounting: string, base: string | undefined): { memory: MemoryDirectories; told: string[] } {
  const told: string[] = [];
  const deps = {
    mounts: unavailableMounts(mounting),
    privateTmpfs: () => base,
    warn: (text: string) => told.push(text),
  };
  return { memory: new MemoryDirectories(deps), told };
}

/** A private directory on a tmpfs, and a volume directory on a disk. */
function diskAndMemory(t: TestContext): { base: string; volume: string } {
  const base = temporaryDirectory(t, shared);
  const disk = temporaryDirectory(t);
  if (fileSystemOf(disk) === 'tmpfs') t.diagnostic('the temporary directory is a tmpfs itself');
  return { base, volume: join(disk, 'volumes', 'cert') };
}

test('where mounts can be made, memory is a tmpfs of its own', { skip: needsMounts(systemMounts()) }, (t) => {
  const mounts = systemMounts();
  const volume = join(directoryForMounts(t), 'volumes', 'cert');
  const told: string[] = [];
  const memory = new MemoryDirectories({ mounts, privateTmpfs: () => undefined, warn: (text) => told.push(text) });
  assert.equal(memory.find(volume), undefined);
  assert.deepEqual(memory.make(volume, options), { path: volume, made: true });
  assert.ok(mounts.isMountPoint(volume));
  assert.equal(memory.find(volume), volume);
  assert.deepEqual(memory.make(volume, options), { path: volume, made: false });
  mounts.unmount(volume);
  assert.ok(!mounts.isMountPoint(volume), 'it was mounted once');
  assert.deepEqual(told, []);
});

test('a tmpfs mounted by a process with more rights is used as it is', { skip: needsMounts(systemMounts()) }, (t) => {
  const volume = join(directoryForMounts(t), 'cert');
  mkdirSync(volume);
  systemMounts().mountTmpfs(volume);
  assert.deepEqual(without('not root', undefined).memory.make(volume, options), { path: volume, made: false });
});

test('a mount that fails takes the directory it was for with it', (t) => {
  const volume = join(temporaryDirectory(t), 'cert');
  const mounts = { ...unavailableMounts(), unavailable: undefined };
  const memory = new MemoryDirectories({ mounts, privateTmpfs: () => undefined, warn: () => undefined });
  assert.throws(() => memory.make(volume, options), { code: 'EPERM' });
  assert.ok(!existsSync(volume));
});

test('without mounts, a directory on a tmpfs is made in place', { skip: needsTmpfs }, (t) => {
  const volume = join(temporaryDirectory(t, shared), 'volumes', 'cert');
  const { memory, told } = without('not root', undefined);
  assert.deepEqual(memory.make(volume, options), { path: volume, made: true });
  assert.equal(modeOf(volume), '1777');
  assert.equal(memory.find(volume), volume);
  assert.deepEqual(memory.make(volume, options), { path: volume, made: false });
  assert.match(told[0] ?? '', /^cannot mount tmpfs: not root; Secret volumes are kept in "\/dev\/shm\//);
  assert.equal(told.length, 1, 'once is enough');
});

test('without mounts, a directory on a disk becomes a link to a private tmpfs', { skip: needsTmpfs }, (t) => {
  const { base, volume } = diskAndMemory(t);
  if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
  const { memory, told } = without('not root', base);
  const { path, made } = memory.make(volume, options);
  assert.ok(made);
  assert.equal(dirname(path), base);
  assert.equal(readlinkSync(volume), path);
  assert.equal(modeOf(path), '1777');
  assert.equal(memory.find(volume), path);
  assert.deepEqual(memory.make(volume, options), { path, made: false });
  assert.equal(told.length, 1);

  writeFileSync(join(path, 'key'), 'secret');
  // Another process, whose private tmpfs is elsewhere, finds and removes both ends.
  const later = without('not root', temporaryDirectory(t, shared)).memory;
  assert.equal(later.find(volume), path);
  atOnce(later.removingLink(volume));
  assert.ok(!existsSync(path));
  assert.equal(lstatSync(volume, { throwIfNoEntry: false }), undefined);
  assert.ok(existsSync(base));
});

test('two volumes never share memory', { skip: needsTmpfs }, (t) => {
  const { base, volume } = diskAndMemory(t);
  if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
  const { memory } = without('not root', base);
  assert.notEqual(memory.make(volume, options).path, memory.make(`${volume}2`, options).path);
});

test(
  'a link whose memory was lost in a reboot is made again, also by a process that may mount',
  { skip: needsTmpfs },
  (t) => {
    const { base, volume } = diskAndMemory(t);
    if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
    const { memory } = without('not root', base);
    const { path } = memory.make(volume, options);
    atOnce(memory.removingLink(volume));
    symlinkSync(path, volume);
    assert.equal(memory.find(volume), undefined);
    assert.deepEqual(memory.make(volume, options), { path, made: true });
    assert.ok(lstatSync(path).isDirectory());
  },
);

test(
  'a link that is not ours is never followed: what it leads to is neither used nor deleted',
  { skip: needsTmpfs },
  (t) => {
    const { base, volume } = diskAndMemory(t);
    const { memory } = without('not root', base);
    const foreign = join(temporaryDirectory(t, shared), 'home');
    mkdirSync(foreign);
    writeFileSync(join(foreign, 'precious'), 'x');
    mkdirSync(dirname(volume));
    symlinkSync(foreign, volume);
    assert.equal(memory.find(volume), undefined);
    atOnce(memory.removingLink(volume));
    assert.equal(readFileSync(join(foreign, 'precious'), 'utf8'), 'x');
  },
);

test('a link into a directory that others can enter is not trusted', { skip: needsTmpfs }, (t) => {
  const { base, volume } = diskAndMemory(t);
  if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
  const { memory } = without('not root', base);
  const { path } = memory.make(volume, options);
  chmodSync(base, 0o755);
  assert.equal(memory.find(volume), undefined);
  chmodSync(base, 0o700);
  assert.equal(memory.find(volume), path);
});

test('what an earlier failure left on disk in the volume’s place is deleted, not used', { skip: needsTmpfs }, (t) => {
  const { base, volume } = diskAndMemory(t);
  if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
  mkdirSync(volume, { recursive: true });
  writeFileSync(join(volume, 'leftover'), 'x');
  const { path } = without('not root', base).memory.make(volume, options);
  assert.ok(!existsSync(join(path, 'leftover')));
  assert.ok(lstatSync(volume).isSymbolicLink());
});

test('without mounts and without a tmpfs nothing is made, and the error says what to do', (t) => {
  const volume = join(temporaryDirectory(t), 'volumes', 'cert');
  if (fileSystemOf(dirname(dirname(volume))) === 'tmpfs') return t.skip('needs a temporary directory on a disk');
  const { memory, told } = without('operation not permitted', undefined);
  assert.throws(
    () => memory.make(volume, options),
    (error) =>
      error instanceof DiskError &&
      error.reason === 'MemoryUnavailable' &&
      /operation not permitted.*run as root/.test(error.message),
  );
  assert.ok(!existsSync(volume));
  assert.deepEqual(told, []);
});
