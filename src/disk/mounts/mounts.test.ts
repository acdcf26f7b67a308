import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { errorCode } from '../../base/errors.ts';
import { SystemCallError } from '../../linux/system-call-error.ts';
import { loadSystemCalls, mountFlags, moveFlags, treeFlags, unmountFlags } from '../../linux/system-calls.ts';
import { directoryForMounts, needsMounts } from '../../testing/machine/temporary-directory.ts';
import { type MountEntry, isMountPoint, mountOf, openPathOnly, readMountTable } from './mount-table.ts';
import { systemMounts, tmpfsOptions } from './mounts.ts';

/** As on Linux before 5.2: the calls that make a detached copy of a mount do not exist. */
const withoutNewCalls = (): ReturnType<typeof loadSystemCalls> => ({
  ...loadSystemCalls(),
  openTree(path) {
    throw new SystemCallError({ call: 'open_tree', path, code: 'ENOSYS' });
  },
  isMountRoot: () => undefined,
});

const ways = [
  { way: 'by system calls', load: loadSystemCalls },
  { way: 'by the system calls of an old kernel', load: withoutNewCalls },
];
const skip = needsMounts(systemMounts());

function entryAt(path: string): MountEntry {
  const entry = mountOf(readMountTable(), path);
  assert.equal(entry?.mountPoint, path);
  return entry;
}

for (const { way, load } of ways) {
  const mounts = systemMounts({ loadSystemCalls: load });

  test(`${way}: mounts are found to be available`, { skip }, () => {
    assert.equal(mounts.unavailable, undefined);
  });

  test(`${way}: a tmpfs has the size asked for, and is kept out of swap`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    const { noSwap } = mounts.mountTmpfs(directory, { sizeBytes: 1_048_576n });
    const entry = entryAt(directory);
    assert.deepEqual([entry.fileSystem, entry.source], ['tmpfs', 'tmpfs']);
    assert.ok(entry.superOptions.includes('size=1024k'));
    assert.equal(entry.superOptions.includes('noswap'), noSwap);
    assert.equal(mounts.isMountPoint(directory), true);

    mounts.unmount(directory);
    assert.equal(mounts.isMountPoint(directory), false);
  });

  test(`${way}: a tmpfs without a size has the kernel's`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    mounts.mountTmpfs(directory, { sizeBytes: 0n });
    assert.ok(!entryAt(directory).superOptions.some((option) => option.startsWith('size=')));
  });

  test(`${way}: a bind shows the source and is distinguished from it on one file system`, { skip }, (t) => {
    const { source, target } = sourceAndTarget(directoryForMounts(t));
    assert.equal(mounts.isMountPoint(target), false);
    mounts.bind(source, target);
    assert.equal(mounts.isMountPoint(target), true);
    assert.equal(mounts.isMountPoint(source), false);
    assert.equal(readFileSync(join(target, 'file'), 'utf8'), 'content');
    writeFileSync(join(target, 'new'), '');
    assert.deepEqual(readdirSync(source), ['below', 'file', 'new']);
  });

  test(`${way}: a file is bound onto a file`, { skip }, (t) => {
    const { directory, source } = sourceAndTarget(directoryForMounts(t));
    const target = join(directory, 'file');
    writeFileSync(target, '');
    mounts.bind(join(source, 'file'), target);
    assert.equal(mounts.isMountPoint(target), true);
    assert.equal(readFileSync(target, 'utf8'), 'content');
    mounts.unmount(target);
    assert.equal(readFileSync(target, 'utf8'), '');
  });

  test(`${way}: a read-only bind cannot be written, its source can, and other flags stay`, { skip }, (t) => {
    const { source, target } = sourceAndTarget(directoryForMounts(t));
    mounts.mountTmpfs(join(source, 'below'));
    mounts.bind(source, target, { readOnly: true });
    assert.throws(() => writeFileSync(join(target, 'new'), ''), { code: 'EROFS' });
    writeFileSync(join(source, 'new'), '');
    assert.deepEqual(entryAt(target).options, ['ro', 'relatime']);
    assert.equal(mounts.isMountPoint(join(target, 'below')), false);
  });

  test(`${way}: a bind has the options it is given, besides those of its source`, { skip }, (t) => {
    const { source, target } = sourceAndTarget(directoryForMounts(t));
    mounts.bind(source, target, { options: ['noexec', 'nosuid'] });
    assert.deepEqual(entryAt(target).options, ['rw', 'nosuid', 'noexec', 'relatime']);
    writeFileSync(join(target, 'new'), '');
    mounts.bind(source, target, { readOnly: true, options: ['nodev', 'noatime'] });
    assert.deepEqual(entryAt(target).options, ['ro', 'nodev', 'noatime']);
    assert.throws(() => writeFileSync(join(target, 'new'), ''), { code: 'EROFS' });
  });

  test(`${way}: a recursive bind brings what is mounted below, and read-only holds there too`, { skip }, (t) => {
    const { source, target } = sourceAndTarget(directoryForMounts(t));
    mounts.mountTmpfs(join(source, 'below'));
    mounts.bind(source, target, { recursive: true, readOnly: true });
    assert.equal(mounts.isMountPoint(join(target, 'below')), true);
    assert.throws(() => writeFileSync(join(target, 'below', 'new'), ''), { code: 'EROFS' });
    writeFileSync(join(source, 'below', 'new'), '');
  });

  test(`${way}: an open file is bound whatever its path has become`, { skip }, (t) => {
    const { directory, source, target } = sourceAndTarget(directoryForMounts(t));
    const descriptor = openSync(source, openPathOnly);
    t.after(() => closeSync(descriptor));
    renameSync(source, join(directory, 'moved'));
    symlinkSync('/etc', source);
    mounts.bindFileDescriptor(descriptor, target);
    assert.deepEqual(readdirSync(target), ['below', 'file']);
  });

  test(`${way}: a busy mount is unmounted only lazily`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    mounts.mountTmpfs(directory);
    const descriptor = openSync(join(directory, 'open'), 'w');
    t.after(() => closeSync(descriptor));
    assert.throws(() => mounts.unmount(directory), { code: 'EBUSY', reason: /Failed$/, path: directory });
    mounts.unmount(directory, { lazy: true });
    assert.equal(mounts.isMountPoint(directory), false);
  });

  test(`${way}: failures are typed and name the errno`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    assert.throws(() => mounts.unmount(directory), { code: 'EINVAL' });
    assert.throws(() => mounts.unmount(join(directory, 'missing')), SystemCallError);
    assert.throws(() => mounts.mountTmpfs(join(directory, 'missing')), { code: 'ENOENT' });
    assert.throws(() => mounts.bind(join(directory, 'missing'), directory), SystemCallError);
    assert.throws(() => mounts.mountTmpfs(`${directory}\0/x`), { code: 'EINVAL' });
    assert.throws(() => mounts.mountTmpfs('relative'), RangeError);
    assert.throws(() => mounts.mountTmpfs(directory, { sizeBytes: -1n }), RangeError);
  });

  test(`${way}: a symbolic link is not followed by unmount`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    const [mounted, link] = [join(directory, 'mounted'), join(directory, 'link')];
    mkdirSync(mounted);
    mounts.mountTmpfs(mounted);
    symlinkSync(mounted, link);
    assert.throws(() => mounts.unmount(link), SystemCallError);
    assert.equal(mounts.isMountPoint(mounted), true);
  });

  test(`${way}: isMountPoint answers for links, files, the root, and missing paths`, (t) => {
    const directory = directoryForMounts(t);
    symlinkSync('/proc', join(directory, 'link'));
    symlinkSync('nowhere', join(directory, 'dangling'));
    writeFileSync(join(directory, 'file'), '');
    const answers = ['link', 'dangling', 'file', '.'].map((name) => mounts.isMountPoint(join(directory, name)));
    assert.deepEqual(answers, [false, false, false, false]);
    assert.deepEqual([mounts.isMountPoint('/'), mounts.isMountPoint('/proc')], [true, true]);
    assert.throws(() => mounts.isMountPoint(join(directory, 'missing')), { code: 'ENOENT' });
    assert.throws(() => mounts.isMountPoint(join(directory, 'file', 'x')), { code: 'ENOTDIR' });
  });

  test(`${way}: hugetlbfs is mounted with its page size`, { skip }, (t) => {
    const directory = directoryForMounts(t);
    try {
      mounts.mountHugetlbfs(directory, { pageSize: '2Mi' });
    } catch (thrown) {
      assert.ok(thrown instanceof SystemCallError);
      return t.skip(`needs huge pages of 2Mi: ${thrown.message}`);
    }
    const entry = entryAt(directory);
    assert.deepEqual([entry.fileSystem, entry.source], ['hugetlbfs', 'nodev']);
    assert.ok(entry.superOptions.includes('pagesize=2M'));
    assert.equal(statfsSync(directory).bsize, 2_097_152);
    assert.throws(() => mounts.mountHugetlbfs(directory, { pageSize: '2Mi,uid=5' }), RangeError);
  });
}

test('a kernel that refuses noswap is asked once, and the mount says so', { skip }, (t) => {
  const directory = directoryForMounts(t);
  const asked: (string | undefined)[] = [];
  const calls = loadSystemCalls();
  const mounts = systemMounts({
    loadSystemCalls: () => ({
      ...calls,
      mount(call) {
        asked.push(call.data);
        if (call.data?.includes('noswap'))
          throw new SystemCallError({ call: 'mount', path: call.target, code: 'EINVAL' });
        calls.mount(call);
      },
    }),
  });
  for (const name of ['a', 'b']) {
    mkdirSync(join(directory, name));
    assert.deepEqual(mounts.mountTmpfs(join(directory, name), { sizeBytes: 4096n }), { noSwap: false });
  }
  assert.deepEqual(asked, ['size=4096,noswap', 'size=4096', 'size=4096']);
});

test('whether mounts are available is found out once for each instance', (t) => {
  let tried = 0;
  const mounts = systemMounts({
    temporaryDirectory: directoryForMounts(t),
    loadSystemCalls: () => ({
      ...loadSystemCalls(),
      mount({ target }) {
        tried += 1;
        throw new SystemCallError({ call: 'mount', path: target, code: 'EPERM' });
      },
    }),
  });
  assert.equal(mounts.unavailable, 'operation not permitted; run as root, or with the capability CAP_SYS_ADMIN');
  assert.equal(tried, 1);
});

test('a question alone does not load native code', (t) => {
  const mounts = systemMounts({ loadSystemCalls: () => assert.fail('loaded') });
  assert.equal(mounts.isMountPoint(directoryForMounts(t)), false);
});

test('options of a tmpfs are size, then noswap; a size of zero is left out', () => {
  assert.equal(tmpfsOptions(1024n, true), 'size=1024,noswap');
  assert.equal(tmpfsOptions(0n, true), 'noswap');
  assert.equal(tmpfsOptions(2n ** 60n, false), 'size=1152921504606846976');
  assert.equal(tmpfsOptions(0n, false), '');
});

test('in a user namespace a tmpfs is mounted without noswap and says so', (t) => {
  const directory = directoryForMounts(t);
  const script = `
    import { readMountTable } from '${new URL('./mount-table.js', import.meta.url).href}';
    import { systemMounts } from '${new URL('./mounts.js', import.meta.url).href}';
    const directory = ${JSON.stringify(directory)};
    const mounts = systemMounts();
    const mounted = mounts.mountTmpfs(directory, { sizeBytes: 8192n });
    const { superOptions } = readMountTable().find(({ mountPoint }) => mountPoint === directory);
    console.log(JSON.stringify({ mounted, sizes: superOptions.filter((option) => option.startsWith('size=')) }));`;
  const inNamespace = [
    '--user',
    '--map-root-user',
    '--mount',
    process.execPath,
    '--input-type=module',
    '--eval',
    script,
  ];
  if (spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'true']).status !== 0) {
    return t.skip('needs user namespaces: unshare(1) cannot make one here');
  }
  const { stdout, stderr } = spawnSync('unshare', inNamespace, { encoding: 'utf8' });
  assert.equal(stdout, `${JSON.stringify({ mounted: { noSwap: false }, sizes: ['size=8k'] })}\n`, stderr);
});

test('flags of the source stay when an old kernel makes its bind read-only', { skip }, (t) => {
  for (const load of [withoutNewCalls, loadSystemCalls]) {
    const { source, target } = sourceAndTarget(directoryForMounts(t));
    const calls = loadSystemCalls();
    calls.mount({ source: 'tmpfs', target: source, fileSystem: 'tmpfs', flags: 2 | 4 | 8 | 1024, data: 'size=4096' });
    systemMounts({ loadSystemCalls: load }).bind(source, target, { readOnly: true });
    assert.deepEqual(entryAt(target).options, ['ro', 'nosuid', 'nodev', 'noexec', 'noatime']);
    assert.deepEqual(entryAt(source).options, ['rw', 'nosuid', 'nodev', 'noexec', 'noatime']);
  }
});

test('a read-only bind that cannot be made read-only is not left writable', { skip }, (t) => {
  const { source, target } = sourceAndTarget(directoryForMounts(t));
  const calls = loadSystemCalls();
  const mounts = systemMounts({
    loadSystemCalls: () => ({
      ...withoutNewCalls(),
      mount(call) {
        if ((call.flags & mountFlags.remount) !== 0) {
          throw new SystemCallError({ call: 'mount', path: call.target, code: 'EPERM' });
        }
        calls.mount(call);
      },
    }),
  });
  assert.throws(() => mounts.bind(source, target, { readOnly: true }), { code: 'EPERM' });
  assert.equal(mounts.isMountPoint(target), false);
});

test('one mount takes the place of another without a gap when it is moved beneath', { skip }, (t) => {
  const { directory, source, target } = sourceAndTarget(directoryForMounts(t));
  const next = join(directory, 'next');
  mkdirSync(next);
  const calls = loadSystemCalls();
  systemMounts().bind(source, target);
  const tree = calls.openTree(next, treeFlags.clone | treeFlags.closeOnExec);
  t.after(() => closeSync(tree));
  try {
    calls.moveMount(tree, target, moveFlags.beneath);
  } catch (thrown) {
    assert.equal(errorCode(thrown), 'EINVAL');
    return t.skip('needs Linux 6.5: this kernel cannot move a mount beneath another');
  }
  assert.deepEqual(readdirSync(target), ['below', 'file']);
  calls.unmount(target, unmountFlags.detach | unmountFlags.noFollow);
  assert.deepEqual(readdirSync(target), []);
});

test('a mount whose server is gone reports its errno, with both calls', { skip }, (t) => {
  const directory = directoryForMounts(t);
  if (!isUsable('/dev/fuse')) return t.skip('needs /dev/fuse');
  const device = openSync('/dev/fuse', 'r+');
  const calls = loadSystemCalls();
  const data = `fd=${device},rootmode=40000,user_id=0,group_id=0`;
  calls.mount({ source: 'dead', target: directory, fileSystem: 'fuse', flags: 0, data });
  closeSync(device); // the program behind it dies
  for (const { load } of ways) {
    const mounts = systemMounts({ loadSystemCalls: load });
    assert.equal(mounts.unavailable, undefined); // has it loaded
    assert.throws(() => mounts.isMountPoint(directory), { code: 'ENOTCONN' });
  }
  systemMounts().unmount(directory);
  assert.equal(isMountPoint(directory), false);
});

function isUsable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function sourceAndTarget(directory: string): { directory: string; source: string; target: string } {
  const [source, target] = [join(directory, 'source'), join(directory, 'target')];
  mkdirSync(join(source, 'below'), { recursive: true });
  mkdirSync(target);
  writeFileSync(join(source, 'file'), 'content');
  return { directory, source, target };
}
