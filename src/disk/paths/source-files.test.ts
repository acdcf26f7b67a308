import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { SourceSize, decodeText, readSourceFiles } from './source-files.ts';
import { DiskError } from '../mounts/disk-error.ts';

test('a file is read whatever it is called, under the name the user gave', (t) => {
  const path = join(temporaryDirectory(t), 'manifest.txt');
  writeFileSync(path, '\uFEFFkind: Pod\n');
  assert.deepEqual(readSourceFiles(path), [{ name: path, text: 'kind: Pod\n' }]);
});

test('of a directory the manifests are read by name, not what is below it', (t) => {
  const directory = temporaryDirectory(t);
  for (const name of ['b.yml', 'a.yaml', 'c.json', '.d.yaml', 'e.YAML', 'f.txt', 'g.yaml.bak'])
    writeFileSync(join(directory, name), name);
  mkdirSync(join(directory, 'sub.yaml'));
  writeFileSync(join(directory, 'sub.yaml', 'h.yaml'), 'h');
  symlinkSync('f.txt', join(directory, 'link.yaml'));
  assert.deepEqual(
    readSourceFiles(directory).map(({ name, text }) => [name, text]),
    [
      ['.d.yaml', '.d.yaml'],
      ['a.yaml', 'a.yaml'],
      ['b.yml', 'b.yml'],
      ['c.json', 'c.json'],
      ['link.yaml', 'f.txt'],
    ].map(([name = '', text]) => [join(directory, name), text]),
  );
});

const refusals = [
  { it: 'a missing file', make: () => {}, says: 'there is no such file or directory' },
  {
    it: 'a directory without manifests',
    make: (path: string) => mkdirSync(path),
    says: 'it holds no .yaml, .yml or .json file',
  },
  {
    it: 'a file that is not text',
    make: (path: string) => writeFileSync(path, Buffer.from([0xc3, 0x28])),
    says: 'it is not UTF-8 text',
  },
  {
    it: 'a link in a circle',
    make: (path: string) => symlinkSync(path, path),
    says: 'too many levels of symbolic links',
  },
  {
    it: 'a device without an end',
    make: (path: string) => symlinkSync('/dev/zero', path),
    says: 'it is larger than 64 MiB',
  },
];
for (const { it, make, says } of refusals) {
  test(`${it} is refused, and the message names it`, (t) => {
    const path = join(temporaryDirectory(t), 'x');
    make(path);
    assert.throws(
      () => readSourceFiles(path),
      (error) =>
        error instanceof DiskError &&
        error.reason === 'UnreadableSource' &&
        error.message.includes(`"${path}": `) &&
        error.message.includes(says),
    );
  });
}

test('text keeps its bytes', () => {
  assert.equal(decodeText('x', Buffer.from('a\r\n\tü\0')), 'a\r\n\tü\0');
});

test('a source is counted over all of its pieces', () => {
  const size = new SourceSize('x');
  size.add(64 * 1024 * 1024);
  assert.throws(() => size.add(1), { reason: 'UnreadableSource' });
});
