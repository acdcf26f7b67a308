/** Local volumes on devices, the whole way: attach, mount on the node, set up for pods, and back. With real loop devices. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { Turns } from '../base/turns.ts';
import { blockDeviceAt, deviceSizeBytes } from '../disk/devices/block-device.ts';
import { extSizeBytes } from '../disk/devices/device-mount.ts';
import { ProgramTimeoutError, type Programs, systemPrograms } from '../disk/devices/programs.ts';
import { mountOf, readMountTable } from '../disk/mounts/mount-table.ts';
import type { LocalVolumeSource, PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { type PersistentVolumeSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import {
  directoryForDevices,
  foreignLoopDevice,
  growFile,
  leftBelow,
  loopDevicesBelow,
  needsDevices,
  sparseFile,
} from '../testing/machine/devices.ts';
import { mountPointsBelow } from '../testing/machine/temporary-directory.ts';
import { VolumeNode, modeOf, testPod } from '../testing/worlds/volume-node.ts';
import { LocalDeviceError } from './local-storage.ts';
import { localPlugin } from './local.ts';
import {
  type Attach,
  type BlockMapping,
  type DeviceMount,
  type Expand,
  type NodeAttach,
  type SetUpRequest,
  type VolumePlugin,
  expansionRefusalOf,
  failureClassOf,
} from './plugin.ts';

const skip = needsDevices('mkfs.ext4', 'fsck', 'resize2fs');
const { signal } = new AbortController();
const mebibyte = 1024n * 1024n;

function volume(path: string, more: Partial<PersistentVolume['spec']> = {}, readOnly = false): PersistentVolumeSpec {
  return persistentSpec(
    { metadata: { name: 'disk-1' }, spec: { volumeMode: 'Filesystem', local: { path }, ...more } },
    readOnly,
  );
}

interface Local extends VolumePlugin<LocalVolumeSource> {
  readonly attach: Attach<LocalVolumeSource> & { readonly byNodeAlone: NodeAttach<LocalVolumeSource> };
  readonly leftBehind: NonNullable<VolumePlugin['leftBehind']>;
  readonly deviceMount: DeviceMount<LocalVolumeSource>;
  readonly block: BlockMapping<LocalVolumeSource>;
  readonly expand: Expand<LocalVolumeSource>;
}

/** A node with its storage beside it, and the steps of a volume manager. */
class DeviceNode extends VolumeNode {
  readonly storage: string;
  readonly plugin: Local;

  constructor(t: TestContext, settings: { root?: string; storage?: string; programs?: Programs } = {}) {
    super(t, { root: settings.root ?? directoryForDevices(t) });
    this.storage = settings.storage ?? directoryForDevices(t);
    const { mounts, root, notices } = this;
    const { programs = systemPrograms() } = settings;
    const notify = (one: (typeof notices)[number]): number => notices.push(one);
    const plugin = localPlugin({ mounts, root, programs, clock: systemClock, turns: new Turns(() => 0), notify });
    this.plugin = plugin as Local;
  }

  get onNode(): string {
    return join(this.root, 'plugins/kubernetes.io/local-volume/mounts/disk-1');
  }

  get inPod(): string {
    return this.directoryOf(this.plugin, 'disk-1');
  }

  attach(spec: PersistentVolumeSpec): Promise<string> {
    return this.plugin.attach.byNodeAlone.attach(
      { spec, source: sourceOf(spec), pod: testPod(), devicePath: '' },
      signal,
    );
  }

  mount(spec: PersistentVolumeSpec, devicePath?: string): Promise<void> {
    const { deviceMount } = this.plugin;
    const path = deviceMount.pathOf(sourceOf(spec), spec);
    return deviceMount.mount({ spec, source: sourceOf(spec), path, devicePath }, signal);
  }

  expand(spec: PersistentVolumeSpec, sizeBytes = 0n): Promise<boolean> {
    const request = { spec, source: sourceOf(spec), directory: this.inPod, sizeBytes };
    return this.plugin.expand.expand(request, signal);
  }

  async start(spec: PersistentVolumeSpec, more: Partial<SetUpRequest<LocalVolumeSource>> = {}): Promise<void> {
    const { attach } = this.plugin;
    if (attach.canAttach(sourceOf(spec), spec)) await this.attach(spec);
    await this.mount(spec);
    await this.setUp(this.plugin, spec, more);
  }

  async stop(): Promise<void> {
    await this.tearDown(this.plugin, 'disk-1');
    await this.release();
  }

  async release(): Promise<void> {
    await this.plugin.deviceMount.unmount(this.onNode, signal);
    await this.plugin.attach.byNodeAlone.detach('disk-1', signal);
  }
}

function sourceOf(spec: PersistentVolumeSpec): LocalVolumeSource {
  const { local } = spec.persistentVolume.spec;
  assert.ok(local !== undefined);
  return local;
}

test('a file goes the whole way to the pod and back, keeps what is in it, and leaves nothing', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img');
  const spec = volume(file);
  await node.start(spec);
  const device = loopDevicesBelow(node.storage);
  assert.equal(device.length, 1);
  assert.deepEqual(mountPointsBelow(node.root).toSorted(), [node.inPod, node.onNode].toSorted());
  assert.deepEqual(await node.plugin.deviceMount.referencesTo(node.onNode, signal), [node.inPod]);
  assert.equal(modeOf(join(node.onNode, '..')), '750');
  assert.deepEqual(
    node.notices.map(({ kind, message }) => `${kind}: ${message}`),
    [`DeviceFormatted: Formatted ${device.join()} of volume "disk-1" as ext4`],
  );
  writeFileSync(join(node.inPod, 'data'), 'precious');

  // Each step again: nothing happens.
  const { attach } = node.plugin;
  const request = { spec, source: sourceOf(spec), pod: testPod(), devicePath: '' };
  assert.deepEqual([await attach.waitForAttach(request, signal)], device);
  await node.start(spec);
  assert.deepEqual(loopDevicesBelow(node.storage), device);
  assert.equal(mountPointsBelow(node.root).length, 2);

  await node.stop();
  await node.stop();
  assert.equal(execFileSync('losetup', ['-j', file], { encoding: 'utf8' }), '');
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
  assert.ok(!existsSync(node.onNode) && !existsSync(node.inPod));

  await node.start(spec);
  assert.equal(readFileSync(join(node.inPod, 'data'), 'utf8'), 'precious');
  assert.equal(node.notices.length, 1);
  await node.stop();
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
});

test(
  'a block device is formatted, mounted on the node, bound for pods, and not attached by us',
  { skip },
  async (t) => {
    const node = new DeviceNode(t);
    const device = foreignLoopDevice(sparseFile(node.storage, 'disk.img'));
    symlinkSync(device, join(node.storage, 'by-id'));
    const spec = volume(join(node.storage, 'by-id'), { mountOptions: ['noatime', 'data=ordered'] });
    const { attach, deviceMount } = node.plugin;
    assert.equal(attach.canAttach(sourceOf(spec), spec), false);
    assert.equal(deviceMount.identityOf(sourceOf(spec), spec), 'disk-1');
    assert.equal(deviceMount.pathOf(sourceOf(spec), spec), node.onNode);
    await node.start(spec);
    const entry = mountOf(readMountTable(), node.inPod);
    assert.deepEqual([entry?.source, entry?.fileSystem], [device, 'ext4']);
    assert.ok(entry?.options.includes('noatime'));
    await node.stop();
    assert.deepEqual(leftBelow(node.root), []);
    assert.deepEqual(loopDevicesBelow(node.storage), [device]);
  },
);

test('two pods share the device; their group is that of the first', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const spec = volume(sparseFile(node.storage, 'disk.img'));
  await node.start(spec, { fsGroup: 2000 });
  assert.equal(statSync(node.inPod).gid, 2000);
  assert.equal(modeOf(node.inPod), '2775');
  const directory = volumeDirectory(node.root, 'uid-2', node.plugin.name, 'disk-1');
  const pod = testPod({}, { name: 'second', uid: 'uid-2' });
  await node.setUp(node.plugin, spec, { pod, directory, fsGroup: 3000 });
  assert.equal(statSync(directory).gid, 2000);
  assert.deepEqual(
    node.notices.flatMap((notice) => (notice.kind === 'PodWarning' ? [notice.message] : [])),
    ['The requested fsGroup is 3000, but the volume disk-1 has GID 2000. The volume may not be shareable.'],
  );
  assert.equal((await node.plugin.deviceMount.referencesTo(node.onNode, signal)).length, 2);
  await node.plugin.tearDown({ podUid: 'uid-2', volumeName: 'disk-1', directory }, signal);
  await node.stop();
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
});

test('a read-only claim is mounted read-only, on the node and in the pod', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img');
  await assert.rejects(node.start(volume(file, {}, true)), (error) => {
    assert.ok(error instanceof LocalDeviceError);
    assert.equal(error.reason, 'UnformattedReadOnly');
    const [device] = loopDevicesBelow(node.storage);
    assert.equal(
      error.message,
      `local: failed to mount device ${device} at ${node.onNode} (fstype: ext4), error cannot mount unformatted disk ${device} as we are manipulating it in read-only mode`,
    );
    return true;
  });
  assert.ok(!existsSync(node.onNode));
  await node.start(volume(file));
  await node.stop();
  await node.start(volume(file, {}, true), { fsGroup: 2000 });
  for (const path of [node.onNode, node.inPod]) {
    assert.ok(mountOf(readMountTable(), path)?.options.includes('ro'), path);
  }
  assert.equal(statSync(node.inPod).gid, 0);
  await node.stop();
});

test('a file with anything else in it is never formatted', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = join(node.storage, 'passwd');
  writeFileSync(file, 'root:x:0:0:root:/root:/bin/sh\n'.repeat(100));
  const before = readFileSync(file, 'utf8');
  await node.attach(volume(file));
  await assert.rejects(node.mount(volume(file)), { reason: 'NotBlank' });
  assert.equal(readFileSync(file, 'utf8'), before);
  await node.release();
  assert.deepEqual(leftBelow(node.storage), []);
});

test('formatting that was interrupted is finished, also after the file was detached', { skip }, async (t) => {
  const system = systemPrograms();
  const node = new DeviceNode(t, {
    programs: {
      async run(command, stop) {
        if (command.program !== 'mkfs.ext4') return system.run(command, stop);
        const half = {
          program: 'dd',
          args: ['if=/dev/urandom', `of=${command.args.at(-1) ?? ''}`, 'bs=64k', 'count=1', 'seek=1'],
        };
        await system.run({ ...half, timeoutMs: 60_000 }, stop);
        throw new Error('power failure');
      },
    },
  });
  const spec = volume(sparseFile(node.storage, 'disk.img'));
  await assert.rejects(node.start(spec), /power failure/);
  await node.release();
  const later = new DeviceNode(t, { root: node.root, storage: node.storage });
  await later.start(spec);
  await later.stop();
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
  assert.deepEqual(readdirSync(join(node.root, 'plugins/kubernetes.io/local-volume/attached')), []);
});

test(
  'a device that was remembered is not believed: only what the file is attached to is formatted',
  { skip },
  async (t) => {
    const node = new DeviceNode(t);
    const other = foreignLoopDevice(sparseFile(node.storage, 'other.img'));
    const spec = volume(sparseFile(node.storage, 'disk.img'));
    await assert.rejects(node.mount(spec, other), /it has no loop device; attach it first/);
    await node.attach(spec);
    await node.mount(spec, other);
    assert.notEqual(mountOf(readMountTable(), node.onNode)?.source, other);
    await node.release();
  },
);

test('a mount that takes too long is uncertain, and its directory stays for it', { skip }, async (t) => {
  const system = systemPrograms();
  const node = new DeviceNode(t, {
    programs: {
      run: (command, stop) =>
        command.program === 'mount' ? Promise.reject(new ProgramTimeoutError(command)) : system.run(command, stop),
    },
  });
  const spec = volume(sparseFile(node.storage, 'disk.img'));
  await node.attach(spec);
  await assert.rejects(node.mount(spec), (error) => {
    assert.ok(error instanceof LocalDeviceError);
    assert.deepEqual([failureClassOf(error), error.reason], ['uncertain', 'ProgramTimeout']);
    return true;
  });
  assert.ok(existsSync(node.onNode));
  await node.release();
  assert.ok(!existsSync(node.onNode));
});

test('set-up without a device that is mounted says who mounts it, and makes nothing', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img');
  for (const path of [file, foreignLoopDevice(sparseFile(node.storage, 'other.img'))]) {
    await assert.rejects(node.setUp(node.plugin, volume(path)), {
      reason: 'DeviceNotMounted',
      message: `Cannot set up local volume "disk-1": "${path}" is a device or the file of one, and is not mounted on this node; the agent formats and mounts devices, \`mountlet render\` does not`,
    });
  }
  assert.deepEqual(readdirSync(node.root), []);
});

test('paths that lead back or over a link are refused, and nothing is attached', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img');
  symlinkSync(file, join(node.storage, 'link.img'));
  const back = `${node.storage}/x/../disk.img`;
  await assert.rejects(node.attach(volume(back)), { message: `invalid path: ${back} must not contain '..'` });
  await assert.rejects(node.attach(volume(join(node.storage, 'link.img'))), /unexpected symlink found/);
  assert.deepEqual(leftBelow(node.storage), []);
});

test('after a restart the file is known, so that it is detached', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img');
  await node.start(volume(file));

  const later = new DeviceNode(t, { root: node.root, storage: node.storage });
  const found = later.plugin.reconstruct('disk-1', node.inPod);
  assert.deepEqual(found, volume(file));
  assert.deepEqual(later.plugin.leftBehind(), [volume(file)]);
  assert.deepEqual(later.plugin.block.reconstruct('uid', 'disk-1', ''), volume(file, { volumeMode: 'Block' }));
  unlinkSync(file); // even then
  assert.equal(later.plugin.attach.canAttach({ path: file }, volume(file)), true);
  assert.equal(later.plugin.deviceMount.pathOf({ path: file }, volume(file)), node.onNode);
  await later.stop();
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
  assert.deepEqual(later.plugin.leftBehind(), []);
});

test(
  'what was attached before a crash, and mounted for no pod, is reported and can be released',
  { skip },
  async (t) => {
    const node = new DeviceNode(t);
    const file = sparseFile(node.storage, 'disk.img');
    await node.attach(volume(file));
    await node.mount(volume(file));
    const later = new DeviceNode(t, { root: node.root, storage: node.storage });
    assert.deepEqual(later.plugin.leftBehind(), [volume(file)]);
    await later.release();
    assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
  },
);

test('a volume that was a file and is a directory now is a directory', { skip }, async (t) => {
  const node = new DeviceNode(t);
  await node.attach(volume(sparseFile(node.storage, 'disk.img')));
  const spec = volume(node.storage);
  assert.equal(node.plugin.attach.canAttach(sourceOf(spec), spec), false);
  assert.equal(node.plugin.deviceMount.pathOf(sourceOf(spec), spec), node.storage);
  await node.release();
});

test('after a restart a block device is found through the mount table', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const device = foreignLoopDevice(sparseFile(node.storage, 'disk.img'));
  await node.start(volume(device));
  assert.deepEqual(node.plugin.reconstruct('disk-1', node.inPod), volume(device));
  assert.deepEqual(node.plugin.leftBehind(), [volume(device)], 'also once no pod has it');
  assert.deepEqual(node.plugin.block.reconstruct('uid', 'disk-1', ''), volume('', { volumeMode: 'Block' }));
  await node.stop();
});

test('a raw device is the loop device of a file, or the device itself', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const { block } = node.plugin;
  const file = volume(sparseFile(node.storage, 'disk.img'), { volumeMode: 'Block' });
  const mapPath = join(node.root, 'plugins/kubernetes.io~local-volume/volumeDevices/disk-1');
  assert.equal(block.globalMapPathOf(sourceOf(file), file), mapPath);
  const device = await node.attach(file);
  const ask = (spec: PersistentVolumeSpec): Promise<string> | undefined =>
    block.setUpDevice?.({ spec, source: sourceOf(spec), pod: testPod() }, signal);
  assert.equal(await ask(file), device);
  growFile(sourceOf(file).path, 24);
  assert.equal(await node.expand(file), true);
  assert.equal(deviceSizeBytes(blockDeviceAt(device)), 24n * mebibyte);
  await node.release();

  const disk = foreignLoopDevice(sparseFile(node.storage, 'other.img'));
  assert.equal(await ask(volume(disk, { volumeMode: 'Block' })), disk);
  await assert.rejects(ask(volume(node.storage, { volumeMode: 'Block' })) ?? Promise.resolve(), {
    message: `Cannot use "${node.storage}" as a device: it is a directory`,
  });
  assert.deepEqual(loopDevicesBelow(node.storage), [disk]);
});

test('a file that grows gives a larger file system: when it is mounted, or else the next time', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const file = sparseFile(node.storage, 'disk.img', 8);
  const spec = volume(file, { capacity: { storage: '16Mi' } });
  await node.start(spec);
  writeFileSync(join(node.inPod, 'data'), 'precious');
  growFile(file, 16);
  let failure: unknown;
  try {
    assert.equal(await node.expand(spec), true);
  } catch (error) {
    failure = error;
  }
  if (failure !== undefined) {
    assert.ok(failure instanceof Error);
    assert.match(failure.message, /^resize of device .* failed: exit status 1\. resize2fs output: /);
    await node.stop();
    await node.start(spec);
    assert.equal(await node.expand(spec), true); // nothing is left to do
  }
  const [device = ''] = loopDevicesBelow(node.storage);
  assert.equal(await extSizeBytes(blockDeviceAt(device)), 16n * mebibyte);
  assert.equal(readFileSync(join(node.inPod, 'data'), 'utf8'), 'precious');
  await node.stop();
  assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
});

/** Its controller waits for this node: the volume has its mark. */
const growing = (path: string, storage: string, more: Partial<PersistentVolume['spec']> = {}): PersistentVolumeSpec => {
  const { persistentVolume } = volume(path, { capacity: { storage }, ...more });
  const annotations = { 'volume.alpha.kubernetes.io/pre-resize-capacity': '8Mi' };
  return persistentSpec({ ...persistentVolume, metadata: { ...persistentVolume.metadata, annotations } }, false);
};

test(
  'a file grows to the size its claim is to have, before it is mounted or as far as the kernel lets it',
  { skip },
  async (t) => {
    const node = new DeviceNode(t);
    const file = sparseFile(node.storage, 'disk.img', 8);
    await node.start(volume(file, { capacity: { storage: '8Mi' } }));
    writeFileSync(join(node.inPod, 'data'), 'precious');
    const spec = growing(file, '16Mi');
    try {
      assert.equal(await node.expand(spec, 16n * mebibyte), true);
    } catch (error) {
      assert.equal(expansionRefusalOf(error), 'in-use');
    }
    assert.equal(statSync(file).size, Number(16n * mebibyte));
    await node.stop();
    await node.start(growing(file, '24Mi'));
    assert.equal(await node.expand(growing(file, '24Mi'), 24n * mebibyte), true);
    const [device = ''] = loopDevicesBelow(node.storage);
    assert.equal(await extSizeBytes(blockDeviceAt(device)), 24n * mebibyte);
    assert.equal(readFileSync(join(node.inPod, 'data'), 'utf8'), 'precious');
    await node.stop();
    // What cannot be had keeps no pod from its volume.
    await node.start(growing(file, '1Pi'));
    assert.equal(readFileSync(join(node.inPod, 'data'), 'utf8'), 'precious');
    await node.stop();
    assert.deepEqual([...leftBelow(node.root), ...leftBelow(node.storage)], []);
  },
);

test('a size that the disk, the device or a directory cannot have is refused for good', { skip }, async (t) => {
  const node = new DeviceNode(t);
  const refused = async (spec: PersistentVolumeSpec, says: RegExp): Promise<void> =>
    assert.rejects(node.expand(spec, 2n ** 50n), (error: Error) => {
      assert.match(error.message, says);
      return expansionRefusalOf(error) === 'infeasible';
    });
  const file = sparseFile(node.storage, 'disk.img', 8);
  const block = growing(file, '1Pi', { volumeMode: 'Block' });
  await node.attach(block);
  await refused(
    block,
    /^Cannot grow ".*disk\.img" to 1125899906842624 bytes: its file system has room for \d+; free some/,
  );
  assert.equal(statSync(file).size, Number(8n * mebibyte));
  await node.plugin.attach.byNodeAlone.detach('disk-1', signal);
  const disk = foreignLoopDevice(sparseFile(node.storage, 'other.img', 8));
  await refused(growing(disk, '1Pi', { volumeMode: 'Block' }), /has 8388608; ask for less, or make the device larger$/);
  await refused(
    growing(node.storage, '1Pi'),
    /is a directory, which has no size of its own; use a file or a block device$/,
  );
  assert.equal(await node.expand(volume(node.storage), 2n ** 50n), true); // made larger by hand: nothing is promised
});
