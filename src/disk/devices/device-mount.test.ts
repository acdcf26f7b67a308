import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  directoryForDevices,
  foreignLoopDevice,
  growFile,
  leftBelow,
  needsDevices,
  needsFileSystem,
  sparseFile,
  untilFree,
} from '../../testing/machine/devices.ts';
import { mountOf, readMountTable } from '../mounts/mount-table.ts';
import { type BlockDevice, blockDeviceAt, deviceNumbers, deviceSizeBytes, mountPointsOf } from './block-device.ts';
import {
  type DeviceMountOutcome,
  type DeviceMountSettings,
  type FormatMark,
  diskFormatOf,
  extSizeBytes,
  growFileSystem,
  isBlank,
  mountDevice,
  partitioned,
} from './device-mount.ts';
import { type Programs, isInMountTable, runMount, runUnmount, systemPrograms } from './programs.ts';

const skip = needsDevices('mkfs.ext4', 'fsck', 'resize2fs');
const { signal } = new AbortController();
const mebibyte = 1024n * 1024n;

interface Disk {
  readonly directory: string;
  readonly file: string;
  readonly device: BlockDevice;
  readonly target: string;
}

/** A loop device stands for a disk. */
function disk(t: TestContext, sizeMebibytes = 16, content?: (file: string) => void): Disk {
  const directory = directoryForDevices(t);
  const file = sparseFile(directory, 'disk.img', sizeMebibytes);
  content?.(file);
  const target = join(directory, 'mount');
  mkdirSync(target);
  return { directory, file, device: blockDeviceAt(foreignLoopDevice(file)), target };
}

function mount(
  { device, target }: Disk,
  more: Partial<DeviceMountSettings> = {},
  programs: Programs = systemPrograms(),
): Promise<DeviceMountOutcome> {
  return mountDevice(programs, { device, target, fileSystem: '', options: [], ...more }, signal);
}

async function unmount({ target, device }: Disk): Promise<void> {
  await runUnmount(systemPrograms(), target, signal);
  await untilFree(device.path);
}

function mkfs(...args: readonly string[]): (file: string) => void {
  return (file) => void execFileSync('mkfs.ext4', ['-q', '-F', ...args, file]);
}

test('an empty device becomes an ext4 without blocks reserved for root, and is mounted', { skip }, async (t) => {
  const one = disk(t);
  assert.deepEqual(await mount(one), { formatted: true });
  const entry = mountOf(readMountTable(), one.target);
  assert.deepEqual([entry?.fileSystem, entry?.source, entry?.mountPoint], ['ext4', one.device.path, one.target]);
  assert.deepEqual(mountPointsOf(one.device), [one.target]);
  const described = execFileSync('dumpe2fs', ['-h', one.device.path], { encoding: 'utf8', stdio: 'pipe' });
  assert.match(described, /^Reserved block count: +0$/m);
  await unmount(one);
  assert.ok(!isInMountTable(one.target));
});

test('what is on a device stays, however often it is mounted', { skip }, async (t) => {
  const one = disk(t);
  await mount(one);
  writeFileSync(join(one.target, 'data'), 'precious');
  await unmount(one);
  mkdirSync(one.target);
  assert.deepEqual(await mount(one), { formatted: false });
  assert.equal(readFileSync(join(one.target, 'data'), 'utf8'), 'precious');
});

test('options reach the kernel and the file system', { skip }, async (t) => {
  const one = disk(t);
  await mount(one, { options: ['noatime', 'noexec', 'data=journal'] });
  const { options = [], superOptions = [] } = mountOf(readMountTable(), one.target) ?? {};
  const wanted = ['noatime', 'noexec', 'data=journal'];
  assert.deepEqual(
    wanted.filter((option) => ![...options, ...superOptions].includes(option)),
    [],
  );
});

for (const fileSystem of ['xfs', 'btrfs'] as const) {
  const grower = fileSystem === 'xfs' ? 'xfs_growfs' : 'btrfs';
  const sizeMebibytes = fileSystem === 'xfs' ? 320 : 256; // sparse; with less they cannot be made, or grown
  test(
    `${fileSystem} is made, mounted and grown while it is mounted`,
    { skip: needsFileSystem(fileSystem, grower) },
    async (t) => {
      const one = disk(t, sizeMebibytes);
      assert.deepEqual(await mount(one, { fileSystem }), { formatted: true });
      assert.equal(mountOf(readMountTable(), one.target)?.fileSystem, fileSystem);
      assert.deepEqual(mountPointsOf(one.device), [one.target]);
      const before = statfsSync(one.target).blocks;
      growFile(one.file, sizeMebibytes + 64);
      execFileSync('losetup', ['-c', one.device.path]);
      await growFileSystem(systemPrograms(), one.device, one.target, signal);
      assert.ok(statfsSync(one.target).blocks > before);
      await growFileSystem(systemPrograms(), one.device, one.target, signal);
    },
  );
}

test('a device that is mounted read-only is never written to', { skip }, async (t) => {
  const empty = disk(t);
  await assert.rejects(mount(empty, { options: ['ro'] }), {
    reason: 'UnformattedReadOnly',
    message: `cannot mount unformatted disk ${empty.device.path} as we are manipulating it in read-only mode`,
  });
  assert.ok(await isBlank(empty.device));

  const full = disk(t, 16, mkfs());
  const before = readFileSync(full.file);
  await mount(full, { options: ['ro', 'noload'] });
  await unmount(full);
  assert.ok(readFileSync(full.file).equals(before));
});

test('another file system is not overwritten, and the error says what is there', { skip }, async (t) => {
  const one = disk(t, 16, mkfs());
  const before = readFileSync(one.file);
  await assert.rejects(mount(one, { fileSystem: 'xfs', options: ['ro'] }), (error: Error & { reason?: string }) => {
    assert.equal(error.reason, 'FilesystemMismatch');
    assert.match(
      error.message,
      /^mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t xfs -o ro,defaults /,
    );
    const { path } = one.device;
    assert.ok(error.message.endsWith(`\nConfigured to mount disk ${path} as xfs but current format is ext4`));
    return true;
  });
  assert.ok(readFileSync(one.file).equals(before));
});

test('a partition table is not overwritten', { skip }, async (t) => {
  const one = disk(t, 16, (file) => {
    const table = Buffer.alloc(512);
    table.set([0x80, 0, 2, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 32, 0, 0], 446);
    table.set([0x55, 0xaa], 510);
    writeAt(file, 0, table);
  });
  assert.equal(await diskFormatOf(systemPrograms(), one.device, signal), partitioned);
  const before = readFileSync(one.file);
  await assert.rejects(mount(one), { reason: 'FilesystemMismatch' });
  assert.ok(readFileSync(one.file).equals(before));
});

test('a damaged file system is repaired before it is mounted, and that is reported', { skip }, async (t) => {
  const one = disk(t, 16, mkfs());
  // Says that it has errors: fsck -a then checks everything.
  execFileSync('debugfs', ['-w', '-R', 'set_super_value state 2', one.device.path], { stdio: 'ignore' });
  execFileSync('debugfs', ['-w', '-R', 'set_super_value free_blocks_count 7', one.device.path], { stdio: 'ignore' });
  const { formatted, repaired } = await mount(one);
  assert.equal(formatted, false);
  assert.match(repaired ?? '', /contains a file system with errors, check forced/);
});

test('errors that fsck cannot correct are reported in its words, and nothing is mounted', { skip }, async (t) => {
  const one = disk(t, 16, mkfs('-O', '^has_journal'));
  // The root directory becomes a plain file, which is not for a program to decide on.
  execFileSync('debugfs', ['-w', '-R', 'set_inode_field <2> mode 0100644', one.device.path], { stdio: 'ignore' });
  execFileSync('debugfs', ['-w', '-R', 'set_super_value state 2', one.device.path], { stdio: 'ignore' });
  await assert.rejects(mount(one), (error: Error & { reason?: string }) => {
    assert.equal(error.reason, 'HasFilesystemErrors');
    assert.ok(
      error.message.startsWith(`'fsck' found errors on device ${one.device.path} but could not correct them: `),
    );
    assert.match(error.message, /UNEXPECTED INCONSISTENCY/);
    return true;
  });
  assert.ok(!isInMountTable(one.target));
});

for (const fileSystem of ['../../bin/true', 'ext4,xfs', 'a b', '-t', 'x'.repeat(40), 'ext4\n']) {
  test(`${JSON.stringify(fileSystem)} is not a file system, and no program is run for it`, async () => {
    const programs: Programs = { run: () => assert.fail('a program was run') };
    const settings = { device: { path: '/dev/null', numbers: '1:3' }, target: '/nowhere', fileSystem, options: [] };
    await assert.rejects(mountDevice(programs, settings, signal), { reason: 'InvalidFileSystemType' });
  });
}

test('mkfs that fails says why, and nothing is mounted', { skip }, async (t) => {
  const one = disk(t, 1);
  growFile(one.file, 0);
  execFileSync('losetup', ['-c', one.device.path]);
  await assert.rejects(mount(one, { options: ['noatime'] }), (error: Error & { reason?: string }) => {
    assert.equal(error.reason, 'FormatFailed');
    const start = `format of disk "${one.device.path}" failed: type:("ext4") target:("${one.target}") options:("noatime,defaults") errcode:(exit status 1) output:(`;
    assert.ok(error.message.startsWith(start), error.message);
    return true;
  });
  assert.deepEqual(leftBelow(one.directory), [one.device.path]);
});

test('a device that cannot be read is not taken for an empty one', { skip }, async (t) => {
  const one = disk(t);
  const gone = { path: `${one.device.path}-gone`, numbers: one.device.numbers };
  await assert.rejects(diskFormatOf(systemPrograms(), gone, signal), { reason: 'SystemCallFailed' });
});

/** What was begun, in memory. */
function mark(begun = false): FormatMark & { readonly calls: string[] } {
  const calls: string[] = [];
  return {
    calls,
    begin: () => void calls.push('begin'),
    end: () => void calls.push('end'),
    wasBegun: () => begun,
  };
}

const blankCases: { it: string; content: (file: string) => void; begun?: boolean; fails: boolean }[] = [
  { it: 'zeros are formatted', content: () => undefined, fails: false },
  { it: 'text at the start is not', content: (file) => writeAt(file, 0, Buffer.from('root:x:0:0')), fails: true },
  { it: 'bytes at the end are not', content: (file) => writeAt(file, 16 * 2 ** 20 - 1, Buffer.from('!')), fails: true },
  {
    it: 'what an earlier attempt began to format is',
    content: (file) => writeAt(file, 4096, Buffer.from('half a file system')),
    begun: true,
    fails: false,
  },
];
for (const { it, content, begun = false, fails } of blankCases) {
  test(`of files that may belong to a user ${it}`, { skip }, async (t) => {
    const one = disk(t, 16, content);
    const blankOnly = mark(begun);
    if (!fails) {
      assert.deepEqual(await mount(one, { blankOnly }), { formatted: true });
      assert.deepEqual(blankOnly.calls, ['begin', 'end']);
      return;
    }
    const before = readFileSync(one.file);
    await assert.rejects(mount(one, { blankOnly }), { reason: 'NotBlank' });
    assert.deepEqual(blankOnly.calls, []);
    assert.ok(readFileSync(one.file).equals(before));
  });
}

test('an ext4 on a device that has grown grows before it is mounted, when more is wanted', { skip }, async (t) => {
  const one = disk(t, 8, mkfs());
  growFile(one.file, 16);
  execFileSync('losetup', ['-c', one.device.path]);
  await mount(one, { sizeBytes: 8n * mebibyte });
  assert.equal(await extSizeBytes(one.device), 8n * mebibyte);
  writeFileSync(join(one.target, 'data'), 'precious');
  await unmount(one);
  mkdirSync(one.target);
  await mount(one, { sizeBytes: 16n * mebibyte });
  assert.equal(await extSizeBytes(one.device), 16n * mebibyte);
  assert.equal(readFileSync(join(one.target, 'data'), 'utf8'), 'precious');
});

test('growing a mounted ext4 works or says why not, and never pretends', { skip }, async (t) => {
  const one = disk(t, 8);
  await mount(one);
  growFile(one.file, 16);
  execFileSync('losetup', ['-c', one.device.path]);
  try {
    await growFileSystem(systemPrograms(), one.device, one.target, signal);
  } catch (error) {
    // The kernel asks for CAP_SYS_RESOURCE.
    assert.ok(error instanceof Error);
    assert.match(error.message, /^resize of device \/dev\/loop\d+ failed: exit status 1\. resize2fs output: /);
    assert.match(error.message, /Permission denied|Operation not permitted/);
    await unmount(one);
    await growFileSystem(systemPrograms(), one.device, one.target, signal);
  }
  assert.equal(await extSizeBytes(one.device), 16n * mebibyte);
  await growFileSystem(systemPrograms(), one.device, one.target, signal);
});

test('a file system that cannot be grown is reported', { skip }, async (t) => {
  const one = disk(t, 8, (file) => void execFileSync('mkfs.ext4', ['-q', '-F', '-t', 'ext2', file]));
  await assert.rejects(growFileSystem(systemPrograms(), one.device, one.target, signal), {
    reason: 'FileSystemResizeFailed',
    message: `ResizeFS.Resize - resize of format ext2 is not supported for device ${one.device.path} mounted at ${one.target}`,
  });
});

test('a device has the kernel’s name and size, whatever link leads to it', { skip }, async (t) => {
  const { directory, device } = disk(t, 3);
  symlinkSync(device.path, join(directory, 'by-id'));
  assert.deepEqual(blockDeviceAt(join(directory, 'by-id')), device);
  assert.equal(deviceSizeBytes(device), 3n * mebibyte);
  for (const path of [join(directory, 'disk.img'), join(directory, 'gone'), '/dev/null']) {
    assert.throws(() => blockDeviceAt(path), { reason: 'NotABlockDevice' });
  }
});

test('device numbers are those of the kernel', () => {
  assert.equal(deviceNumbers(65024n), '254:0');
  assert.equal(deviceNumbers((1n << 44n) | 0xfff00n | 0x34n | (0x12n << 20n)), '8191:4660');
});

test('unmounting takes all that is mounted there, removes the directory, and may be repeated', { skip }, async (t) => {
  const one = disk(t);
  await mount(one);
  await runMount(systemPrograms(), { source: 'none', target: one.target, fileSystem: 'tmpfs', options: [] }, signal);
  await unmount(one);
  await unmount(one);
  assert.deepEqual(readdirSync(one.directory), ['disk.img']);
});

test('what is in use is not unmounted, in the kubelet’s words', { skip }, async (t) => {
  const one = disk(t);
  await mount(one);
  const open = openSync(join(one.target, 'busy'), 'w');
  try {
    await assert.rejects(unmount(one), (error: Error) => {
      assert.ok(
        error.message.startsWith(`unmount failed: exit status 32\nUnmounting arguments: ${one.target}\nOutput: `),
      );
      return true;
    });
  } finally {
    closeSync(open);
  }
  await unmount(one);
});

function writeAt(file: string, offset: number, bytes: Buffer): void {
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, bytes, 0, bytes.length, offset);
  closeSync(descriptor);
}
