import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  canActAs,
  directoryForMounts,
  needsMounts,
  temporaryDirectory,
} from '../../testing/machine/temporary-directory.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { MountPointBelowError, removeTree } from './remove-tree.ts';

const mounts = systemMounts();
const skip = needsMounts(mounts);

test('removeTree deletes files, directories, links, fifos and sockets, and no target of a link', (t) => {
  const directory = temporaryDirectory(t);
  const [tree, outside] = [join(directory, 'tree'), join(directory, 'outside')];
  mkdirSync(join(tree, 'a', 'b'), { recursive: true });
  mkdirSync(outside);
  writeFileSync(join(outside, 'precious'), '');
  writeFileSync(join(tree, 'a', 'file'), '');
  symlinkSync(outside, join(tree, 'a', 'b', 'link'));
  symlinkSync('nowhere', join(tree, 'dangling'));
  assert.equal(spawnSync('mkfifo', [join(tree, 'fifo')]).status, 0);
  removeTree(tree);
  assert.deepEqual(readdirSync(directory), ['outside']);
  assert.deepEqual(readdirSync(outside), ['precious']);
});

test('removeTree is content with a missing directory and with a missing parent', (t) => {
  const directory = temporaryDirectory(t);
  removeTree(join(directory, 'missing'));
  removeTree(join(directory, 'missing', 'too'));
  assert.deepEqual(readdirSync(directory), []);
});

test('removeTree deletes a link or a file in place of the directory, not what it points to', (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'kept'));
  writeFileSync(join(directory, 'kept', 'file'), '');
  symlinkSync('kept', join(directory, 'link'));
  writeFileSync(join(directory, 'file'), '');
  removeTree(join(directory, 'link'));
  removeTree(join(directory, 'file'));
  assert.deepEqual(readdirSync(directory), ['kept']);
  assert.deepEqual(readdirSync(join(directory, 'kept')), ['file']);
});

test('removeTree deletes names that are not UTF-8', (t) => {
  const directory = temporaryDirectory(t);
  const tree = join(directory, 'tree');
  mkdirSync(tree);
  const odd = Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0xff, 0xfe, 0x0a, 0x20])]);
  mkdirSync(odd);
  writeFileSync(Buffer.concat([odd, Buffer.from('/'), Buffer.from([0xc3])]), '');
  removeTree(tree);
  assert.deepEqual(readdirSync(directory), []);
});

test('removeTree deletes a tree deeper than any path may be long', (t) => {
  const directory = temporaryDirectory(t);
  // Built from the inside out, as no path reaches the bottom: each step puts the tree so far into a new directory.
  mkdirSync(join(directory, 'tree'));
  writeFileSync(join(directory, 'tree', 'bottom'), '');
  for (let depth = 0; depth < 150; depth += 1) {
    mkdirSync(join(directory, 'next'));
    renameSync(join(directory, 'tree'), join(directory, 'next', 'level-'.repeat(5)));
    renameSync(join(directory, 'next'), join(directory, 'tree'));
  }
  removeTree(join(directory, 'tree'));
  assert.deepEqual(readdirSync(directory), []);
});

const mountings = [
  { what: 'a tmpfs at the directory itself', at: '', kind: 'tmpfs' },
  { what: 'a tmpfs below', at: 'a/b', kind: 'tmpfs' },
  { what: 'a bind mount of the same file system below', at: 'a/b', kind: 'bind' },
  { what: 'a bind mount of a file', at: 'a/file', kind: 'file' },
] as const;
for (const { what, at, kind } of mountings) {
  test(`removeTree refuses ${what} before it deletes anything`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    const [tree, outside] = [join(directory, 'tree with space'), join(directory, 'outside')];
    mkdirSync(join(tree, 'a', 'b'), { recursive: true });
    writeFileSync(join(tree, '0-first'), '');
    writeFileSync(join(tree, 'a', 'file'), '');
    mkdirSync(outside);
    writeFileSync(join(outside, 'precious'), '');
    const target = join(tree, at);
    if (kind === 'tmpfs') mounts.mountTmpfs(target);
    else mounts.bind(kind === 'bind' ? outside : join(outside, 'precious'), target);

    assert.throws(
      () => removeTree(tree),
      (thrown) => thrown instanceof MountPointBelowError && thrown.mountPoint === target,
    );
    assert.deepEqual(readdirSync(outside), ['precious']);
    mounts.unmount(target);
    assert.ok(existsSync(join(tree, '0-first')));
    removeTree(tree);
    assert.deepEqual(readdirSync(directory), ['outside']);
  });
}

for (const kind of ['tmpfs', 'bind'] as const) {
  test(`removeTree does not enter a ${kind} that was mounted after it had looked`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    const [tree, outside] = [join(directory, 'tree'), join(directory, 'outside')];
    const target = join(tree, 'a', 'b');
    mkdirSync(target, { recursive: true });
    mkdirSync(outside);
    if (kind === 'tmpfs') mounts.mountTmpfs(target);
    else mounts.bind(outside, target);
    writeFileSync(join(target, 'precious'), '');
    assert.throws(
      () => removeTree(tree, () => []),
      (thrown) => thrown instanceof MountPointBelowError && thrown.mountPoint === target,
    );
    assert.deepEqual(readdirSync(target), ['precious']);
  });
}

test('removeTree is content when another deletes the same tree at the same time', async (t) => {
  const directory = temporaryDirectory(t);
  const tree = join(directory, 'tree');
  for (let index = 0; index < 20; index += 1) {
    mkdirSync(join(tree, `d${index}`, 'below'), { recursive: true });
    for (let file = 0; file < 10; file += 1) writeFileSync(join(tree, `d${index}`, 'below', `f${file}`), '');
  }
  const script = `
    import { removeTree } from '${new URL('./remove-tree.js', import.meta.url).href}';
    process.stdout.write('ready');
    process.stdin.once('data', () => {
      removeTree(${JSON.stringify(tree)});
      process.stdin.destroy();
    });`;
  const other = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(other, 'exit');
  await once(other.stdout, 'data');
  other.stdin.write('go');
  removeTree(tree);
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual(readdirSync(directory), []);
});

test('removeTree finds a mount point when the way to the directory goes through a link', { skip }, (t) => {
  const directory = directoryForMounts(t);
  mkdirSync(join(directory, 'real', 'tree', 'mounted'), { recursive: true });
  symlinkSync('real', join(directory, 'link'));
  mounts.mountTmpfs(join(directory, 'real', 'tree', 'mounted'));
  assert.throws(() => removeTree(join(directory, 'link', 'tree')), MountPointBelowError);
});

test('removeTree as an ordinary user deletes directories that he closed to himself', (t) => {
  if (process.getuid?.() === 0 && !canActAs(65534)) return t.skip('needs another user: none is mapped here');
  const directory = temporaryDirectory(t);
  chmodSync(directory, 0o777);
  const script = `
    import { mkdirSync, chmodSync, writeFileSync } from 'node:fs';
    import { removeTree } from '${new URL('./remove-tree.js', import.meta.url).href}';
    const tree = ${JSON.stringify(join(directory, 'tree'))};
    mkdirSync(tree + '/a/b', { recursive: true });
    writeFileSync(tree + '/a/b/file', '');
    chmodSync(tree + '/a/b', 0o000);
    chmodSync(tree + '/a', 0o555);
    removeTree(tree);`;
  const node = [process.execPath, '--input-type=module', '--eval', script];
  const asUser = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ...node];
  const [command = '', ...args] = process.getuid?.() === 0 ? asUser : node;
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  assert.deepEqual(readdirSync(directory), []);
});

test('removeTree leaves nothing of any tree', (t) => {
  const directory = temporaryDirectory(t);
  type Tree = readonly (readonly [name: string, content: Tree | 'file' | 'link'])[];
  const name = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }).filter((text) => /^[^/\0]+$/.test(text));
  const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.array(
      fc.tuple(
        name.map((text) => `n${text}`),
        fc.oneof({ maxDepth: 4 }, fc.constant('file' as const), fc.constant('link' as const), tie('tree')),
      ),
      { maxLength: 4 },
    ),
  }));
  const build = (path: string, content: Tree): void => {
    mkdirSync(path, { recursive: true });
    for (const [entry, kind] of content) {
      const at = join(path, entry);
      if (existsSync(at) || readdirSync(path).includes(entry)) continue;
      if (kind === 'file') writeFileSync(at, '');
      else if (kind === 'link') symlinkSync('..', at);
      else build(at, kind);
    }
  };
  fc.assert(
    fc.property(tree, (content) => {
      build(join(directory, 'tree'), content);
      removeTree(join(directory, 'tree'));
      assert.deepEqual(readdirSync(directory), []);
    }),
    { numRuns: 30 },
  );
});
