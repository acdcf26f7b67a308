import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { directoryForMounts } from '../../testing/machine/temporary-directory.ts';
import { mountOf, readMountTable, readMountsBelow } from './mount-table.ts';
import { systemMounts } from './mounts.ts';
import { replaceableMounts } from './replaceable-mounts.ts';
import { shareDirectory, unshareDirectory } from './shared-directory.ts';

const mounts = systemMounts();
const skip = mounts.unavailable ?? false;

/** Unmounted with the directory that it is in. */
function fileSystem(t: TestContext): string {
  const directory = join(realpathSync(directoryForMounts(t)), 'fs');
  mkdirSync(directory);
  mounts.mountTmpfs(directory);
  return directory;
}

function isShared(path: string): boolean {
  return mountOf(readMountTable(), path)?.optionalFields.some((field) => field.startsWith('shared:')) ?? false;
}

test('a directory is shared once, with what is mounted below it, and given back when nothing is', { skip }, (t) => {
  // On a private file system of its own, as `/` is on machines that share nothing.
  const base = fileSystem(t);
  const [pods, volume] = [join(base, 'pods'), join(base, 'pods', 'volume')];
  mkdirSync(volume, { recursive: true });
  mounts.mountTmpfs(volume);
  writeFileSync(join(volume, 'kept'), 'yes');
  const replaceable = replaceableMounts(mounts);
  shareDirectory(pods, mounts, replaceable);
  assert.ok(isShared(pods));
  assert.equal(readFileSync(join(volume, 'kept'), 'utf8'), 'yes');
  const count = readMountsBelow(pods).length;
  shareDirectory(pods, mounts, replaceable);
  assert.equal(readMountsBelow(pods).length, count);

  unshareDirectory(pods, mounts);
  assert.ok(isShared(pods), 'something is mounted below it');
  mounts.unmount(volume);
  unshareDirectory(pods, mounts);
  assert.ok(!isShared(pods));
  unshareDirectory(pods, mounts);
  assert.ok(mounts.isMountPoint(base));
});

test(
  'a directory that is a file system of its own is shared without another mount, and never unmounted',
  { skip },
  (t) => {
    const directory = fileSystem(t);
    shareDirectory(directory, mounts, replaceableMounts(mounts));
    assert.ok(isShared(directory));
    assert.equal(readMountsBelow(directory).length, 1);
    unshareDirectory(directory, mounts);
    assert.ok(mounts.isMountPoint(directory));
  },
);
