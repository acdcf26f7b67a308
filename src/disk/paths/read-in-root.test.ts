import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { readInRoot } from './safe-open.ts';

const sizeBytesMax = 100;

function volume(t: Parameters<typeof temporaryDirectory>[0]): string {
  const directory = temporaryDirectory(t);
  const root = join(directory, 'volume');
  mkdirSync(join(root, 'a', 'b'), { recursive: true });
  mkdirSync(join(root, 'etc'));
  writeFileSync(join(root, 'a', 'b', 'file'), 'inside');
  writeFileSync(join(root, 'etc', 'passwd'), 'the volume');
  writeFileSync(join(root, 'large'), 'x'.repeat(sizeBytesMax + 1));
  writeFileSync(join(directory, 'secret'), 'outside');
  symlinkSync('b/file', join(root, 'a', 'relative'));
  symlinkSync('../../../../etc/passwd', join(root, 'a', 'upwards'));
  symlinkSync('/etc/passwd', join(root, 'absolute'));
  symlinkSync('loop', join(root, 'loop'));
  symlinkSync('/a', join(root, 'directory'));
  return root;
}

const cases = [
  { it: 'a file', path: 'a/b/file', is: 'inside', at: 'a/b/file' },
  { it: 'a link that stays inside', path: 'a/relative', is: 'inside', at: 'a/b/file' },
  { it: 'an absolute link from the volume on', path: 'absolute', is: 'the volume', at: 'etc/passwd' },
  { it: 'a link upwards no further than the volume', path: 'a/upwards', is: 'the volume', at: 'etc/passwd' },
  { it: 'dots no further than the volume', path: '../../secret/../a/./b//file', is: undefined, at: '' },
  { it: 'a path through a link to a directory', path: 'directory/b/file', is: 'inside', at: 'a/b/file' },
  { it: 'no loop', path: 'loop', is: undefined, at: '' },
  { it: 'no directory', path: 'a', is: undefined, at: '' },
  { it: 'no file that is missing', path: 'a/none', is: undefined, at: '' },
  { it: 'no file that is too large', path: 'large', is: undefined, at: '' },
  { it: 'no file below a file', path: 'a/b/file/x', is: undefined, at: '' },
];
for (const { it, path, is, at } of cases) {
  test(`readInRoot reads ${it}`, (t) => {
    const root = volume(t);
    const before = readdirSync('/proc/self/fd').length;
    if (is === undefined) assert.throws(() => readInRoot(root, path, sizeBytesMax), { reason: 'UnreadableFile' });
    else {
      const { path: found, content } = readInRoot(root, path, sizeBytesMax);
      assert.equal(Buffer.from(content).toString(), is);
      assert.equal(found, join(root, at));
    }
    assert.equal(readdirSync('/proc/self/fd').length, before, 'a descriptor was left open');
  });
}
