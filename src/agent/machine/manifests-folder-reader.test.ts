import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { type FolderContent, folderContents } from '../../pods/sources/manifests-folder.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { manifestsFolderReader } from './manifests-folder-reader.ts';

const { signal } = new AbortController();
const manifest = (name: string): string =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\nspec: {containers: [{name: main, image: nginx}]}\n`;

test('the reader lists regular files and links to them, and nothing else', async (t) => {
  const folder = temporaryDirectory(t);
  writeFileSync(join(folder, 'a'), 'x');
  mkdirSync(join(folder, 'below'));
  symlinkSync('a', join(folder, 'link'));
  symlinkSync('nowhere', join(folder, 'broken'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const reader = manifestsFolderReader(`${folder}/`, systemClock);
  assert.equal(reader.path, folder);
  assert.deepEqual([...((await reader.list(signal)) ?? [])].sort(), ['a', 'link']);
  assert.equal(await reader.read('link', 10, signal), 'x');
});

test('the reader refuses a file that is too large and a pipe in its place, and never waits for either', async (t) => {
  const folder = temporaryDirectory(t);
  writeFileSync(join(folder, 'large'), 'x'.repeat(11));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const reader = manifestsFolderReader(folder, systemClock);
  await assert.rejects(reader.read('large', 10, signal), /larger than 10 bytes/);
  await assert.rejects(reader.read('pipe', 10, signal), /no regular file/);
  await assert.rejects(reader.read('gone', 10, signal), /ENOENT/);
});

test('a folder that is missing is undefined, and a single file is a folder of one', async (t) => {
  const folder = temporaryDirectory(t);
  assert.equal(await manifestsFolderReader(join(folder, 'none'), systemClock).list(signal), undefined);
  writeFileSync(join(folder, 'only.yaml'), 'x');
  const reader = manifestsFolderReader(join(folder, 'only.yaml'), systemClock);
  assert.deepEqual(await reader.list(signal), ['only.yaml']);
  assert.equal(await reader.read('only.yaml', 10, signal), 'x');
});

test('a folder under torture: what is good is always there, and the last state is seen', async (t) => {
  const folder = temporaryDirectory(t);
  const file = join(folder, 'web.yaml');
  writeFileSync(file, manifest('web'));
  writeFileSync(join(folder, 'other.yaml'), manifest('other'));
  const stop = new AbortController();
  const seen: FolderContent[] = [];
  const reader = manifestsFolderReader(folder, systemClock);
  const settings = { nodeName: 'n', rereadPeriodMs: 60_000, quietMs: 5 };
  const contents = folderContents({ reader, clock: systemClock, notify: () => {} }, settings, stop.signal);
  const until = async (isTrue: (names: readonly string[]) => boolean): Promise<void> => {
    for (;;) {
      const { value, done } = await contents.next();
      if (done === true) assert.fail('it ended');
      seen.push(value);
      if (isTrue(namesOf(value))) return;
    }
  };
  await until((names) => names.length === 2);
  for (let round = 0; round < 20; round += 1) {
    writeFileSync(file, '');
    writeFileSync(file, manifest('web').slice(0, 20 + round));
    writeFileSync(join(folder, '.web.yaml.tmp'), 'half');
    renameSync(join(folder, '.web.yaml.tmp'), join(folder, `web.yaml~`));
    writeFileSync(join(folder, 'next'), manifest(`web-${round}`));
    renameSync(join(folder, 'next'), file);
  }
  await until((names) => names.includes('web-19-n'));
  for (const content of seen) assert.equal(namesOf(content).length, 2, namesOf(content).join());
  rmSync(file);
  await until((names) => names.length === 1 && names[0] === 'other-n');
  stop.abort();
  assert.equal((await contents.next()).done, true);
});

function namesOf({ pods }: FolderContent): readonly string[] {
  return pods.map(({ metadata }) => metadata.name);
}
