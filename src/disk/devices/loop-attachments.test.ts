import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import {
  directoryForDevices,
  foreignLoopDevice,
  growFile,
  leftBelow,
  loopDevicesBelow,
  needsDevices,
  sparseFile,
  watchedPrograms,
} from '../../testing/machine/devices.ts';
import { blockDeviceAt, deviceSizeBytes } from './block-device.ts';
import { LoopAttachments } from './loop-attachments.ts';
import { type Programs, systemPrograms } from './programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

const skip = needsDevices();
const { signal } = new AbortController();

function world(
  t: TestContext,
  programs = systemPrograms(),
): { directory: string; records: string; attachments: LoopAttachments } {
  const directory = directoryForDevices(t);
  const records = join(directory, 'attached');
  return { directory, records, attachments: new LoopAttachments({ directory: records, programs, clock: systemClock }) };
}

test('a file is attached once, found again by later processes, and nothing of it stays', { skip }, async (t) => {
  const { directory, records, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img');
  const device = await attachments.attach('pv-1', file, signal);
  assert.match(device, /^\/dev\/loop\d+$/);
  assert.equal(await attachments.attach('pv-1', file, signal), device);
  assert.deepEqual(loopDevicesBelow(directory), [device]);

  const later = new LoopAttachments({ directory: records, programs: systemPrograms(), clock: systemClock });
  assert.deepEqual(
    later.all().map(({ name, path, isOurs }) => ({ name, path, isOurs })),
    [{ name: 'pv-1', path: file, isOurs: true }],
  );
  assert.equal(await later.deviceOf('pv-1', signal), device);
  assert.equal(await later.attach('pv-1', file, signal), device);
  await later.detach('pv-1', signal);
  await later.detach('pv-1', signal);
  assert.equal(execFileSync('losetup', ['-j', file], { encoding: 'utf8' }), '');
  assert.deepEqual([later.all(), readdirSync(records), leftBelow(directory)], [[], [], []]);
});

for (const name of ['with space.img', 'new\nline.img', '-f', 'quote".img', 'ünïcode.img', ' (deleted)']) {
  test(`a file named ${JSON.stringify(name)} is attached and released as any other`, { skip }, async (t) => {
    const { directory, attachments } = world(t);
    const file = sparseFile(directory, name, 1);
    const device = await attachments.attach('pv-1', file, signal);
    assert.deepEqual(loopDevicesBelow(directory), [device]);
    assert.equal(await attachments.attach('pv-1', file, signal), device);
    await attachments.detach('pv-1', signal);
    assert.deepEqual(leftBelow(directory), []);
  });
}

test('attaching at once from several sides makes one loop device', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  const names = ['a', 'b', 'a', 'c', 'b'];
  const devices = await Promise.all(names.map((name) => attachments.attach(name, file, signal)));
  assert.equal(new Set(devices).size, 1);
  assert.deepEqual(loopDevicesBelow(directory), [devices[0]]);
});

test('two names of one file share its loop device, and the last one releases it', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  const device = await attachments.attach('a', file, signal);
  assert.equal(await attachments.attach('b', file, signal), device);
  await attachments.detach('a', signal);
  assert.deepEqual(loopDevicesBelow(directory), [device]);
  await attachments.detach('b', signal);
  assert.deepEqual(leftBelow(directory), []);
});

test('a loop device that another process made is used, and not removed', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  const theirs = foreignLoopDevice(file);
  assert.equal(await attachments.attach('pv-1', file, signal), theirs);
  await attachments.detach('pv-1', signal);
  assert.deepEqual(loopDevicesBelow(directory), [theirs]);
  assert.deepEqual(attachments.all(), []);
});

const theirUse: { it: string; options: string[]; says: RegExp }[] = [
  {
    it: 'shows a part of the file',
    options: ['--offset', '4096'],
    says: /shows a part of it; release that loop device/,
  },
  { it: 'shows a limited part of the file', options: ['--sizelimit', '4096'], says: /shows a part of it/ },
];
for (const { it, options, says } of theirUse) {
  test(`a second loop device is not made beside one that ${it}`, { skip }, async (t) => {
    const { directory, attachments } = world(t);
    const file = sparseFile(directory, 'disk.img', 1);
    const theirs = foreignLoopDevice(file, ...options);
    await assert.rejects(attachments.attach('pv-1', file, signal), says);
    assert.deepEqual(loopDevicesBelow(directory), [theirs]);
    assert.deepEqual(attachments.all(), []);
  });
}

test('what is in use is not released in silence, and goes with its last user', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  const device = await attachments.attach('pv-1', file, signal);
  const holder = spawnHolder(device);
  await holder.ready;
  await assert.rejects(attachments.detach('pv-1', signal), {
    reason: 'AttachmentFailed',
    message: `Cannot release "${device}" of "${file}": in use; it goes with its last user, so unmount what is mounted from it`,
  });
  // It is about to go: neither used again, nor doubled.
  await assert.rejects(attachments.attach('pv-1', file, signal), /goes with its last user; unmount/);
  assert.deepEqual(loopDevicesBelow(directory), [device]);
  await holder.end();
  await attachments.detach('pv-1', signal);
  assert.deepEqual([attachments.all(), leftBelow(directory)], [[], []]);
});

test('a file that was deleted while it was attached is released all the same', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  await attachments.attach('pv-1', file, signal);
  unlinkSync(file);
  await attachments.detach('pv-1', signal);
  assert.deepEqual(leftBelow(directory), []);
});

test('another file under the same name waits until the first one is released', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const [old, next] = [sparseFile(directory, 'old.img', 1), sparseFile(directory, 'new.img', 1)];
  const device = await attachments.attach('pv-1', old, signal);
  await assert.rejects(
    attachments.attach('pv-1', next, signal),
    /another file, ".*old.img", is attached under that name/,
  );
  assert.deepEqual(loopDevicesBelow(directory), [device]);
});

test('a file is made larger without blocks, with its loop device, and never smaller', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img');
  const device = await attachments.attach('pv-1', file, signal);
  const size = (): bigint => deviceSizeBytes(blockDeviceAt(device));
  await attachments.grow('pv-1', 20_000_001n, signal);
  const { size: bytes, blocks } = statSync(file);
  assert.deepEqual([bytes, blocks, size()], [20_000_768, 0, 20_000_768n]);
  await attachments.grow('pv-1', 1024n, signal);
  assert.deepEqual([statSync(file).size, size()], [20_000_768, 20_000_768n]);
  await assert.rejects(attachments.grow('pv-1', 2n ** 60n, signal), { reason: 'StorageTooSmall' });
  await assert.rejects(attachments.grow('pv-2', 1024n, signal), /it has no loop device; attach it first/);
  assert.equal(statSync(file).size, 20_000_768);
  await attachments.detach('pv-1', signal);
});

test(
  'another file in the place of the attached one is not made larger, nor what a link leads to',
  { skip },
  async (t) => {
    const { directory, attachments } = world(t);
    const file = sparseFile(directory, 'disk.img');
    await attachments.attach('pv-1', file, signal);
    renameSync(file, join(directory, 'moved.img'));
    const other = sparseFile(directory, 'disk.img', 1);
    const grow = (): Promise<void> => attachments.grow('pv-1', 64n * 1024n ** 2n, signal);
    await assert.rejects(grow(), /another file was put in its place/);
    unlinkSync(file);
    symlinkSync(join(directory, 'moved.img'), file);
    await assert.rejects(grow(), { reason: 'AttachmentFailed' });
    assert.equal(statSync(other).size, 16 * 1024 ** 2);
    await attachments.detach('pv-1', signal);
  },
);

test('a file that has grown gives its loop device the new size when it is attached again', { skip }, async (t) => {
  const { directory, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  const device = await attachments.attach('pv-1', file, signal);
  growFile(file, 3);
  await attachments.attach('pv-1', file, signal);
  assert.equal(deviceSizeBytes(blockDeviceAt(device)), 3n * 1024n * 1024n);
});

const hostile: { it: string; make: (directory: string) => string; says: RegExp }[] = [
  {
    it: 'a link',
    make(directory) {
      sparseFile(directory, 'real.img', 1);
      symlinkSync(join(directory, 'real.img'), join(directory, 'disk.img'));
      return join(directory, 'disk.img');
    },
    says: /unexpected symlink found .*disk\.img$/,
  },
  {
    it: 'a file behind a link',
    make(directory) {
      mkdirSync(join(directory, 'real'));
      sparseFile(join(directory, 'real'), 'disk.img', 1);
      symlinkSync(join(directory, 'real'), join(directory, 'way'));
      return join(directory, 'way', 'disk.img');
    },
    says: /unexpected symlink found .*way$/,
  },
  { it: 'nothing', make: (directory) => join(directory, 'gone.img'), says: /no such file or directory$/ },
  { it: 'a directory', make: (directory) => directory, says: /it is not a regular file$/ },
  { it: 'a character device', make: () => '/dev/null', says: /it is not a regular file$/ },
  {
    it: 'a fifo',
    make(directory) {
      execFileSync('mkfifo', [join(directory, 'fifo')]);
      return join(directory, 'fifo');
    },
    says: /it is not a regular file$/,
  },
];
for (const { it, make, says } of hostile) {
  test(`${it} is not attached, and nothing is written down`, { skip }, async (t) => {
    const { directory, attachments } = world(t);
    await assert.rejects(attachments.attach('pv-1', make(directory), signal), (error) => {
      assert.ok(error instanceof DiskError && error.reason === 'AttachmentFailed');
      assert.match(error.message, says);
      return true;
    });
    assert.deepEqual([attachments.all(), leftBelow(directory)], [[], []]);
  });
}

for (const around of [(programs: Programs) => programs, watchedPrograms]) {
  const who = around === watchedPrograms ? ', also while others look at it' : '';
  test(`a file that is replaced while it is attached is detached again${who}`, { skip }, async (t) => {
    let exchange = (): void => undefined;
    const system = systemPrograms();
    const programs: Programs = {
      run(command, stop) {
        if (command.args.includes('--find')) exchange();
        return system.run(command, stop);
      },
    };
    const { directory, attachments } = world(t, around(programs));
    const file = sparseFile(directory, 'disk.img', 1);
    await attachments.attach('pv-0', file, signal);
    await attachments.detach('pv-0', signal);
    assert.deepEqual(leftBelow(directory), []);
    writeFileSync(join(directory, 'precious'), 'x'.repeat(4096));
    exchange = () => {
      renameSync(file, join(directory, 'away.img'));
      symlinkSync(join(directory, 'precious'), file);
    };
    await assert.rejects(attachments.attach('pv-1', file, signal), /another file was put in its place just now/);
    assert.deepEqual([attachments.all(), leftBelow(directory)], [[], []]);
  });
}

test(
  'a crash between writing down and attaching leaves something that is released without harm',
  { skip },
  async (t) => {
    const system = systemPrograms();
    const programs: Programs = {
      async run(command, stop) {
        if (command.args.includes('--find')) throw new Error('killed');
        return system.run(command, stop);
      },
    };
    const { directory, records, attachments } = world(t, programs);
    const file = sparseFile(directory, 'disk.img', 1);
    await assert.rejects(attachments.attach('pv-1', file, signal), /killed/);
    const later = new LoopAttachments({ directory: records, programs: system, clock: systemClock });
    assert.equal(later.find('pv-1')?.path, file);
    await later.detach('pv-1', signal);
    assert.deepEqual(later.all(), []);
  },
);

test(
  'of two processes that attach a file at once the second gives way, and uses what the first made',
  { skip },
  async (t) => {
    const system = systemPrograms();
    let theirs = '';
    const programs: Programs = {
      run(command, stop) {
        if (command.args.includes('--find')) theirs = foreignLoopDevice(command.args.at(-1) ?? '');
        return system.run(command, stop);
      },
    };
    const { directory, attachments } = world(t, programs);
    const file = sparseFile(directory, 'disk.img', 1);
    const device = await attachments.attach('pv-1', file, signal);
    // The lower number counts as first: theirs, unless another process released a lower one in between.
    assert.equal(attachments.find('pv-1')?.isOurs, device !== theirs);
    assert.ok(loopDevicesBelow(directory).includes(device));
    await attachments.detach('pv-1', signal);
    assert.deepEqual(loopDevicesBelow(directory), device === theirs ? [theirs] : []);
  },
);

test('drafts that a crash left go with the attachment', { skip }, async (t) => {
  const { directory, records, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  await attachments.attach('pv-1', file, signal);
  writeFileSync(join(records, 'pv-1', 'loop.0123456789ab.draft'), '{');
  await attachments.detach('pv-1', signal);
  assert.deepEqual(readdirSync(records), []);
});

test('what a crash left of an attachment that was never made goes, and what is attached stays', { skip }, async (t) => {
  const { directory, records, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  await attachments.attach('pv-1', file, signal);
  for (const [name, entry] of [
    ['pv-2', 'loop.0123456789ab.draft'],
    ['pv-3', 'formatting'],
  ] as const) {
    mkdirSync(join(records, name));
    writeFileSync(join(records, name, entry), '', { mode: 0o600 });
  }
  attachments.removeUnfinished();
  assert.deepEqual(readdirSync(records).sort(), ['pv-1', 'pv-3']);
  assert.equal(attachments.find('pv-1')?.path, file);
  await attachments.detach('pv-1', signal);
});

test('losetup that fails says why, and nothing is written down', { skip }, async (t) => {
  const system = systemPrograms();
  const programs: Programs = {
    run: (command, stop) =>
      command.args.includes('--find')
        ? Promise.resolve({ status: 1, stdout: '', stderr: 'losetup: cannot find an unused loop device\n' })
        : system.run(command, stop),
  };
  const { directory, attachments } = world(t, programs);
  const file = sparseFile(directory, 'disk.img', 1);
  await assert.rejects(attachments.attach('pv-1', file, signal), {
    message: `Cannot attach "${file}" to a loop device: losetup: cannot find an unused loop device (losetup: exit status 1)`,
  });
  assert.deepEqual(attachments.all(), []);
});

test('what was written down before the machine was started again says nothing', { skip }, async (t) => {
  const { directory, records, attachments } = world(t);
  const file = sparseFile(directory, 'disk.img', 1);
  mkdirSync(join(records, 'pv-1'), { recursive: true });
  const { ino } = statSync(file);
  const record = { path: file, device: '254:0', inode: String(ino), isOurs: true, boot: 'another' };
  writeFileSync(join(records, 'pv-1', 'loop'), JSON.stringify(record), { mode: 0o600 });
  const theirs = foreignLoopDevice(file);
  assert.equal(attachments.find('pv-1'), undefined);
  await attachments.detach('pv-1', signal);
  assert.deepEqual(loopDevicesBelow(directory), [theirs]);
});

for (const name of ['', '.', '..', '../x', 'a/b', 'a\0']) {
  test(`${JSON.stringify(name)} is not a valid name for an attachment`, { skip }, async (t) => {
    const { directory, attachments } = world(t);
    const file = sparseFile(directory, 'disk.img', 1);
    await assert.rejects(attachments.attach(name, file, signal), { reason: 'AttachmentUnreadable' });
    assert.deepEqual(leftBelow(directory), []);
    assert.ok(!existsSync(join(directory, 'x')));
  });
}

/** A process that has the device open until it is ended. */
function spawnHolder(device: string): { readonly ready: Promise<void>; end(): Promise<void> } {
  const child = spawn('sh', ['-c', 'exec 3<"$1"; echo ready; read wait', 'sh', device], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  return {
    ready: once(child.stdout, 'data').then(() => undefined),
    async end() {
      child.stdin.end();
      await ended;
    },
  };
}
