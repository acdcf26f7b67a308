import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import {
  directoryForDevices,
  foreignLoopDevice,
  leftBelow,
  loopDevicesBelow,
  needsDevices,
  sparseFile,
  untilFree,
  watchedPrograms,
} from '../../testing/machine/devices.ts';
import { MountNamespace } from '../../testing/machine/mount-namespace.ts';
import { mountPointsBelow, unavailableMounts } from '../../testing/machine/temporary-directory.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { MountPointBelowError } from '../paths/remove-tree.ts';
import { SystemDevices, blockDeviceAt } from './block-device.ts';
import { BlockMappings, type NewMapping } from './block-mappings.ts';
import { LoopDevices } from './loop-devices.ts';
import { systemPrograms } from './programs.ts';

const skip = needsDevices();
const { signal } = new AbortController();
const mounts = systemMounts();

class DeviceWorld {
  readonly directory: string;
  readonly mapPath: string;
  readonly device: string;
  readonly mappings: BlockMappings;

  constructor(t: TestContext, clock = systemClock, programs = systemPrograms()) {
    this.directory = directoryForDevices(t);
    this.mapPath = join(this.directory, 'plugins/volumeDevices/disk');
    this.device = this.newDevice('disk.img');
    this.mappings = new BlockMappings({ mounts, programs, clock });
  }

  newDevice(name: string): string {
    return foreignLoopDevice(sparseFile(this.directory, name));
  }

  mapping(podUid: string, devicePath = this.device): NewMapping {
    return { devicePath, mapPath: this.mapPath, podUid, link: this.link(podUid) };
  }

  link(podUid: string): string {
    return join(this.directory, `pods/${podUid}/volumeDevices/example.com~disk/disk`);
  }

  place(podUid: string): string {
    return join(this.mapPath, podUid);
  }

  /** Loop devices that keep a pod's bind mount open. */
  locks(): readonly string[] {
    return loopDevicesBelow(this.mapPath);
  }
}

function numbersOf(path: string): string {
  return blockDeviceAt(path).numbers;
}

function write(path: string, text: string): void {
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, text, 0);
  closeSync(descriptor);
}

function read(path: string, bytes: number): string {
  const buffer = Buffer.alloc(bytes);
  const descriptor = openSync(path, 'r');
  readSync(descriptor, buffer, 0, bytes, 0);
  closeSync(descriptor);
  return buffer.toString();
}

test('a device is bound, linked and kept open for a pod, and nothing of that stays', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const { mappings, device, mapPath } = world;
  await mappings.map(world.mapping('one'), signal);
  assert.equal(readlinkSync(world.link('one')), device);
  assert.equal(numbersOf(world.place('one')), numbersOf(device));
  assert.equal(lstatSync(mapPath).mode & 0o777, 0o750);
  const [lock = '', ...more] = world.locks();
  assert.deepEqual(more, []);
  assert.equal(readFileSync(`/sys/block/${lock.slice('/dev/'.length)}/ro`, 'utf8').trim(), '1');
  write(world.link('one'), 'through the link');
  assert.equal(read(device, 16), 'through the link');

  await mappings.unmap(world.mapping('one'), signal);
  assert.deepEqual([existsSync(world.link('one')), existsSync(world.place('one')), world.locks()], [false, false, []]);
  assert.deepEqual(mountPointsBelow(world.directory), []);
  await mappings.remove(mapPath);
  assert.equal(existsSync(mapPath), false);
});

test('two pods have bind mounts and locks of their own of one device', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const { mappings, mapPath } = world;
  await mappings.map(world.mapping('one'), signal);
  await mappings.map(world.mapping('two'), signal);
  assert.equal(world.locks().length, 2);
  write(world.link('one'), 'shared');
  assert.equal(read(world.link('two'), 6), 'shared');
  assert.deepEqual((await mappings.referencesBelow(mapPath)).toSorted(), [world.place('one'), world.place('two')]);
  await assert.rejects(mappings.remove(mapPath), MountPointBelowError);

  await mappings.unmap(world.mapping('one'), signal);
  assert.deepEqual(await mappings.referencesBelow(mapPath), [world.place('two')]);
  assert.equal(world.locks().length, 1);
  assert.equal(read(world.link('two'), 6), 'shared');
  await mappings.unmap(world.mapping('two'), signal);
  assert.deepEqual(await mappings.referencesBelow(mapPath), []);
  assert.deepEqual(leftBelow(mapPath), []);
});

test('mapping and unmapping again changes nothing', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const { mappings, mapPath } = world;
  await mappings.map(world.mapping('one'), signal);
  const before = [mountPointsBelow(world.directory), world.locks(), lstatSync(world.link('one')).ino];
  await mappings.map(world.mapping('one'), signal);
  assert.deepEqual([mountPointsBelow(world.directory), world.locks(), lstatSync(world.link('one')).ino], before);
  await mappings.unmap(world.mapping('one'), signal);
  await mappings.unmap(world.mapping('one'), signal);
  await mappings.remove(mapPath);
  await mappings.unmap(world.mapping('one'), signal);
  await mappings.remove(mapPath);
  assert.deepEqual(await mappings.referencesBelow(mapPath), []);
  assert.deepEqual(leftBelow(mapPath), []);
});

const halfDone: readonly { readonly it: string; readonly prepare: (world: DeviceWorld) => void }[] = [
  { it: 'the file of the bind mount alone', prepare: () => {} },
  { it: 'the bind mount', prepare: (world) => mounts.bind(world.device, world.place('one')) },
  {
    it: 'a link of another boot',
    prepare(world) {
      mkdirSync(join(world.link('one'), '..'), { recursive: true });
      symlinkSync('/dev/other', world.link('one'));
    },
  },
  {
    it: 'two bind mounts over each other',
    prepare(world) {
      mounts.bind(world.device, world.place('one'));
      mounts.bind(world.device, world.place('one'));
    },
  },
];
for (const { it, prepare } of halfDone) {
  test(`what a crash leaves is completed and taken away: ${it}`, { skip }, async (t) => {
    const world = new DeviceWorld(t);
    mkdirSync(world.mapPath, { recursive: true });
    writeFileSync(world.place('one'), '');
    prepare(world);
    await world.mappings.map(world.mapping('one'), signal);
    assert.equal(readlinkSync(world.link('one')), world.device);
    assert.equal(numbersOf(world.place('one')), numbersOf(world.device));
    assert.equal(world.locks().length, 1);
    await world.mappings.unmap(world.mapping('one'), signal);
    assert.deepEqual(leftBelow(world.mapPath), []);
    assert.deepEqual(readdirSync(world.mapPath), []);
  });
}

test('a bind mount of another device is replaced, and its lock with it', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const other = world.newDevice('other.img');
  await world.mappings.map(world.mapping('one', other), signal);
  await world.mappings.map(world.mapping('one'), signal);
  assert.equal(numbersOf(world.place('one')), numbersOf(world.device));
  assert.equal(readlinkSync(world.link('one')), world.device);
  assert.equal(world.locks().length, 1);
  const find = async (): Promise<string[]> => loopDevicesBelow(world.directory).filter((device) => device === other);
  const left = await new LoopDevices(systemPrograms()).releaseAll(find, systemClock, signal);
  assert.deepEqual(left, [], 'nothing keeps the other device open');
  await world.mappings.unmap(world.mapping('one'), signal);
});

test('an open lock keeps the bind mount, with an error, until it is closed', { skip }, async (t) => {
  let looks = 0;
  let isHeld = true;
  const world = new DeviceWorld(t, {
    ...systemClock,
    // Others may look at it too, after this test has closed it.
    sleep: async (ms) => (isHeld ? void (looks += 1) : await systemClock.sleep(ms)),
  });
  await world.mappings.map(world.mapping('one'), signal);
  const [lock = ''] = world.locks();
  const descriptor = openSync(lock, 'r');
  try {
    await assert.rejects(world.mappings.unmap(world.mapping('one'), signal), {
      reason: 'BlockMappingFailed',
      message: `Cannot release "${lock}", which keeps "${world.place('one')}" open: in use; see who has it open (fuser -v ${lock})`,
    });
    assert.equal(looks, 20);
    assert.equal(readlinkSync(world.link('one')), world.device);
  } finally {
    closeSync(descriptor);
  }
  isHeld = false;
  await world.mappings.unmap(world.mapping('one'), signal);
  assert.deepEqual(leftBelow(world.mapPath), []);
});

test('a lock that others look at for a moment is released all the same', { skip }, async (t) => {
  const world = new DeviceWorld(t, systemClock, watchedPrograms(systemPrograms()));
  for (let round = 0; round < 3; round += 1) {
    await world.mappings.map(world.mapping('one'), signal);
    await world.mappings.unmap(world.mapping('one'), signal);
    assert.deepEqual(leftBelow(world.mapPath), []);
  }
});

test('a device is found behind links, also where the root directory has one', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const alias = join(world.directory, 'by-id');
  symlinkSync(world.device, alias);
  assert.equal(await world.mappings.resolve(alias), world.device);
  await assert.rejects(world.mappings.resolve(join(world.directory, 'gone')), { reason: 'SystemCallFailed' });

  const linkedRoot = join(world.directory, 'root');
  mkdirSync(join(world.directory, 'plugins'));
  symlinkSync(join(world.directory, 'plugins'), linkedRoot);
  const mapping = { ...world.mapping('one'), mapPath: join(linkedRoot, 'volumeDevices/disk') };
  await world.mappings.map(mapping, signal);
  await world.mappings.map(mapping, signal);
  assert.equal(world.locks().length, 1);
  await world.mappings.unmap(mapping, signal);
  assert.deepEqual(leftBelow(world.mapPath), []);
});

test(
  'a path that is not a device, and a pod UID that is a path, are refused before anything is made',
  { skip },
  async (t) => {
    const world = new DeviceWorld(t);
    const file = sparseFile(world.directory, 'plain');
    await assert.rejects(world.mappings.map(world.mapping('one', file), signal), {
      message: `Cannot use "${file}": it is not a block device`,
    });
    assert.equal(existsSync(world.mapPath), false);
    for (const podUid of ['', '.', '..', '../one', 'a\0b']) {
      await assert.rejects(
        world.mappings.map({ ...world.mapping('one'), podUid }, signal),
        { reason: 'BlockMappingFailed' },
        JSON.stringify(podUid),
      );
    }
    assert.equal(existsSync(world.mapPath), false);
  },
);

test('something else in the place of the link is left alone when the device goes', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  await world.mappings.map(world.mapping('one'), signal);
  execFileSync('rm', [world.link('one')]);
  writeFileSync(world.link('one'), 'precious');
  await world.mappings.unmap(world.mapping('one'), signal);
  assert.equal(readFileSync(world.link('one'), 'utf8'), 'precious');
});

test('a process that cannot mount says so and makes nothing', { skip }, async (t) => {
  const world = new DeviceWorld(t);
  const mappings = new BlockMappings({ mounts: unavailableMounts(), programs: systemPrograms(), clock: systemClock });
  await assert.rejects(mappings.map(world.mapping('one'), signal), {
    message: `Cannot map "${world.device}" for a pod: mounts are switched off in this test`,
  });
  assert.equal(existsSync(world.mapPath), false);
});

test('a device is in use while a file system of it is mounted', { skip: needsDevices('mkfs.ext4') }, async (t) => {
  const world = new DeviceWorld(t);
  const devices = new SystemDevices();
  assert.equal(await devices.isDevice(world.device), true);
  await untilFree(world.device);
  assert.equal(await devices.isOpen(world.device), false);
  execFileSync('mkfs.ext4', ['-q', world.device]);
  const target = join(world.directory, 'mounted');
  mkdirSync(target);
  execFileSync('mount', [world.device, target]);
  assert.equal(await devices.isOpen(world.device), true);
  // Its copy of the mount goes with ours.
  await MountNamespace.start(t, { directory: world.directory, hostPaths: [] });
  mounts.unmount(target);
  await untilFree(world.device);
  assert.equal(await devices.isOpen(world.device), false);
});

test('a path that is not a device, or is gone, is not in use', async () => {
  const devices = new SystemDevices();
  assert.equal(await devices.isDevice('/proc/self/status'), false);
  assert.equal(await devices.isDevice('/dev/mountlet-no-such-device'), false);
  assert.equal(await devices.isDevice('/proc/self/status/below-a-file'), false);
  assert.equal(await devices.isOpen('/dev/mountlet-no-such-device'), false);
  assert.equal(await devices.isDevice('/dev/null'), true);
  assert.equal(await devices.isOpen('/dev/null'), false);
});
