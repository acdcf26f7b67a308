import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { type GrpcClient, grpcClient } from '../../grpc/grpc-client.ts';
import { GrpcError } from '../../grpc/grpc-error.ts';
import {
  Controller,
  Identity,
  Node,
  VolumeCapability_AccessMode_Mode as AccessMode,
  type VolumeCapabilitySchema,
} from '../../grpc/messages/csi_pb.ts';
import { Registration } from '../../grpc/messages/registration_pb.ts';
import { directoryForDevices, leftBelow, needsDevices, needsFileSystem } from '../machine/devices.ts';
import { type CsiDriver, type DriverEffects, startCsiDriver } from './csi-driver.ts';
import { DriverProcess } from './driver-process.ts';
import type { DriverScript, Fault } from './driver-script.ts';

const skip = needsDevices('mkfs.ext4');
const timeoutMs = 20_000;
const { signal } = new AbortController();
const options = { timeoutMs, signal };
const name = 'files.example.com';

type Capability = MessageInitShape<typeof VolumeCapabilitySchema>;
const accessMode = { mode: AccessMode.SINGLE_NODE_WRITER };
const mounted = (fsType = 'ext4'): Capability => ({ accessMode, accessType: { case: 'mount', value: { fsType } } });
const block: Capability = { accessMode, accessType: { case: 'block', value: {} } };

/** A node that uses one driver, with directories where a kubelet would have them. */
class User {
  readonly directory: string;
  /** Empty for a driver that does not stage. */
  staging: string;
  readonly target: string;
  readonly controller: GrpcClient<(typeof Controller)['method']>;
  readonly node: GrpcClient<(typeof Node)['method']>;
  readonly identity: GrpcClient<(typeof Identity)['method']>;
  readonly nodeId: string;
  capability = mounted();

  constructor(t: TestContext, directory: string, nodeId: string, socket: string) {
    this.directory = directory;
    this.nodeId = nodeId;
    this.staging = join(directory, nodeId, 'staging');
    this.target = join(directory, nodeId, 'pod', 'mount');
    for (const one of [this.staging, join(this.target, '..')]) mkdirSync(one, { recursive: true });
    const channel = socketChannel(socket);
    t.after(() => channel.close());
    this.controller = grpcClient(Controller, channel);
    this.node = grpcClient(Node, channel);
    this.identity = grpcClient(Identity, channel);
  }

  async create(mebibytes = 16): Promise<string> {
    const capacityRange = { requiredBytes: BigInt(mebibytes * 1024 * 1024) };
    const request = { name: 'pvc-1', capacityRange, volumeCapabilities: [this.capability] };
    return (await this.controller.createVolume(request, options)).volume?.volumeId ?? '';
  }

  attach(volumeId: string): Promise<unknown> {
    return this.controller.controllerPublishVolume(
      { volumeId, nodeId: this.nodeId, volumeCapability: this.capability },
      options,
    );
  }

  stage(volumeId: string): Promise<unknown> {
    const { staging: stagingTargetPath, capability: volumeCapability, nodeId } = this;
    const publishContext = { attachedTo: nodeId };
    return this.node.nodeStageVolume({ volumeId, stagingTargetPath, volumeCapability, publishContext }, options);
  }

  publish(volumeId: string, readonly = false, more: Record<string, Record<string, string>> = {}): Promise<unknown> {
    const { staging: stagingTargetPath, capability: volumeCapability, target: targetPath } = this;
    return this.node.nodePublishVolume(
      { volumeId, stagingTargetPath, targetPath, volumeCapability, readonly, ...more },
      options,
    );
  }

  unpublish(volumeId: string): Promise<unknown> {
    return this.node.nodeUnpublishVolume({ volumeId, targetPath: this.target }, options);
  }

  async release(volumeId: string): Promise<void> {
    const { staging: stagingTargetPath, nodeId } = this;
    await this.unpublish(volumeId);
    await this.node.nodeUnstageVolume({ volumeId, stagingTargetPath }, options);
    await this.controller.controllerUnpublishVolume({ volumeId, nodeId }, options);
  }
}

async function started(
  t: TestContext,
  script: DriverScript = {},
  nodeId = 'n1',
  watch: DriverEffects['watch'] = () => {},
): Promise<[User, CsiDriver]> {
  const directory = directoryForDevices(t);
  const socket = join(directory, 'csi.sock');
  const registrationSocket = join(directory, 'reg.sock');
  const settings = { name, nodeId, directory: join(directory, 'storage'), socket, registrationSocket };
  const driver = await startCsiDriver(settings, { script: () => script, die: () => driver.stop(), watch });
  t.after(() => driver.stop());
  return [new User(t, directory, nodeId, socket), driver];
}

function code(expected: string): (error: unknown) => boolean {
  return (error) => error instanceof GrpcError && error.code === expected;
}

test('a volume is made, used and removed, each step twice, and nothing stays', { skip }, async (t) => {
  const [user, { log }] = await started(t);
  const twice = async (act: () => Promise<unknown>): Promise<void> => {
    await act();
    await act();
  };
  const id = await user.create();
  assert.equal(await user.create(), id);
  await twice(() => user.attach(id));
  await twice(() => user.stage(id));
  await twice(() => user.publish(id));
  writeFileSync(join(user.target, 'data'), 'kept');
  const { usage } = await user.node.nodeGetVolumeStats({ volumeId: id, volumePath: user.target }, options);
  assert.ok((usage[0]?.total ?? 0n) > 8n * 1024n * 1024n);
  assert.deepEqual(log.inUse(), [
    `${id} attached on n1`,
    `${id} staged on n1 ${user.staging}`,
    `${id} published on n1 ${user.target}`,
  ]);
  await twice(() => user.release(id));
  assert.equal(existsSync(user.target), false);
  await user.attach(id);
  await user.stage(id);
  await user.publish(id, true);
  assert.equal(readFileSync(join(user.target, 'data'), 'utf8'), 'kept');
  assert.throws(() => writeFileSync(join(user.target, 'data'), 'changed'), { code: 'EROFS' });
  await assert.rejects(user.controller.deleteVolume({ volumeId: id }, options), code('FAILED_PRECONDITION'));
  await user.release(id);
  await twice(() => user.controller.deleteVolume({ volumeId: id }, options));
  assert.deepEqual(log.inUse(), []);
  assert.deepEqual(
    log.violations().map((line) => line.split(': ')[1]),
    ['it is attached on n1', 'it is staged on n1', 'it is published on n1'],
    'the removal of a volume in use was asked for',
  );
  assert.deepEqual(leftBelow(user.directory), []);
});

test('a block volume is its device, and grows', { skip }, async (t) => {
  const [user] = await started(t);
  user.capability = block;
  const id = await user.create();
  await user.attach(id);
  await user.stage(id);
  await user.publish(id);
  assert.ok(statSync(user.target).isBlockDevice());
  const capacityRange = { requiredBytes: 32n * 1024n * 1024n };
  await user.controller.controllerExpandVolume({ volumeId: id, capacityRange }, options);
  await user.node.nodeExpandVolume({ volumeId: id, volumePath: user.target, capacityRange }, options);
  const { usage } = await user.node.nodeGetVolumeStats({ volumeId: id, volumePath: user.target }, options);
  assert.equal(usage[0]?.total, capacityRange.requiredBytes);
  await user.release(id);
  assert.deepEqual(leftBelow(user.directory), []);
});

test('a mounted file system grows', { skip: needsFileSystem('btrfs', 'btrfs') }, async (t) => {
  const [user] = await started(t);
  user.capability = mounted('btrfs');
  const id = await user.create(128);
  await user.attach(id);
  await user.stage(id);
  await user.publish(id);
  const capacityRange = { requiredBytes: 256n * 1024n * 1024n };
  await user.controller.controllerExpandVolume({ volumeId: id, capacityRange }, options);
  await user.node.nodeExpandVolume({ volumeId: id, volumePath: user.target, capacityRange }, options);
  const { usage } = await user.node.nodeGetVolumeStats({ volumeId: id, volumePath: user.target }, options);
  assert.equal(usage[0]?.total, capacityRange.requiredBytes);
  await user.release(id);
  assert.deepEqual(leftBelow(user.directory), []);
});

test(
  'an inline volume, and one of a driver that does not stage, come and go with what they are published as',
  { skip },
  async (t) => {
    const [user, { log }] = await started(t, { capabilities: { node: [], controller: ['CREATE_DELETE_VOLUME'] } });
    const volumeContext = { 'csi.storage.k8s.io/ephemeral': 'true', sizeBytes: String(16 * 1024 * 1024) };
    user.staging = '';
    await user.publish('csi-inline', false, { volumeContext });
    writeFileSync(join(user.target, 'scratch'), '');
    await user.unpublish('csi-inline');
    const id = await user.create();
    await user.publish(id);
    await user.unpublish(id);
    assert.deepEqual(readdirSync(join(user.directory, 'storage', 'volumes')), [id, `${id}.json`]);
    assert.deepEqual([...log.violations(), ...log.inUse(), ...leftBelow(user.directory)], []);
  },
);

test('a driver makes itself known and remembers what it is answered', async (t) => {
  const [user, { log }] = await started(t);
  const channel = socketChannel(join(user.directory, 'reg.sock'));
  t.after(() => channel.close());
  const registration = grpcClient(Registration, channel);
  const info = await registration.getInfo({}, options);
  assert.deepEqual([info.type, info.name, info.supportedVersions], ['CSIPlugin', name, ['1.0.0']]);
  await registration.notifyRegistrationStatus({ pluginRegistered: false, error: 'no' }, options);
  assert.deepEqual(log.calls().at(-1)?.request, { error: 'no' });
  assert.equal((await user.identity.probe({}, options)).ready, true);
});

/** Enough for the work, on a machine that has much else to do. */
const patienceMs = 5_000;
const faults: readonly {
  readonly it: string;
  readonly fault: Fault;
  readonly patienceMs?: number;
  readonly gives: string;
  readonly works: string;
}[] = [
  { it: 'fails before the work', fault: { code: 'UNAVAILABLE' }, gives: 'UNAVAILABLE', works: 'none' },
  { it: 'fails after it', fault: { code: 'INTERNAL', moment: 'after' }, gives: 'INTERNAL', works: 'done' },
  { it: 'hangs', fault: { end: 'hang' }, patienceMs, gives: 'DEADLINE_EXCEEDED', works: 'none' },
  {
    it: 'is late',
    fault: { delayMs: 1.2 * patienceMs, moment: 'after' },
    patienceMs,
    gives: 'DEADLINE_EXCEEDED',
    works: 'done',
  },
  { it: 'echoes', fault: { code: 'INTERNAL', message: '<{secrets}>' }, gives: 'INTERNAL <hunter2>', works: 'none' },
  { it: 'passes another method', fault: { method: 'NodeGetInfo', end: 'hang' }, gives: '16777216', works: 'done' },
  { it: 'passes the first', fault: { skip: 1, end: 'hang' }, gives: '16777216', works: 'done' },
  { it: 'lies', fault: { answer: { volume: { capacityBytes: '-1' } } }, gives: '-1', works: 'done' },
];
for (const { it, fault, patienceMs: callMs = timeoutMs, gives, works } of faults) {
  test(`a scripted call ${it}`, async (t) => {
    const [user, { log }] = await started(t, { faults: [fault] });
    const request = {
      name: 'pvc-1',
      volumeCapabilities: [block],
      capacityRange: { requiredBytes: 16n * 1024n * 1024n },
      secrets: { password: 'hunter2' },
    };
    const given = await user.controller.createVolume(request, { timeoutMs: callMs, signal }).then(
      ({ volume }) => String(volume?.capacityBytes),
      (error: GrpcError) => (fault.message === undefined ? error.code : `${error.code} ${error.message}`),
    );
    assert.equal(given, gives);
    const [call] = log.calls();
    assert.deepEqual([call?.work, call?.secrets], [works, ['password']]);
    assert.ok(!JSON.stringify(log.lines()).includes('hunter2'));
  });
}

test('a driver that dies at a call goes on where it was', { skip }, async (t) => {
  const directory = directoryForDevices(t);
  const socket = join(directory, 'csi.sock');
  const driver = new DriverProcess(t, { name, nodeId: 'n1', directory: join(directory, 'storage'), socket });
  await driver.start();
  const user = new User(t, directory, 'n1', socket);
  const id = await user.create();
  await user.attach(id);
  for (const moment of ['before', 'after'] as const) {
    driver.script({ faults: [{ method: 'NodeStageVolume', times: 1, end: 'crash', moment }] });
    await assert.rejects(user.stage(id), code('UNAVAILABLE'));
    await driver.ended();
    await driver.start();
  }
  await user.stage(id);
  await user.publish(id);
  await user.release(id);
  assert.deepEqual(driver.log.violations(), []);
  assert.deepEqual([...driver.log.inUse(), ...leftBelow(directory)], []);
});

test('a second call for a volume is refused while the first is carried out', { skip }, async (t) => {
  let calls = 0;
  let bothAsked = (): void => {};
  const both = new Promise<void>((resolve) => (bothAsked = resolve));
  const [user, { log }] = await started(t, { capabilities: { controller: [] } }, 'n1', async ({ method }, moment) => {
    if (method !== 'NodeStageVolume' || moment !== 'asked') return;
    calls += 1;
    if (calls === 2) bothAsked();
    await both;
  });
  const id = await user.create();
  const ends = await Promise.allSettled([user.stage(id), user.stage(id)]);
  assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  await user.publish(id);
  await user.release(id);
  assert.deepEqual([...log.violations(), ...log.inUse()], []);
});

test('use of a volume on two nodes, or at the wrong time, is found', { skip }, async (t) => {
  const [first, { log }] = await started(t, { capabilities: { controller: ['CREATE_DELETE_VOLUME'] } });
  const socket = join(first.directory, 'second.sock');
  const settings = { name, nodeId: 'n2', directory: join(first.directory, 'storage'), socket };
  const other = await startCsiDriver(settings, { script: () => ({ capabilities: { controller: [] } }), die: () => {} });
  t.after(() => other.stop());
  const second = new User(t, first.directory, 'n2', socket);
  const id = await first.create();
  await first.attach(id);
  await assert.rejects(second.attach(id), code('FAILED_PRECONDITION'));
  await assert.rejects(first.publish(id), code('FAILED_PRECONDITION'));
  await first.stage(id);
  await second.stage(id);
  await first.controller.controllerUnpublishVolume({ volumeId: id, nodeId: 'n1' }, options);
  const found = [
    `ControllerPublishVolume of ${id} on n2: it is attached on n1`,
    `NodePublishVolume of ${id} on n1: it is not staged`,
    `NodeStageVolume of ${id} on n2: it is staged on n1`,
    `NodeStageVolume of ${id} on n2: it is not attached`,
    `ControllerUnpublishVolume of ${id} on n1: the node uses it`,
  ];
  assert.deepEqual(log.violations(), found);
  log.write({ at: 'lost', node: 'n2' });
  assert.deepEqual(log.inUse(), [`${id} staged on n1 ${first.staging}`]);
});
