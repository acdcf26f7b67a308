import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, before, test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { checkHostPath, hostKindOf } from './host-kind.ts';

async function hostOf(t: Pick<TestContext, 'after'>): Promise<string> {
  const host = temporaryDirectory(t);
  mkdirSync(join(host, 'directory'));
  writeFileSync(join(host, 'file'), 'content');
  assert.equal(spawnSync('mkfifo', [join(host, 'fifo')]).status, 0);
  const server = createServer();
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(join(host, 'socket'), resolve));
  for (const name of ['directory', 'file', 'socket', 'fifo']) symlinkSync(name, join(host, `to-${name}`));
  symlinkSync('nowhere', join(host, 'dangling'));
  symlinkSync('loop', join(host, 'loop'));
  return host;
}

let blockDevice: string | undefined;
before(() => {
  blockDevice = readdirSync('/dev')
    .map((name) => join('/dev', name))
    .find((path) => lstatSync(path, { throwIfNoEntry: false })?.isBlockDevice());
});

test('the kind of a path follows links', async (t) => {
  const host = await hostOf(t);
  const kinds = { directory: 'Directory', file: 'File', socket: 'Socket' };
  for (const [name, kind] of Object.entries(kinds)) {
    assert.equal(hostKindOf(join(host, name)), kind);
    assert.equal(hostKindOf(join(host, `to-${name}`)), kind);
  }
  assert.equal(hostKindOf('/dev/null'), 'CharDevice');
  assert.throws(() => hostKindOf(join(host, 'missing')), { message: `path "${host}/missing" does not exist` });
  assert.throws(() => hostKindOf(join(host, 'dangling')), { message: `path "${host}/dangling" does not exist` });
  assert.throws(() => hostKindOf(join(host, 'file', 'x')), { message: `stat ${host}/file/x: not a directory` });
  assert.throws(() => hostKindOf(`${host}/a\0b`), { reason: 'HostPathCheckFailed' });
});

test('the kind of a block device is recognised', (t) => {
  if (blockDevice === undefined) return t.skip('needs a block device in /dev');
  assert.equal(hostKindOf(blockDevice), 'BlockDevice');
  checkHostPath(blockDevice, 'BlockDevice');
  assert.throws(() => checkHostPath(blockDevice ?? '', 'CharDevice'), {
    message: `hostPath type check failed: ${blockDevice} is not a character device, it's a BlockDevice`,
  });
});

const failed = 'hostPath type check failed';
const fifo = 'unable to determine its type: only recognise file, directory, socket, block device and character device';
const cases: readonly { path: string; type: string; says?: string }[] = [
  { path: 'HOST/anything', type: '' },
  { path: 'HOST/directory', type: 'Directory' },
  { path: 'HOST/to-directory', type: 'Directory' },
  { path: 'HOST/directory', type: 'DirectoryOrCreate' },
  { path: 'HOST/file', type: 'File' },
  { path: 'HOST/file', type: 'FileOrCreate' },
  { path: 'HOST/socket', type: 'Socket' },
  { path: 'HOST/to-socket', type: 'Socket' },
  { path: '/dev/null', type: 'CharDevice' },
  { path: 'HOST/file', type: 'Directory', says: `${failed}: HOST/file is not a directory, it's a File` },
  { path: 'HOST/file', type: 'DirectoryOrCreate', says: `${failed}: HOST/file is not a directory, it's a File` },
  { path: 'HOST/directory', type: 'File', says: `${failed}: HOST/directory is not a file, it's a Directory` },
  { path: 'HOST/directory', type: 'FileOrCreate', says: `${failed}: HOST/directory is not a file, it's a Directory` },
  { path: 'HOST/socket', type: 'File', says: `${failed}: HOST/socket is not a file, it's a Socket` },
  { path: 'HOST/file', type: 'Socket', says: `${failed}: HOST/file is not a socket file, it's a File` },
  { path: 'HOST/file', type: 'CharDevice', says: `${failed}: HOST/file is not a character device, it's a File` },
  { path: '/dev/null', type: 'BlockDevice', says: `${failed}: /dev/null is not a block device, it's a CharDevice` },
  { path: 'HOST/fifo', type: 'File', says: `${failed}, HOST/fifo is not a file, ${fifo}` },
  { path: 'HOST/fifo', type: 'FileOrCreate', says: `${failed}, HOST/fifo is not a file, ${fifo}` },
  {
    path: 'HOST/no',
    type: 'Directory',
    says: `${failed}, HOST/no is not a directory, unable to determine its type: path "HOST/no" does not exist`,
  },
  {
    path: 'HOST/no',
    type: 'Socket',
    says: `${failed}, HOST/no is not a socket file, unable to determine its type: path "HOST/no" does not exist`,
  },
  {
    path: 'HOST/dangling',
    type: 'File',
    says: `${failed}, HOST/dangling is not a file, unable to determine its type: path "HOST/dangling" does not exist`,
  },
  {
    path: 'HOST/loop',
    type: 'File',
    says: `${failed}, HOST/loop is not a file, unable to determine its type: stat HOST/loop: too many levels of symbolic links`,
  },
  { path: 'HOST/file', type: 'Folder', says: 'Folder is an invalid volume type' },
  { path: 'HOST/../x', type: '', says: "invalid HostPath `HOST/../x`: must not contain '..'" },
  { path: 'HOST/..', type: 'Directory', says: "invalid HostPath `HOST/..`: must not contain '..'" },
  { path: 'HOST/a..b', type: '' },
  { path: 'HOST/no/file', type: 'FileOrCreate', says: 'open HOST/no/file: no such file or directory' },
  { path: 'HOST/file/a/b', type: 'DirectoryOrCreate', says: 'mkdir HOST/file: not a directory' },
];
for (const { path, type, says } of cases) {
  test(`${path} as "${type}" ${says === undefined ? 'is accepted' : 'is refused'}, nothing is made`, async (t) => {
    const host = await hostOf(t);
    const names = readdirSync(host);
    const act = (): void => checkHostPath(path.replace('HOST', host), type);
    if (says === undefined) act();
    else assert.throws(act, { reason: 'HostPathCheckFailed', message: says.replaceAll('HOST', host) });
    assert.deepEqual(readdirSync(host), names);
  });
}

test('a missing directory is made with its parents, a missing file is made empty, both once', async (t) => {
  const host = await hostOf(t);
  const mask = process.umask();
  for (const _ of [1, 2]) {
    checkHostPath(join(host, 'a', 'b'), 'DirectoryOrCreate');
    checkHostPath(join(host, 'new'), 'FileOrCreate');
  }
  for (const name of ['a', 'a/b']) assert.equal(statSync(join(host, name)).mode & 0o7777, 0o755 & ~mask);
  assert.equal(statSync(join(host, 'new')).mode & 0o7777, 0o644 & ~mask);
  assert.equal(statSync(join(host, 'new')).size, 0);
  checkHostPath(join(host, 'file'), 'FileOrCreate');
  assert.equal(statSync(join(host, 'file')).size, 7);
});

test('a dangling link: a directory is reported as made and is not, a file is made where the link points', async (t) => {
  const host = await hostOf(t);
  checkHostPath(join(host, 'dangling'), 'DirectoryOrCreate');
  checkHostPath(join(host, 'dangling', 'below'), 'DirectoryOrCreate');
  assert.ok(!existsSync(join(host, 'nowhere')));
  checkHostPath(join(host, 'dangling'), 'FileOrCreate');
  assert.ok(statSync(join(host, 'nowhere')).isFile());
});
