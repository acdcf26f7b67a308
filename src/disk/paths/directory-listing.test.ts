import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { listDirectory, visibleFiles } from './directory-listing.ts';

function volume(t: Parameters<typeof temporaryDirectory>[0]): string {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, '..v1', 'etc'), { recursive: true });
  writeFileSync(join(directory, '..v1', 'a'), 'hello');
  writeFileSync(join(directory, '..v1', 'etc', 'b'), '');
  chmodSync(join(directory, '..v1', 'a'), 0o440);
  symlinkSync('..v1', join(directory, '..data'));
  for (const name of ['a', 'etc', 'dangling']) symlinkSync(`..data/${name}`, join(directory, name));
  symlinkSync('/etc/passwd', join(directory, 'outside'));
  mkdirSync(join(directory, 'nested'));
  return directory;
}

test('listDirectory shows names, kinds, link targets, modes, sizes and digests, sorted', (t) => {
  const { entries } = listDirectory(volume(t));
  assert.deepEqual(
    entries.map(({ name, kind }) => `${name} ${kind}`),
    ['..data link', '..v1 directory', 'a link', 'dangling link', 'etc link', 'nested directory', 'outside link'],
  );
  const version = entries[1];
  assert.ok(version?.kind === 'directory');
  const [file] = version.entries;
  assert.ok(file?.kind === 'file');
  assert.deepEqual([file.mode, file.sizeBytes], [0o440, 5]);
  assert.equal(file.sha256, '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824');
});

test('visibleFiles are those behind first-level links, and never those outside of the volume', (t) => {
  assert.deepEqual(
    visibleFiles(listDirectory(volume(t))).map(({ path }) => path),
    ['a', 'etc/b'],
  );
});

test('listDirectory names a fifo and does not wait for it', (t) => {
  const directory = temporaryDirectory(t);
  execFileSync('mkfifo', [join(directory, 'pipe')]);
  assert.deepEqual(
    listDirectory(directory).entries.map(({ kind }) => kind),
    ['other'],
  );
});
