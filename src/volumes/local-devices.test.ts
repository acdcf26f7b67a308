/** Raw block devices and growing file systems, the whole way: real loop devices, the local plugin and the manager. */
import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  readlinkSync,
  statfsSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { Turns } from '../base/turns.ts';
import { SystemDevices, blockDeviceAt, deviceSizeBytes } from '../disk/devices/block-device.ts';
import { BlockMappings } from '../disk/devices/block-mappings.ts';
import { systemPrograms } from '../disk/devices/programs.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { localPlugin } from '../plugins/local.ts';
import { buildDevices } from '../pods/view/container-view.ts';
import {
  directoryForDevices,
  foreignLoopDevice,
  growFile,
  leftBelow,
  loopDevicesBelow,
  needsDevices,
  needsFileSystem,
  sparseFile,
} from '../testing/machine/devices.ts';
import {
  FakeClaims,
  ScriptedClaimWriter,
  VolumeWorld,
  claimVolume,
  podUsing,
  podWithDevices,
} from '../testing/worlds/volume-world.ts';
import type { BlockMapper } from './block.ts';
import type { VolumeNotice } from './notices.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const { signal } = new AbortController();
const diskName = asVolumeName('kubernetes.io/local-volume/disk');
const mebibyte = 1024n * 1024n;
const attemptsMax = 8;

const isBusy = (failure: string): boolean => failure.includes('the device is in use');

class DeviceWorld extends VolumeWorld {
  readonly root: string;
  readonly storage: string;
  readonly bound: FakeClaims;
  readonly #checks = new Set<() => void>();

  constructor(t: TestContext) {
    const directory = directoryForDevices(t);
    const root = join(directory, 'root');
    const [mounts, programs, clock] = [systemMounts(), systemPrograms(), systemClock];
    const mapper: BlockMapper = new BlockMappings({ mounts, programs, clock });
    const claims = new FakeClaims();
    const writer = new ScriptedClaimWriter(claims.claims);
    let told = (_notice: VolumeNotice): void => {};
    super(t, {
      root,
      plugins: [localPlugin({ mounts, programs, clock, root, turns: new Turns(() => 0), notify: () => {} })],
      deps: {
        claims,
        notify: (notice) => told(notice),
        devices: new SystemDevices(),
        blockMapper: mapper,
        claimWriter: writer,
      },
    });
    this.root = root;
    this.storage = directory;
    this.bound = claims;
    told = (notice) => {
      this.notices.push(notice);
      for (const check of this.#checks) check();
    };
  }

  /** Checks again at every notice of the manager: how long the system's programs take is unknown. */
  async until(isSo: () => boolean): Promise<void> {
    let check = (): void => {};
    let late: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        check = () => void (isSo() && resolve());
        late = setTimeout(() => reject(new Error(`it took too long: ${this.failures().join('\n')}`)), 120_000);
        this.#checks.add(check);
        check();
      });
    } finally {
      this.#checks.delete(check);
      clearTimeout(late);
    }
  }

  bind(path: string, spec: Partial<PersistentVolume['spec']>): void {
    const capacity = { storage: '16Mi' };
    this.bound.bind('disk', { capacity });
    const claimRef = { namespace: 'shop', name: 'disk', uid: 'uid-disk' };
    const accessModes = ['ReadWriteOnce'];
    const volume = { volumeMode: 'Filesystem', accessModes, capacity, claimRef, ...spec };
    const local = { path, ...volume.local };
    this.bound.volumes.set('disk', { metadata: { name: 'disk' }, spec: { ...volume, local } });
  }

  /** The administrator made the file larger and says so. */
  grow(path: string, sizeMebibytes: number): void {
    growFile(path, sizeMebibytes);
    const volume = this.bound.volumes.get('disk');
    assert.ok(volume);
    const capacity = { storage: `${sizeMebibytes}Mi` };
    this.bound.volumes.set('disk', { ...volume, spec: { ...volume.spec, capacity } });
  }

  async mount(pod: Pod): Promise<void> {
    this.pods.put(pod);
    await this.manager.waitForMounted(pod, signal);
  }

  async unmount(...uids: readonly string[]): Promise<void> {
    await this.remove(...uids);
    for (const uid of uids) await this.manager.waitForReleased(asPodUid(uid), signal);
  }

  /**
   * A program that is started elsewhere in a mount namespace of its own has a copy of every mount for a moment, and with it the
   * device: then it is unmounted at a later attempt, for which the manager's clock has to go on.
   */
  async untilGone(): Promise<void> {
    const isGone = (): boolean => !this.manager.queries.isAttached(diskName);
    const busy = (): number => this.failures().filter(isBusy).length;
    for (let attempts = 1; attempts < attemptsMax && !isGone(); attempts += 1) {
      await this.until(() => isGone() || busy() >= attempts);
      if (!isGone()) await this.advance(1000 * 2 ** attempts);
    }
    await this.until(isGone);
  }

  failures(): readonly string[] {
    return this.notices.flatMap((notice) => (notice.kind === 'OperationFailed' ? [notice.error.message] : []));
  }

  link(uid: string): string {
    return join(this.root, `pods/${uid}/volumeDevices/kubernetes.io~local-volume/disk`);
  }

  directory(uid: string): string {
    return join(this.root, `pods/${uid}/volumes/kubernetes.io~local-volume/disk`);
  }

  capacity(): unknown {
    return this.bound.claims.get('disk')?.status?.capacity?.['storage'];
  }
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

function fileSystemMebibytes(directory: string): number {
  const { blocks, bsize } = statfsSync(directory);
  return (blocks * bsize) / 1024 / 1024;
}

const device = (uid: string, readOnly = false) => podWithDevices(uid, [claimVolume('data', 'disk', readOnly)]);
const fileSystem = (uid: string) => podUsing(uid, [claimVolume('data', 'disk')]);

const kinds = [
  { it: 'a file', prepare: (file: string) => file, detached: true },
  { it: 'a device', prepare: (file: string) => foreignLoopDevice(file), detached: false },
];
for (const { it, prepare, detached } of kinds) {
  test(
    `${it} as a raw device: pods write and read it, and nothing of it stays`,
    { skip: needsDevices() },
    async (t) => {
      const world = new DeviceWorld(t);
      const file = sparseFile(world.storage, 'disk.img');
      world.bind(prepare(file), { volumeMode: 'Block' });
      await world.start();
      await world.mount(device('web'));
      const path = readlinkSync(world.link('web'));
      assert.match(path, /^\/dev\/loop\d+$/);
      write(world.link('web'), 'written by web');

      await world.mount(device('api', true));
      assert.equal(readlinkSync(world.link('api')), path);
      assert.equal(read(world.link('api'), 14), 'written by web');
      const mapPath = join(world.root, 'plugins/kubernetes.io~local-volume/volumeDevices/disk');
      assert.deepEqual(readdirSync(mapPath).toSorted(), ['api', 'web']);

      await world.unmount('web');
      assert.equal(existsSync(world.link('web')), false);
      assert.equal(read(world.link('api'), 14), 'written by web');
      await world.unmount('api');
      await world.untilGone();
      assert.equal(existsSync(mapPath), false);
      assert.equal(existsSync(world.link('api')), false);
      assert.deepEqual(leftBelow(world.root), []);
      assert.deepEqual(loopDevicesBelow(world.storage), detached ? [] : [path]);
      assert.equal(readFileSync(file, 'latin1').slice(0, 14), 'written by web');
      assert.deepEqual(
        world.failures().filter((failure) => !isBusy(failure)),
        [],
      );
    },
  );
}

test('a container is given the link, for reading where its pod may only read', { skip: needsDevices() }, async (t) => {
  const world = new DeviceWorld(t);
  world.bind(sparseFile(world.storage, 'disk.img'), { volumeMode: 'Block' });
  await world.start();
  const pod = device('web', true);
  await world.mount(pod);
  const { link, readOnly } = world.manager.queries.mountedVolumesOf(asPodUid('web')).get('data') ?? {};
  const volumes = new Map([['data', { kind: 'block', link, readOnly: readOnly === true } as const]]);
  const [container = { name: '' }] = pod.spec.containers;
  assert.deepEqual(buildDevices(container, volumes), [
    { name: 'data', devicePath: '/dev/data', hostPath: world.link('web'), permissions: 'r' },
  ]);
  await world.unmount('web');
  await world.untilGone();
});

test('a raw device that is really a directory is refused in words', { skip: needsDevices() }, async (t) => {
  const world = new DeviceWorld(t);
  world.bind(world.storage, { volumeMode: 'Block' });
  await world.start();
  await world.put(device('web'));
  assert.deepEqual(world.events(), [
    `FailedMapVolume: MapVolume.SetUpDevice failed for volume "disk" : Cannot use "${world.storage}" as a device: it is a directory`,
  ]);
  assert.deepEqual(world.states(), ['web/disk: not-mounted']);
});

test('a raw device that grows shows its size to those who have it', { skip: needsDevices() }, async (t) => {
  const world = new DeviceWorld(t);
  const file = sparseFile(world.storage, 'disk.img');
  world.bind(file, { volumeMode: 'Block' });
  await world.start();
  await world.mount(device('web'));
  const size = (): bigint => deviceSizeBytes(blockDeviceAt(world.link('web')));
  assert.equal(size(), 16n * mebibyte);
  world.grow(file, 24);
  await world.mount(device('web'));
  await world.until(() => world.capacity() === '24Mi');
  assert.equal(size(), 24n * mebibyte);
  await world.unmount('web');
  await world.untilGone();
  assert.deepEqual(leftBelow(world.storage), []);
});

const skipExt = needsDevices('mkfs.ext4', 'fsck', 'resize2fs', 'e2fsck');

test('a file that grew while no pod had it is a larger file system at the next mount', { skip: skipExt }, async (t) => {
  const world = new DeviceWorld(t);
  const file = sparseFile(world.storage, 'disk.img');
  world.bind(file, {});
  await world.start();
  await world.mount(fileSystem('web'));
  const before = fileSystemMebibytes(world.directory('web'));
  writeFileSync(join(world.directory('web'), 'data'), 'precious');
  await world.unmount('web');
  await world.untilGone();

  world.grow(file, 64);
  await world.mount(fileSystem('api'));
  const after = fileSystemMebibytes(world.directory('api'));
  assert.ok(before < 16 && after > 48, `from ${before} to ${after} MiB`);
  assert.equal(readFileSync(join(world.directory('api'), 'data'), 'utf8'), 'precious');
  assert.equal(world.capacity(), '64Mi');
  const told = 'FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "disk" node-1';
  assert.deepEqual(
    world.events().filter((event) => event.startsWith('FileSystemResize')),
    [told, told],
  );
  await world.unmount('api');
  await world.untilGone();
  assert.deepEqual(leftBelow(world.storage), []);
});

test('an ext4 that is mounted grows, or says why not and grows at the next mount', { skip: skipExt }, async (t) => {
  const world = new DeviceWorld(t);
  const file = sparseFile(world.storage, 'disk.img');
  world.bind(file, {});
  await world.start();
  await world.mount(fileSystem('web'));
  writeFileSync(join(world.directory('web'), 'data'), 'precious');
  world.grow(file, 64);
  await world.mount(fileSystem('web'));
  const failed = (): string | undefined => world.events().find((event) => event.startsWith('VolumeResizeFailed: '));
  await world.until(() => world.capacity() === '64Mi' || failed() !== undefined);
  const failure = failed();
  const last = failure === undefined ? 'web' : 'api';
  if (failure !== undefined) {
    // A kernel that asks for CAP_SYS_RESOURCE, where this process does not have it.
    assert.match(
      failure,
      /^VolumeResizeFailed: MountVolume\.NodeExpandVolume failed with resize of device \/dev\/loop\d+ failed: .* restart the pods that use it$/s,
    );
    t.diagnostic('this kernel does not grow a mounted ext4 for this process');
    assert.deepEqual(world.states(), ['web/disk: mounted']);
    await world.unmount('web');
    await world.untilGone();
    await world.mount(fileSystem(last));
  }
  assert.equal(world.capacity(), '64Mi');
  assert.ok(fileSystemMebibytes(world.directory(last)) > 48);
  assert.equal(readFileSync(join(world.directory(last), 'data'), 'utf8'), 'precious');
  await world.unmount(last);
  await world.untilGone();
  assert.deepEqual(leftBelow(world.storage), []);
});

/** The kernel refuses to resize a btrfs below 256 MiB, and mkfs makes no xfs below 300. */
const online = [
  { fsType: 'xfs', sizes: [320, 400], skip: needsFileSystem('xfs', 'xfs_growfs') },
  { fsType: 'btrfs', sizes: [320, 400], skip: needsFileSystem('btrfs', 'btrfs') },
] as const;
for (const { fsType, sizes, skip } of online) {
  test(`a mounted ${fsType} grows while a pod uses it`, { skip }, async (t) => {
    const world = new DeviceWorld(t);
    const [small, large] = sizes;
    const file = sparseFile(world.storage, 'disk.img', small);
    world.bind(file, { local: { path: file, fsType } });
    world.grow(file, small);
    await world.start();
    await world.mount(fileSystem('web'));
    const before = fileSystemMebibytes(world.directory('web'));
    const inUse = openSync(join(world.directory('web'), 'data'), 'w');
    try {
      world.grow(file, large);
      await world.mount(fileSystem('web'));
      await world.until(() => world.capacity() === `${large}Mi` || world.failures().length > 0);
    } finally {
      closeSync(inUse);
    }
    assert.deepEqual(world.failures(), []);
    assert.ok(fileSystemMebibytes(world.directory('web')) >= before + (large - small) / 2);
    await world.unmount('web');
    await world.untilGone();
    assert.deepEqual(leftBelow(world.storage), []);
  });
}
