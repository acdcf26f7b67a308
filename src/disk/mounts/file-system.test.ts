import assert from 'node:assert/strict';
import { chmodSync, chownSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { canActAs, temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { fileSystemOf, privateTmpfsDirectory } from './file-system.ts';
import { DiskError } from './disk-error.ts';

const uid = process.getuid?.() ?? 0;
const stranger = 12345;
const memory = '/dev/shm';
const skip = isTmpfs(memory) ? false : 'needs a tmpfs at /dev/shm';

function isTmpfs(path: string): boolean {
  try {
    return fileSystemOf(path) === 'tmpfs';
  } catch {
    return false;
  }
}

/** A shared directory on a tmpfs, as /dev/shm is. */
function sharedMemory(t: TestContext): string {
  const directory = temporaryDirectory(t, memory);
  chmodSync(directory, 0o1777);
  return directory;
}

test('the kind of a file system is recognised by its magic number', { skip }, (t) => {
  assert.equal(fileSystemOf(memory), 'tmpfs');
  assert.equal(fileSystemOf('/proc'), 'other');
  assert.throws(() => fileSystemOf(join(temporaryDirectory(t), 'missing')), { code: 'ENOENT' });
});

test('the runtime directory is used if it is a private tmpfs', { skip }, (t) => {
  const runtimeDirectory = temporaryDirectory(t, memory);
  assert.equal(privateTmpfsDirectory({ runtimeDirectory, uid, sharedMemoryDirectory: '/nowhere' }), runtimeDirectory);
});

const unfit: readonly { it: string; make: (t: TestContext) => string; needsRoot?: boolean }[] = [
  { it: 'is on no tmpfs', make: () => '/proc' },
  { it: 'is missing', make: (t) => join(temporaryDirectory(t, memory), 'missing') },
  { it: 'is open to others', make: (t) => withMode(temporaryDirectory(t, memory), 0o750) },
  { it: 'belongs to another', make: (t) => owned(temporaryDirectory(t, memory)), needsRoot: true },
  { it: 'is a link', make: (t) => linked(temporaryDirectory(t, memory)) },
];
for (const { it, make, needsRoot } of unfit) {
  test(`a runtime directory that ${it} is passed over for one in shared memory, made with mode 700`, { skip }, (t) => {
    if (needsRoot && !canActAs(stranger)) return t.skip('needs root: to give a directory to another user');
    const sharedMemoryDirectory = sharedMemory(t);
    const runtimeDirectory = make(t);
    const wanted = join(sharedMemoryDirectory, `mountlet-${uid}`);
    for (const _ of ['made', 'found']) {
      assert.equal(privateTmpfsDirectory({ runtimeDirectory, uid, sharedMemoryDirectory }), wanted);
    }
    assert.equal(lstatSync(wanted).mode & 0o7777, 0o700);
  });
}

const planted: readonly { it: string; plant: (path: string) => void; says: RegExp; needsRoot?: boolean }[] = [
  { it: 'a link', plant: (path) => symlinkSync('/tmp', path), says: /it is a symbolic link/ },
  { it: 'a dangling link', plant: (path) => symlinkSync('nowhere', path), says: /it is a symbolic link/ },
  { it: 'a file', plant: (path) => writeFileSync(path, ''), says: /it is not a directory/ },
  { it: 'an open directory', plant: (path) => withMode(path, 0o755), says: /its mode is 755, not 700/ },
  { it: 'a directory of another', plant: owned, says: /it belongs to user 12345, not to user/, needsRoot: true },
];
for (const { it, plant, says, needsRoot } of planted) {
  test(`${it} planted in shared memory is refused`, { skip }, (t) => {
    if (needsRoot && !canActAs(stranger)) return t.skip('needs root: to give a directory to another user');
    const sharedMemoryDirectory = sharedMemory(t);
    plant(join(sharedMemoryDirectory, `mountlet-${uid}`));
    assert.throws(
      () => privateTmpfsDirectory({ uid, sharedMemoryDirectory }),
      (thrown) => thrown instanceof DiskError && thrown.reason === 'UnsafeDirectory' && says.test(thrown.message),
    );
  });
}

test('without a tmpfs there is no private one', () => {
  assert.equal(privateTmpfsDirectory({ uid, sharedMemoryDirectory: '/proc' }), undefined);
  assert.equal(privateTmpfsDirectory({ uid, sharedMemoryDirectory: '/nowhere' }), undefined);
});

function withMode(path: string, mode: number): string {
  mkdirSync(path, { recursive: true });
  chmodSync(path, mode);
  return path;
}

function owned(path: string): string {
  withMode(path, 0o700);
  chownSync(path, stranger, stranger);
  return path;
}

function linked(directory: string): string {
  const link = join(directory, 'link');
  mkdirSync(join(directory, 'real'), { mode: 0o700 });
  symlinkSync('real', link);
  return link;
}
