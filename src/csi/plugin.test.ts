/** The volume plugin with a driver that really mounts, asked as the volume manager asks it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Turns } from '../base/turns.ts';
import { unlessAborted } from '../base/abort.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { OperatingError } from '../base/errors.ts';
import { isInMountTable, systemPrograms } from '../disk/devices/programs.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import { socketChannel } from '../grpc/grpc-channel.ts';
import { grpcClient } from '../grpc/grpc-client.ts';
import { Controller } from '../grpc/messages/csi_pb.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import type { CsiDriver as CsiDriverObject } from '../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../kube/kinds/storage/volume-attachment.ts';
import { attachmentName } from '../kube/references/csi-volumes.ts';
import { type VolumeSpec, inlineSpec, persistentSpec, specName } from '../kube/references/volume-spec.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import {
  type PluginNotice,
  type SetUpRequest,
  type VolumePlugin,
  expansionRefusalOf,
  failureClassOf,
} from '../plugins/plugin.ts';
import { type CsiDriver, startCsiDriver } from '../testing/csi/csi-driver.ts';
import type { LoggedCall } from '../testing/csi/driver-log.ts';
import type { DriverScript, Fault } from '../testing/csi/driver-script.ts';
import { aPod, aSecret } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { directoryForDevices, leftBelow, needsDevices } from '../testing/machine/devices.ts';
import { CsiDrivers } from './drivers.ts';
import type { TokenOrder } from './driver-inputs.ts';
import { csiPlugin } from './plugin.ts';
import type { CsiSource } from './requests.ts';

const skip = needsDevices('mkfs.ext4');
const { signal } = new AbortController();
const name = 'files.example.com';
const nodeName = 'n1';

type Csi = NonNullable<PersistentVolume['spec']['csi']>;

/** A node with one driver and what the cluster says of it. */
class Node {
  readonly root: string;
  drivers = new CsiDrivers();
  readonly driver: CsiDriver;
  readonly script: { -readonly [Field in keyof DriverScript]: DriverScript[Field] };
  readonly objects = new Map<string, CsiDriverObject>();
  readonly attachments = new Map<string, VolumeAttachment>();
  readonly secrets = new Map<string, Secret>();
  readonly tokens: TokenOrder[] = [];
  readonly notices: PluginNotice[] = [];
  readonly handle: string;
  readonly socket: string;
  /** Until the CSIDrivers were read. */
  reading: Promise<void> = Promise.resolve();
  #plugin: VolumePlugin<CsiSource>;
  readonly #clock: Clock;

  constructor(parts: Pick<Node, 'root' | 'driver' | 'script' | 'handle' | 'socket'>, clock: Clock) {
    Object.assign(this, parts);
    ({ root: this.root, driver: this.driver, script: this.script, handle: this.handle, socket: this.socket } = parts);
    this.#clock = clock;
    this.say({ attachRequired: false });
    this.drivers.settled();
    this.register();
    this.#plugin = this.restart();
  }

  /** What a process knows after a start: nothing but what is on disk. */
  restart(): VolumePlugin<CsiSource> {
    const { root, drivers, objects, attachments, secrets } = this;
    const found = async <T>(from: Map<string, T>, kind: string, key: string): Promise<T> => {
      const object = from.get(key);
      if (object === undefined) throw new OperatingError('NotFound', `${kind} "${key}" not found`);
      return object;
    };
    this.#plugin = csiPlugin({
      drivers,
      driverObjects: {
        whenRead: (limited) => unlessAborted(this.reading, limited),
        get: (driver) => objects.get(driver),
      },
      attachments: { get: (key) => found(attachments, 'volumeattachments.storage.k8s.io', key) },
      secrets: { get: (namespace, key) => found(secrets, 'secrets', `${namespace}/${key}`) },
      tokens: {
        issue: async (order) => {
          this.tokens.push(order);
          return { token: `token-for-${order.audience}`, expirationTimestamp: '2026-01-01T00:00:00Z' };
        },
      },
      root,
      nodeName,
      programs: systemPrograms(),
      turns: new Turns(Date.now),
      clock: this.#clock,
      notify: (notice) => this.notices.push(notice),
      limitReached: () => {},
    });
    return this.#plugin;
  }

  get plugin(): VolumePlugin<CsiSource> {
    return this.#plugin;
  }

  say(spec: CsiDriverObject['spec']): void {
    this.objects.set(name, { metadata: { name }, spec });
  }

  register(): void {
    const registration = this.drivers.register({ name, endpoint: this.socket, version: '1.0.0' });
    this.unregister = () => registration.remove();
  }

  unregister: () => void = () => {};

  fail(...faults: readonly Fault[]): void {
    this.script.faults = faults;
  }

  spec(csi: Partial<Csi> = {}, fields: Partial<PersistentVolume['spec']> = {}, readOnly = false): VolumeSpec {
    const source = { driver: name, volumeHandle: this.handle, fsType: 'ext4', ...csi };
    const accessModes = ['ReadWriteOnce'];
    const spec = { volumeMode: 'Filesystem', accessModes, csi: source, ...fields };
    return persistentSpec({ metadata: { name: 'pv1' }, spec }, readOnly);
  }

  request(spec: VolumeSpec, parts: Partial<SetUpRequest<CsiSource>> = {}, pod: Pod = aPod()): SetUpRequest<CsiSource> {
    const source = this.plugin.sourceOf(spec);
    assert.ok(source);
    const volumeName = specName(spec);
    const directory = volumeDirectory(this.root, pod.metadata.uid ?? '', this.plugin.name, volumeName);
    return { pod, spec, source, volumeName, directory, isRemount: false, isReconstructed: false, ...parts };
  }

  async stage(spec = this.spec(), fsGroup?: number): Promise<string> {
    const { source } = this.request(spec);
    const path = this.plugin.deviceMount?.pathOf(source, spec) ?? '';
    await this.plugin.deviceMount?.mount({ spec, source, path, fsGroup }, signal);
    return path;
  }

  async unstage(spec = this.spec()): Promise<void> {
    const path = this.plugin.deviceMount?.pathOf(this.request(spec).source, spec) ?? '';
    await this.plugin.deviceMount?.unmount(path, signal);
  }

  async publish(spec = this.spec(), parts: Partial<SetUpRequest<CsiSource>> = {}, pod?: Pod): Promise<string> {
    const request = this.request(spec, parts, pod);
    await this.plugin.setUp(request, signal);
    return join(request.directory, 'mount');
  }

  async unpublish(spec = this.spec(), pod: Pod = aPod()): Promise<void> {
    const { volumeName, directory } = this.request(spec, {}, pod);
    await this.plugin.tearDown({ podUid: pod.metadata.uid ?? '', volumeName, directory }, signal);
  }

  /** The last request of a method, as the driver got it. */
  asked(method: string): LoggedCall {
    const call = this.driver.log.calls().findLast((one) => one.method === method);
    assert.ok(call, `${method} was not called`);
    return call;
  }

  /** What is left of the volume below the root, without the directories of drivers and pods. */
  left(): readonly string[] {
    return readdirSync(this.root, { recursive: true })
      .map(String)
      .filter((path) => /vol_data|globalmount$|mount$|\/staging\/.|\/publish\/.|draft/.test(path))
      .sort();
  }
}

async function aNode(t: TestContext, script: DriverScript = {}, clock: Clock = systemClock): Promise<Node> {
  const directory = directoryForDevices(t);
  const root = join(directory, 'root');
  mkdirSync(join(root, 'pods'), { recursive: true });
  const socket = join(directory, 'csi.sock');
  const settings = { name, nodeId: nodeName, directory: join(directory, 'storage'), socket };
  const said = { capabilities: { controller: ['CREATE_DELETE_VOLUME'] }, ...script };
  const driver = await startCsiDriver(settings, { script: () => said, die: () => {} });
  const channel = socketChannel(socket);
  const controller = grpcClient(Controller, channel);
  const capability = { accessMode: { mode: 1 }, accessType: { case: 'mount', value: {} } } as const;
  const { volume } = await controller.createVolume(
    { name: 'pvc-1', capacityRange: { requiredBytes: 16n * 1024n * 1024n }, volumeCapabilities: [capability] },
    { timeoutMs: 20_000, signal },
  );
  channel.close();
  const node = new Node({ root, driver, script: said, handle: volume?.volumeId ?? '', socket }, clock);
  t.after(() => {
    node.drivers.close();
    driver.stop();
  });
  return node;
}

function message(text: string | RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof Error);
    if (typeof text === 'string') assert.equal(error.message, text);
    else assert.match(error.message, text);
    return true;
  };
}

test('a volume is staged, published, torn down from its file alone, and nothing stays', { skip }, async (t) => {
  const node = await aNode(t);
  const staged = await node.stage();
  const target = await node.publish();
  writeFileSync(join(target, 'data'), 'kept');
  assert.equal(readFileSync(join(staged, 'data'), 'utf8'), 'kept');
  const id = attachmentName({ driver: name, volumeHandle: node.handle }, nodeName);
  assert.equal(
    readFileSync(join(dirname(target), 'vol_data.json'), 'utf8'),
    `{"attachmentID":"${id}","driverName":"${name}","nodeName":"n1","specVolID":"pv1","volumeHandle":"${node.handle}","volumeLifecycleMode":"Persistent"}\n`,
  );
  assert.equal(
    readFileSync(join(dirname(staged), 'vol_data.json'), 'utf8'),
    `{"driverName":"${name}","volumeHandle":"${node.handle}"}\n`,
  );
  // Neither the cluster nor its objects are needed to take it away.
  node.objects.clear();
  node.reading = new Promise(() => {});
  node.restart();
  await node.unpublish();
  await node.unpublish();
  await node.unstage();
  await node.unstage();
  assert.deepEqual([node.left(), leftBelow(node.root), node.driver.log.inUse()], [[], [], []]);
  assert.deepEqual(node.driver.log.violations(), []);
});

test('a driver that stages nothing is asked to publish alone', { skip }, async (t) => {
  const node = await aNode(t, { capabilities: { controller: [], node: [] } });
  const staged = await node.stage();
  assert.ok(existsSync(staged));
  await node.publish();
  assert.equal(node.asked('NodePublishVolume').request.stagingTargetPath, undefined);
  await node.unpublish();
  await node.unstage();
  assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
});

/** Which codes leave the volume to be taken away. */
const codes: readonly [code: NonNullable<Fault['code']>, stays: boolean][] = [
  ['CANCELLED', true],
  ['DEADLINE_EXCEEDED', true],
  ['UNAVAILABLE', true],
  ['RESOURCE_EXHAUSTED', true],
  ['ABORTED', true],
  ['UNKNOWN', false],
  ['INVALID_ARGUMENT', false],
  ['NOT_FOUND', false],
  ['ALREADY_EXISTS', false],
  ['PERMISSION_DENIED', false],
  ['FAILED_PRECONDITION', false],
  ['OUT_OF_RANGE', false],
  ['UNIMPLEMENTED', false],
  ['INTERNAL', false],
  ['DATA_LOSS', false],
  ['UNAUTHENTICATED', false],
];
for (const moment of ['before', 'after'] as const) {
  test(`failures of a driver ${moment} its work decide what stays on disk`, { skip }, async (t) => {
    const node = await aNode(t);
    for (const [code, isUncertain] of codes) {
      for (const method of ['NodeStageVolume', 'NodePublishVolume'] as const) {
        const isStage = method === 'NodeStageVolume';
        if (!isStage) await node.stage();
        node.fail({ method, code, moment });
        const error = await (isStage ? node.stage() : node.publish()).then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        // A driver that says it is over and has mounted all the same: that has to be undone.
        const expected = isUncertain || moment === 'after' ? 'uncertain' : 'final';
        assert.equal(failureClassOf(error), expected, `${method} ${code}`);
        const file = isStage ? /kubernetes\.io\/csi\/.*vol_data/ : /pods\/.*vol_data/;
        assert.equal(
          node.left().some((path) => file.test(path)),
          expected === 'uncertain',
          `${method} ${code}`,
        );
        node.fail();
        await node.unpublish();
        await node.unstage();
        assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []], `${method} ${code}`);
      }
    }
    assert.deepEqual(node.driver.log.violations(), []);
  });
}

for (const parts of [{ isRemount: true }, { isReconstructed: true }]) {
  test(
    `a volume that was there before stays when publishing it fails: ${JSON.stringify(parts)}`,
    { skip },
    async (t) => {
      const node = await aNode(t);
      await node.stage();
      const target = await node.publish();
      node.fail({ method: 'NodePublishVolume', code: 'INTERNAL' });
      await assert.rejects(node.publish(node.spec(), parts), message(/code = Internal/));
      assert.ok(isInMountTable(target));
      assert.ok(existsSync(join(dirname(target), 'vol_data.json')));
    },
  );
}

test('what a driver leaves mounted when it says that it is done is unmounted', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const target = await node.publish();
  // The driver takes away one of the two.
  systemMounts().bind(target, target, { readOnly: false, options: [] });
  await node.unpublish();
  assert.equal(isInMountTable(target), false);
  await node.unstage();
  assert.deepEqual([node.left(), node.driver.log.inUse(), node.driver.log.violations()], [[], [], []]);
});

test('what fails before the driver is asked leaves nothing, and says no more than that', { skip }, async (t) => {
  const node = await aNode(t);
  const published = node.spec({ nodePublishSecretRef: { name: 'key', namespace: 'shop' } });
  const staged = node.spec({ nodeStageSecretRef: { name: 'key', namespace: 'shop' } });
  const fails = async (act: Promise<unknown>, failureClass: string, text: string | RegExp): Promise<void> => {
    await assert.rejects(act, (error) => {
      assert.equal(failureClassOf(error), failureClass);
      return message(text)(error);
    });
    assert.deepEqual(
      node.left().filter((path) => path.endsWith('vol_data.json')),
      [],
    );
  };
  const inner =
    'kubernetes.io/csi: failed to find the secret key in the namespace shop with error: secrets "shop/key" not found';
  await fails(node.publish(published), 'transient', `fetching NodePublishSecretRef shop/key failed: ${inner}`);
  await fails(node.stage(staged), 'transient', `fetching NodeStageSecretRef shop/key failed: ${inner}`);
  node.say({ volumeLifecycleModes: ['Ephemeral'], attachRequired: false });
  await fails(
    node.publish(),
    'transient',
    `kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "Persistent" not supported by driver ${name} (only supports ["Ephemeral"])`,
  );
  node.say({});
  const id = attachmentName({ driver: name, volumeHandle: node.handle }, nodeName);
  const missing = `volumeattachments.storage.k8s.io "${id}" not found`;
  await fails(node.stage(), 'transient', missing);
  await fails(
    node.publish(),
    'transient',
    `kubernetes.io/csi: mounter.SetUpAt failed to fetch publishContext: ${missing}`,
  );
  node.say({ attachRequired: false });
  node.fail({ method: 'NodeGetCapabilities', code: 'UNAVAILABLE' });
  await fails(node.stage(), 'uncertain', /^rpc error: code = Unavailable/);
  // In words of its own it is final, whatever the driver answered.
  await fails(
    node.publish(),
    'final',
    /mounter\.SetUpAt failed to check for STAGE_UNSTAGE_VOLUME capability: rpc error/,
  );
  node.unregister();
  const absent = `driver name ${name} not found in the list of registered CSI drivers`;
  await fails(node.publish(), 'transient', `kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: ${absent}`);
  await fails(
    node.stage(),
    'transient',
    `kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: ${absent}`,
  );
});

test(
  'after a start a volume waits until the drivers there have registered and the CSIDrivers were read',
  { skip },
  async (t) => {
    const node = await aNode(t);
    node.unregister();
    node.drivers = new CsiDrivers();
    let read = (): void => {};
    node.reading = new Promise((resolve) => (read = resolve));
    node.restart();
    const staged = node.stage();
    await settle();
    node.register();
    await settle();
    read();
    await staged;
    await node.publish();
    await node.unpublish();
    await node.unstage();
  },
);

test('after a start a volume does not wait for ever', { skip }, async (t) => {
  const clock = new FakeClock();
  const node = await aNode(t, {}, clock);
  node.unregister();
  node.drivers = new CsiDrivers();
  node.restart();
  const absent = assert.rejects(node.publish(), message(/not found in the list of registered CSI drivers$/));
  await settle();
  await clock.advance(5_000);
  await absent;
  node.register();
  node.reading = new Promise(() => {});
  const unread = assert.rejects(node.publish(), message(/CSIDrivers has not been synced yet$/));
  await settle();
  await clock.advance(120_000);
  await unread;
});

test('after an attempt whose end is unknown a failure before the next one is no verdict', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  node.fail({ method: 'NodePublishVolume', code: 'UNAVAILABLE', moment: 'after' });
  await assert.rejects(node.publish());
  node.fail({ method: 'NodeGetCapabilities', code: 'INTERNAL' });
  await assert.rejects(node.publish(), (error) => failureClassOf(error) === 'uncertain');
  await assert.rejects(node.stage(), (error) => failureClassOf(error) === 'uncertain');
});

test('a Secret does not come back in the error of a later call either, which has none', { skip }, async (t) => {
  const node = await aNode(t);
  const ref = { name: 'key', namespace: 'shop' };
  node.secrets.set('shop/key', aSecret({ name: 'key', data: { password: 'hunter2 "quoted"' } }));
  await node.stage(node.spec({ nodeStageSecretRef: ref }));
  node.fail({ method: 'NodeUnstageVolume', code: 'INTERNAL', message: 'mount -o password=hunter2 "quoted": no' });
  await assert.rejects(node.unstage(), message(/desc = mount -o password=\[redacted\]: no$/));
  node.fail();
  await node.unstage();
});

test('a driver gets Secrets and tokens, and none of them comes back in an error', { skip }, async (t) => {
  const node = await aNode(t);
  const ref = { name: 'key', namespace: 'shop' };
  node.secrets.set('shop/key', aSecret({ name: 'key', data: { password: 'hunter2 "quoted"', pin: '4711' } }));
  node.say({ attachRequired: false, tokenRequests: [{ audience: 'vault', expirationSeconds: 600 }] });
  const spec = node.spec({ nodeStageSecretRef: ref, nodePublishSecretRef: ref, nodeExpandSecretRef: ref });
  const echo = { code: 'INTERNAL', message: 'refused {secrets}' } as const;
  node.fail({ ...echo });
  const { source } = node.request(spec);
  const shown: string[] = [];
  const record = (thrown: Error): void => void shown.push(thrown.message);
  node.fail({ ...echo, method: 'NodeStageVolume' });
  await node.stage(spec).catch(record);
  node.fail({ ...echo, method: 'NodePublishVolume' });
  await node.publish(spec).catch(record);
  node.fail({ ...echo, method: 'NodeExpandVolume' });
  await node.plugin.expand?.expand({ source, spec, directory: '/', sizeBytes: 1n }, signal).catch(record);
  assert.equal(shown.length, 3);
  for (const text of shown) {
    assert.match(text, /refused .*\[redacted\]/);
    assert.doesNotMatch(text, /hunter2|quoted|4711|token-for-vault/);
  }
  assert.deepEqual(node.asked('NodePublishVolume').secrets.toSorted(), [
    'csi.storage.k8s.io/serviceAccount.tokens',
    'password',
    'pin',
  ]);
  const [{ audience, expirationSeconds, pod } = {}] = node.tokens;
  assert.deepEqual([audience, expirationSeconds, pod?.metadata.name], ['vault', 600, 'web']);
  const files = node.left().filter((path) => path.endsWith('.json'));
  for (const file of files) assert.doesNotMatch(readFileSync(join(node.root, file), 'utf8'), /hunter2|token-for/);
});

test('a Secret that is not text is refused rather than changed', { skip }, async (t) => {
  const node = await aNode(t);
  node.secrets.set('shop/key', aSecret({ name: 'key', data: { blob: Uint8Array.of(0xff, 0xfe) } }));
  const spec = node.spec({ nodePublishSecretRef: { name: 'key', namespace: 'shop' } });
  await assert.rejects(node.publish(spec), message(/its key "blob" is not UTF-8 text/));
});

test('a volume that is written in the pod needs a driver that has such', { skip }, async (t) => {
  const node = await aNode(t);
  const attributes = { sizeBytes: String(16 * 1024 * 1024) };
  const spec = inlineSpec({ name: 'data', csi: { driver: name, fsType: 'ext4', volumeAttributes: attributes } });
  node.objects.clear();
  await assert.rejects(node.publish(spec), message(/\(no CSIDriver object\)$/));
  node.say({ volumeLifecycleModes: ['Ephemeral'], podInfoOnMount: true });
  const { source } = node.request(spec);
  assert.equal(node.plugin.deviceMount?.appliesTo?.(source, spec), false);
  assert.equal(node.plugin.attach?.canAttach(source, spec), false);
  const target = await node.publish(spec, { fsGroup: 2000 });
  assert.equal(statSync(target).gid, 2000);
  const found = node.restart().reconstruct('data', dirname(target));
  assert.deepEqual(found, inlineSpec({ name: 'data', csi: { driver: name } }));
  node.objects.clear();
  await node.unpublish(spec);
  assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
});

test(
  'a driver that gives volumes to a group itself is told the group, and the node changes nothing',
  { skip },
  async (t) => {
    const node = await aNode(t, {
      capabilities: { controller: [], node: ['STAGE_UNSTAGE_VOLUME', 'VOLUME_MOUNT_GROUP'] },
    });
    await node.stage(node.spec(), 2000);
    const target = await node.publish(node.spec(), { fsGroup: 2000 });
    assert.equal(statSync(target).gid, 2000);
    assert.equal(statSync(join(target, 'lost+found')).gid, 0);
  },
);

test('the files of a volume are given to the group that the pod asks for', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const target = await node.publish(node.spec(), { fsGroup: 2000 });
  assert.equal(statSync(join(target, 'lost+found')).gid, 2000);
  assert.equal(statSync(target).mode & 0o7777, 0o2775);
});

test('a process that starts finds staged volumes that no pod has, and pods that have one', { skip }, async (t) => {
  const node = await aNode(t);
  // Killed between the two calls, or in the middle of the first.
  node.fail({ method: 'NodeStageVolume', code: 'UNAVAILABLE', moment: 'after' });
  await assert.rejects(node.stage());
  node.fail();
  const plugin = node.restart();
  const [spec] = plugin.leftBehind?.() ?? [];
  assert.ok(spec);
  const source = plugin.sourceOf(spec);
  assert.ok(source);
  assert.equal(plugin.deviceMount?.identityOf(source, spec), `${name}^${node.handle}`);
  const path = plugin.deviceMount?.pathOf(source, spec) ?? '';
  assert.deepEqual(await plugin.deviceMount?.referencesTo(path, signal), []);
  const target = await node.publish();
  assert.deepEqual(await plugin.deviceMount?.referencesTo(path, signal), [target]);
  const reconstructed = node.restart().reconstruct('pv1', dirname(target));
  assert.equal(reconstructed?.persistentVolume?.spec.csi?.volumeHandle, node.handle);
  await node.unpublish();
  await plugin.deviceMount?.unmount(path, signal);
  assert.deepEqual([node.left(), node.driver.log.inUse(), plugin.leftBehind?.()], [[], [], []]);
});

test('a directory without its file goes at the start, unless something else is in it', { skip }, async (t) => {
  const node = await aNode(t);
  const plugin = join(node.root, 'plugins/kubernetes.io/csi');
  const emptied = ['volumeDevices/pv2', 'volumeDevices/pv3/data', 'volumeDevices/pv4/dev', `${name}/4a4a`];
  const used = ['volumeDevices/pv5/dev/uid', `${name}/5b5b/globalmount`];
  for (const path of [...emptied, ...used]) mkdirSync(join(plugin, path), { recursive: true });
  writeFileSync(join(plugin, 'volumeDevices/pv3/data/.vol_data.json.draft'), '');
  assert.deepEqual(node.restart().leftBehind?.(), []);
  for (const path of emptied) assert.ok(!existsSync(join(plugin, path)), path);
  for (const path of used) assert.ok(existsSync(join(plugin, path)), path);
  assert.deepEqual(readdirSync(join(plugin, 'volumeDevices')), ['pv5']);
});

test('a directory that was made and no more is removed; one with a mount and no file is not', { skip }, async (t) => {
  const node = await aNode(t);
  const { directory } = node.request(node.spec());
  mkdirSync(join(directory, 'mount'), { recursive: true });
  writeFileSync(join(directory, '.vol_data.json.draft'), '{');
  await node.unpublish();
  assert.equal(existsSync(directory), false);
  // After a power failure, when nothing is mounted.
  mkdirSync(join(directory, 'mount'), { recursive: true });
  writeFileSync(join(directory, 'vol_data.json'), '');
  await node.unpublish();
  assert.equal(existsSync(directory), false);
  mkdirSync(join(directory, 'mount'), { recursive: true });
  systemMounts().mountTmpfs(join(directory, 'mount'));
  await assert.rejects(node.unpublish(), message(/unmounter failed to load volume data file/));
  assert.ok(isInMountTable(join(directory, 'mount')));
});

test('a driver that does not answer is given up after two minutes, and others go on meanwhile', { skip }, async (t) => {
  const clock = new FakeClock();
  const node = await aNode(t, {}, clock);
  node.fail({ method: 'NodeStageVolume', end: 'hang', volume: node.handle });
  const hanging = node.stage().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  const spec = inlineSpec({ name: 'other', csi: { driver: name, fsType: 'ext4' } });
  node.say({ volumeLifecycleModes: ['Ephemeral', 'Persistent'], podInfoOnMount: true, attachRequired: false });
  await node.publish(spec);
  await node.unpublish(spec);
  while (!node.driver.log.calls().some(({ method }) => method === 'NodeStageVolume')) await settle();
  await clock.advance(120_000);
  const error = await hanging;
  assert.equal(failureClassOf(error), 'uncertain');
  assert.ok(message('rpc error: code = DeadlineExceeded desc = context deadline exceeded')(error));
});

test('a call that is stopped here may go on there: what says whose it is stays', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  node.fail({ method: 'NodePublishVolume', delayMs: 200, moment: 'before' });
  const stop = new AbortController();
  const request = node.request(node.spec());
  const stopped = node.plugin.setUp(request, stop.signal);
  while (!node.driver.log.calls().some(({ method }) => method === 'NodePublishVolume')) await settle();
  const reason = new Error('the node ends');
  stop.abort(reason);
  await assert.rejects(stopped, (error) => error === reason);
  assert.ok(existsSync(join(request.directory, 'vol_data.json')));
  while (node.driver.log.calls().some(({ code }) => code === undefined)) await settle();
  await node.unpublish();
  await node.unstage();
  assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
});

test('a driver that goes while its volume is prepared leaves nothing', { skip }, async (t) => {
  const node = await aNode(t);
  let calls = 0;
  node.drivers.node = (driver) => {
    calls += 1;
    if (calls > 2) node.unregister(); // after it was looked for and has said what it can do
    return CsiDrivers.prototype.node.call(node.drivers, driver);
  };
  await assert.rejects(node.publish(), (error) => failureClassOf(error) === 'transient');
  assert.deepEqual(node.left(), []);
});

test('a driver that has gone keeps its volumes, and takes them away when it is back', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const target = await node.publish();
  node.unregister();
  await assert.rejects(
    node.unpublish(),
    message(/^kubernetes\.io\/csi: Unmounter\.TearDownAt failed to get CSI client: driver name/),
  );
  assert.ok(isInMountTable(target));
  node.register();
  await node.unpublish();
  await node.unstage();
  assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
});

test('a driver that says it is done and is not is asked again, one mount at a time', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const target = await node.publish();
  systemMounts().mountTmpfs(target);
  node.fail({ method: 'NodeUnpublishVolume', moment: 'before', code: 'INTERNAL' });
  await assert.rejects(
    node.unpublish(),
    message(/^kubernetes\.io\/csi: Unmounter\.TearDownAt failed: rpc error: code = Internal/),
  );
  node.fail();
  await assert.doesNotReject(async () => {
    for (let attempts = 0; attempts < 3 && existsSync(dirname(target)); attempts += 1)
      await node.unpublish().catch(() => {});
  });
  assert.equal(existsSync(dirname(target)), false);
});

test('what a driver leaves in a directory is never deleted', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const target = await node.publish();
  writeFileSync(join(dirname(target), 'junk'), 'of the driver');
  await assert.rejects(node.unpublish(), message(/directory not empty/));
  assert.equal(readFileSync(join(dirname(target), 'junk'), 'utf8'), 'of the driver');
  assert.ok(existsSync(join(dirname(target), 'vol_data.json')), 'so that it can be tried again');
});

test('a link in the place of a volume leads no driver elsewhere', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const { directory } = node.request(node.spec());
  const elsewhere = join(node.root, 'elsewhere');
  const link = join(directory, 'mount');
  for (const path of [directory, elsewhere]) mkdirSync(path, { recursive: true });
  writeFileSync(join(elsewhere, 'data'), 'of somebody else');
  symlinkSync(elsewhere, link);
  await node.publish();
  assert.ok(isInMountTable(link));
  assert.equal(isInMountTable(elsewhere), false);
  await node.unpublish();
  mkdirSync(directory, { recursive: true });
  symlinkSync(elsewhere, link);
  await node.unpublish();
  assert.deepEqual([readdirSync(elsewhere), existsSync(directory)], [['data'], false]);
});

test('a driver that says it has published and has not is not believed', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const silent = {
    nodeGetCapabilities: () => Promise.resolve({ capabilities: [] }),
    nodePublishVolume: async () => ({}),
  };
  node.drivers.node = () => silent as unknown as ReturnType<CsiDrivers['node']>;
  await assert.rejects(node.publish(), (error) => {
    assert.equal(failureClassOf(error), 'uncertain');
    return message(/the driver has published the volume, but ".*" is not a directory$/)(error);
  });
});

test('a volume is attached when its VolumeAttachment says so', { skip }, async (t) => {
  const node = await aNode(t);
  const spec = node.spec();
  const { source, pod } = node.request(spec);
  const { attach } = node.plugin;
  const wait = async (): Promise<string | undefined> =>
    await attach?.waitForAttach({ spec, source, pod, devicePath: '' }, signal);
  assert.equal(attach?.canAttach(source, spec), false);
  assert.equal(await wait(), '');
  node.objects.clear();
  assert.equal(attach?.canAttach(source, spec), true);
  const id = attachmentName({ driver: name, volumeHandle: node.handle }, nodeName);
  const given = `volume ${node.handle} has GET error for volume attachment ${id}: volumeattachments.storage.k8s.io "${id}" not found`;
  await assert.rejects(wait(), message(given));
  const attachment = { metadata: { name: id }, spec: { attacher: name, nodeName, source: {} } };
  node.attachments.set(id, attachment);
  await assert.rejects(wait(), message(`volume ${node.handle} is not attached for volume attachment ${id}`));
  const full = { message: 'no room', errorCode: 8 };
  node.attachments.set(id, { ...attachment, status: { attached: false, attachError: full } });
  await assert.rejects(wait(), message('no room'));
  assert.equal(await attach?.isLimitReached?.(source, spec, signal), true);
  node.attachments.set(id, { ...attachment, status: { attached: true, attachmentMetadata: { lun: '3' } } });
  assert.equal(await wait(), id);
  assert.equal(await attach?.isLimitReached?.(source, spec, signal), false);
  const foreign = { attacher: `x.${name}`, nodeName, source: {} };
  node.attachments.set(id, {
    ...attachment,
    spec: foreign,
    status: { attached: true, attachmentMetadata: { a: 'b' } },
  });
  const whose = `kubernetes.io/csi: volume attachment ${id} is of driver x.${name} on node ${nodeName}`;
  await assert.rejects(node.stage(), { message: whose });
  node.attachments.set(id, { ...attachment, status: { attached: true, attachmentMetadata: { lun: '3' } } });
  await node.stage();
  assert.deepEqual(node.asked('NodeStageVolume').request['publishContext'], { lun: '3' });
  const metadata = { name: id, deletionTimestamp: '2026-01-01T00:00:00Z' };
  node.attachments.set(id, { ...attachment, metadata, status: { attached: true } });
  await assert.rejects(wait(), message('volume attachment is being deleted'));
});

test('a pipe in the place of the draft of a file holds up nothing', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const request = node.request(node.spec());
  mkdirSync(request.directory, { recursive: true });
  execFileSync('mkfifo', [join(request.directory, '.vol_data.json.draft')]);
  await node.publish();
  assert.ok(existsSync(join(request.directory, 'vol_data.json')));
});

test('only a driver that asks for it is called again', { skip }, async (t) => {
  const node = await aNode(t);
  const { source } = node.request(node.spec());
  assert.equal(node.plugin.follows?.(source), undefined);
  node.say({ requiresRepublish: true });
  assert.deepEqual(node.plugin.follows?.(source), []);
  node.say({ requiresRepublish: true, tokenRequests: [{ audience: '' }] });
  assert.deepEqual(node.plugin.follows?.(source), [{ token: true }]);
});

test('a raw device is staged and published for each pod, and nothing of it stays', { skip }, async (t) => {
  const node = await aNode(t);
  const spec = node.spec({}, { volumeMode: 'Block' });
  const { source, pod } = node.request(spec);
  const { block } = node.plugin;
  assert.ok(block);
  const mapPath = block.globalMapPathOf(source, spec);
  assert.equal(await block.setUpDevice?.({ source, spec, pod }, signal), '', 'what is staged is no device');
  assert.ok(existsSync(join(node.root, 'plugins/kubernetes.io/csi/volumeDevices/staging/pv1')));
  const device = await block.mapPodDevice?.({ source, spec, pod }, signal);
  assert.ok(statSync(device ?? '').isBlockDevice());
  const id = attachmentName({ driver: name, volumeHandle: node.handle }, nodeName);
  assert.equal(
    readFileSync(join(dirname(mapPath), 'data', 'vol_data.json'), 'utf8'),
    `{"attachmentID":"${id}","driverName":"${name}","nodeName":"n1","specVolID":"pv1","volumeHandle":"${node.handle}"}\n`,
  );
  const found = node.restart();
  const reconstructed = found.block?.reconstruct(pod.metadata.uid ?? '', 'pv1', mapPath);
  assert.equal(reconstructed?.persistentVolume?.spec.volumeMode, 'Block');
  assert.deepEqual(found.leftBehind?.(), [reconstructed]);
  for (let times = 0; times < 2; times += 1) {
    await found.block?.unmapPodDevice?.({ podUid: pod.metadata.uid ?? '', volumeName: 'pv1' }, signal);
  }
  for (let times = 0; times < 2; times += 1) await found.block?.tearDownDevice?.(mapPath, '', signal);
  assert.deepEqual([node.left(), node.driver.log.inUse(), found.leftBehind?.()], [[], [], []]);
  assert.deepEqual(node.driver.log.violations(), []);
});

for (const volumeName of ['staging', 'publish']) {
  test(`a raw device called ${volumeName} is refused, and costs others nothing`, { skip }, async (t) => {
    const node = await aNode(t);
    const spec = node.spec({}, { volumeMode: 'Block' });
    const { source, pod } = node.request(spec);
    await node.plugin.block?.setUpDevice?.({ source, spec, pod }, signal);
    const left = node.left();
    const named = {
      ...spec,
      persistentVolume: { ...spec.persistentVolume, metadata: { name: volumeName } },
    } as typeof spec;
    const refused = { message: /a PersistentVolume with volumeMode Block cannot be called/ };
    const { block } = node.plugin;
    assert.throws(() => block?.globalMapPathOf(source, named), refused);
    await assert.rejects(async () => await block?.setUpDevice?.({ source, spec: named, pod }, signal), refused);
    const mapPath = join(node.root, 'plugins/kubernetes.io/csi/volumeDevices', volumeName, 'dev');
    await assert.rejects(async () => await block?.tearDownDevice?.(mapPath, '', signal), refused);
    assert.deepEqual(node.left(), left);
    assert.deepEqual(
      node.plugin.leftBehind?.().map(({ persistentVolume }) => persistentVolume?.metadata.name),
      ['pv1'],
    );
  });
}

/** A raw device at each of the four steps. */
function deviceSteps(
  node: Node,
): Readonly<Record<'stage' | 'publish' | 'unpublish' | 'unstage', () => Promise<unknown>>> {
  const spec = node.spec({}, { volumeMode: 'Block' });
  const { source, pod } = node.request(spec);
  const { block } = node.plugin;
  assert.ok(block);
  const mapPath = block.globalMapPathOf(source, spec);
  const podUid = pod.metadata.uid ?? '';
  return {
    stage: async () => await block.setUpDevice?.({ source, spec, pod }, signal),
    publish: async () => await block.mapPodDevice?.({ source, spec, pod }, signal),
    unpublish: async () => await block.unmapPodDevice?.({ podUid, volumeName: 'pv1' }, signal),
    unstage: async () => await block.tearDownDevice?.(mapPath, '', signal),
  };
}
const failureOf = (act: Promise<unknown>): Promise<unknown> =>
  act.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );

test(
  'a raw device that is published for a pod of which nothing else is there is unpublished first',
  { skip },
  async (t) => {
    const node = await aNode(t);
    const { stage, publish, unstage } = deviceSteps(node);
    await stage();
    await publish();
    node.restart();
    await unstage();
    assert.deepEqual([node.left(), node.driver.log.inUse(), node.driver.log.violations()], [[], [], []]);
  },
);

for (const moment of ['before', 'after'] as const) {
  test(`failures of a driver ${moment} its work decide what stays of a raw device`, { skip }, async (t) => {
    const node = await aNode(t);
    const { stage, publish, unpublish, unstage } = deviceSteps(node);
    const failsAt = async (
      method: string,
      act: () => Promise<unknown>,
      left: readonly [number, number],
    ): Promise<void> => {
      for (const [code, isUncertain] of codes) {
        node.fail({ method, code, moment });
        assert.equal(failureClassOf(await failureOf(act())), isUncertain ? 'uncertain' : 'final', `${method} ${code}`);
        assert.equal(node.plugin.leftBehind?.().length, left[isUncertain ? 1 : 0], `${method} ${code}`);
      }
      node.fail();
      await act();
    };
    await failsAt('NodeStageVolume', stage, [0, 1]);
    // From here on it is staged.
    await failsAt('NodePublishVolume', publish, [1, 1]);
    await unpublish();
    await unstage();
    assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
    assert.deepEqual(node.driver.log.violations(), []);
  });

  test(`whatever a driver answers ${moment} it takes a volume away, it is asked again`, { skip }, async (t) => {
    const node = await aNode(t);
    const device = deviceSteps(node);
    const files = {
      stage: () => node.stage(),
      publish: () => node.publish(),
      unpublish: () => node.unpublish(),
      unstage: () => node.unstage(),
    };
    for (const { stage, publish, unpublish, unstage } of [files, device]) {
      await stage();
      await publish();
      for (const [act, method] of [
        [unpublish, 'NodeUnpublishVolume'],
        [unstage, 'NodeUnstageVolume'],
      ] as const) {
        for (const [code] of codes) {
          node.fail({ method, code, moment });
          const error = await failureOf(act());
          assert.equal(failureClassOf(error), 'final', `${method} ${code}`);
          message(/desc = scripted for NodeUn/)(error);
          const records = node.left().filter((path) => path.endsWith('vol_data.json'));
          assert.ok(records.length > 0, `what says whose it is stays: ${method} ${code}`);
        }
        node.fail();
        await act();
      }
      assert.deepEqual([node.left(), node.driver.log.inUse()], [[], []]);
    }
    assert.deepEqual(node.driver.log.violations(), []);
  });
}

const refusals: readonly [code: NonNullable<Fault['code']>, refusal: string | undefined][] = [
  ['FAILED_PRECONDITION', 'in-use'],
  ['INVALID_ARGUMENT', 'infeasible'],
  ['OUT_OF_RANGE', 'infeasible'],
  ['NOT_FOUND', 'infeasible'],
  ['INTERNAL', undefined],
  ['UNAVAILABLE', undefined],
];
test('why a driver does not grow a volume decides what becomes of it', { skip }, async (t) => {
  const node = await aNode(t);
  const spec = node.spec();
  const { source } = node.request(spec);
  const request = { source, spec, directory: '/pod/mount', deviceMountPath: '/staged', sizeBytes: 42n };
  const grow = async (): Promise<unknown> => {
    try {
      return await node.plugin.expand?.expand(request, signal);
    } catch (error) {
      return error;
    }
  };
  for (const [code, refusal] of refusals) {
    node.fail({ method: 'NodeExpandVolume', code });
    const error = await grow();
    assert.equal(expansionRefusalOf(error), refusal, code);
    assert.equal(failureClassOf(error), 'final', code);
    assert.match((error as Error).message, /^Expander\.NodeExpand failed to expand the volume /);
  }
  const { volumePath, stagingTargetPath, capacityRange } = node.asked('NodeExpandVolume').request;
  assert.deepEqual([volumePath, stagingTargetPath, capacityRange], ['/pod/mount', '/staged', { requiredBytes: '42' }]);
  node.script.capabilities = { node: [] };
  const error = await grow();
  assert.equal(expansionRefusalOf(error), 'not-supported');
  assert.ok(message(`NodeExpand is not supported by the CSI driver ${name}`)(error));
});

test('a driver says how much of a volume is used, and what it says is bounded', { skip }, async (t) => {
  const node = await aNode(t);
  await node.stage();
  const spec = node.spec();
  const path = await node.publish();
  const { source } = node.request(spec);
  const usage = async () => await node.plugin.usage?.({ source, spec, path }, signal);
  const { capacityBytes = 0, inodes = 0 } = (await usage()) ?? {};
  assert.ok(capacityBytes > 8 * 1024 * 1024 && capacityBytes <= 16 * 1024 * 1024);
  assert.ok(inodes > 0);
  const wrong = { unit: 'BYTES', total: '9223372036854775807', available: '-5', used: '7' };
  node.fail({ method: 'NodeGetVolumeStats', answer: { usage: [wrong] } });
  assert.deepEqual(await usage(), { capacityBytes: Number.MAX_SAFE_INTEGER, availableBytes: 0, usedBytes: 7 });
  node.fail({ method: 'NodeGetVolumeStats', answer: { usage: [] } });
  await assert.rejects(usage(), message(/usage is nil$/));
  node.script.capabilities = { node: ['STAGE_UNSTAGE_VOLUME'] };
  assert.equal(await usage(), undefined);
});

test(
  'a driver called like the directory of raw devices is refused before anything is made for it',
  { skip },
  async (t) => {
    const node = await aNode(t);
    const why = 'a driver cannot be called "volumeDevices": the node keeps raw devices under that name';
    await assert.rejects(node.stage(node.spec({ driver: 'volumeDevices' })), message(`kubernetes.io/csi: ${why}`));
    assert.deepEqual(node.left(), []);
  },
);
