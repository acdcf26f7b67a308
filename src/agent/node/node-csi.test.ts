import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { csiDrivers, csiNodes, nodes, withShape } from '../../client/api/resource-reference.ts';
import { nodeShape } from '../../kube/kinds/node.ts';
import { type CsiNode, csiNodeShape } from '../../kube/kinds/storage/csi.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { ScriptedDriver, type ScriptedPlugin } from '../../testing/servers/scripted-driver.ts';
import { type RunningApiServer, nodeIdentity, runningApiServer } from '../../testing/servers/test-api-server.ts';
import { type NodeCsi, nodeCsi } from './node-csi.ts';
import type { NodeNotice } from './notices.ts';

const driverName = 'driver.example.com';
const { signal } = new AbortController();
/** Without controllers, which would delete a CSINode whose Node is gone. */
const apiServer = (t: TestContext): Promise<RunningApiServer> =>
  runningApiServer(t, undefined, { controllers: () => ({ settled: Promise.resolve(), done: Promise.resolve() }) });

class World {
  readonly api: RunningApiServer;
  readonly admin: ApiClient;
  readonly directory: string;
  readonly notices: NodeNotice[] = [];
  readonly csi: NodeCsi;
  changes = 0;
  #wake: () => void = () => {};

  constructor(api: RunningApiServer, directory: string) {
    this.api = api;
    this.admin = api.client();
    this.directory = directory;
    const notify = (notice: NodeNotice): void => {
      this.notices.push(notice);
      this.#wake();
    };
    this.csi = nodeCsi(
      { client: api.client({}, nodeIdentity(api, 'here')), clock: systemClock, random: Math.random, notify },
      { nodeName: 'here', rootDirectory: directory },
    );
  }

  static async start(t: TestContext): Promise<World> {
    const world = new World(await apiServer(t), temporaryDirectory(t));
    const stop = new AbortController();
    await world.addNode();
    const running = world.csi.run(() => (world.changes += 1), stop.signal);
    t.after(async () => {
      stop.abort();
      await running;
    });
    return world;
  }

  async addNode(labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const { metadata } = await this.admin.create(nodes, {}, { metadata: { name: 'here', labels } }, signal);
    this.csi.nodeChanged(metadata.uid);
  }

  async driver(
    t: TestContext,
    plugin: Partial<ScriptedPlugin> & { readonly socketName?: string } = {},
  ): Promise<ScriptedDriver> {
    const driver = await new ScriptedDriver(join(this.directory, 'plugins_registry'), plugin).start();
    t.after(() => driver.stop());
    return driver;
  }

  async until<Kind extends NodeNotice['kind']>(kind: Kind): Promise<Extract<NodeNotice, { readonly kind: Kind }>> {
    for (;;) {
      const index = this.notices.findIndex((notice) => notice.kind === kind);
      if (index >= 0) return this.notices.splice(index, 1)[0] as Extract<NodeNotice, { readonly kind: Kind }>;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  csiNode(): Promise<CsiNode> {
    return this.admin.get(withShape(csiNodes, csiNodeShape), { name: 'here' }, signal);
  }

  /** Reads the CSINode until it passes. */
  async untilCsiNode(passes: (csiNode: CsiNode) => boolean): Promise<CsiNode> {
    for (;;) {
      const csiNode = await this.csiNode().catch(() => undefined);
      if (csiNode !== undefined && passes(csiNode)) return csiNode;
      await systemClock.sleep(10, signal);
    }
  }

  async nodeMetadata(): Promise<{ readonly annotations?: object; readonly labels?: object }> {
    return (await this.admin.get(withShape(nodes, nodeShape), { name: 'here' }, signal)).metadata;
  }
}

test('a node has a CSINode that belongs to it before any driver comes, and is not ready until then', async (t) => {
  const world = new World(await apiServer(t), temporaryDirectory(t));
  assert.deepEqual(world.csi.problems(), ['CSINode is not yet initialized']);
  const stop = new AbortController();
  const running = world.csi.run(() => {}, stop.signal);
  await world.addNode();
  const { metadata, spec } = await world.untilCsiNode(() => world.csi.problems().length === 0);
  assert.deepEqual(spec.drivers, []);
  assert.deepEqual(
    metadata.ownerReferences?.map(({ kind, name }) => `${kind} ${name}`),
    ['Node here'],
  );
  assert.equal(
    metadata.annotations?.['storage.alpha.kubernetes.io/migrated-plugins'],
    'kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume',
  );
  stop.abort();
  await running;
});

test('a driver that registers is recorded in the Node and the CSINode, and taken out when its socket goes', async (t) => {
  const world = await World.start(t);
  const driver = await world.driver(t, {
    nodeInfo: {
      nodeId: 'i-42',
      maxVolumesPerNode: 16n,
      accessibleTopology: { segments: { 'topology.example.com/zone': 'a', 'example.com/rack': '7' } },
    },
  });
  await world.until('DriverRegistered');
  assert.deepEqual(driver.statuses, ['']);
  assert.deepEqual(world.csi.drivers.names(), [driverName]);
  assert.deepEqual((await world.csiNode()).spec.drivers, [
    {
      name: driverName,
      nodeID: 'i-42',
      topologyKeys: ['example.com/rack', 'topology.example.com/zone'],
      allocatable: { count: 16 },
    },
  ]);
  const { annotations, labels } = await world.nodeMetadata();
  assert.deepEqual({ ...annotations }, { 'csi.volume.kubernetes.io/nodeid': `{"${driverName}":"i-42"}` });
  assert.deepEqual({ ...labels }, { 'example.com/rack': '7', 'topology.example.com/zone': 'a' });
  assert.ok(world.changes > 0, 'volumes that waited for it are tried again');

  driver.stop();
  await world.until('DriverUnregistered');
  assert.throws(() => world.csi.drivers.node(driverName), {
    message: `driver name ${driverName} not found in the list of registered CSI drivers`,
    failureClass: 'transient',
  });
  await world.untilCsiNode(({ spec }) => spec.drivers.length === 0);
  while (Object.keys((await world.nodeMetadata()).annotations ?? {}).length > 0) await systemClock.sleep(10, signal);
  assert.equal(
    Object.keys((await world.nodeMetadata()).labels ?? {}).length,
    2,
    'its volumes still depend on the labels',
  );
});

test('a driver with another node ID than before replaces its entry, though the API lets nobody change one', async (t) => {
  const world = await World.start(t);
  const driver = await world.driver(t);
  await world.until('DriverRegistered');
  driver.plugin.nodeInfo = { nodeId: 'node-2' };
  world.csi.limitReached(driverName);
  const { spec } = await world.untilCsiNode(({ spec: { drivers } }) => drivers[0]?.nodeID === 'node-2');
  assert.equal(spec.drivers.length, 1);
});

test('a driver is asked again for its limit when it was reached, and when its CSIDriver says how often', async (t) => {
  const world = await World.start(t);
  let count = 3n;
  await world.driver(t, { nodeInfo: () => ({ nodeId: 'n', maxVolumesPerNode: count }) });
  await world.until('DriverRegistered');
  const limitIs = (limit: number | undefined): Promise<CsiNode> =>
    world.untilCsiNode(({ spec: { drivers } }) => drivers[0]?.allocatable?.count === limit);
  await limitIs(3);
  count = 2n;
  world.csi.limitReached(driverName);
  await limitIs(2);
  count = 2n ** 40n;
  await world.admin.create(
    csiDrivers,
    {},
    { metadata: { name: driverName }, spec: { nodeAllocatableUpdatePeriodSeconds: 10 } },
    signal,
  );
  await limitIs(2 ** 31 - 1);
  assert.equal(world.csi.driverObjects.get(driverName)?.spec.attachRequired, true);
});

test('topology that contradicts a label of the Node keeps a driver out, and no other', async (t) => {
  const world = new World(await apiServer(t), temporaryDirectory(t));
  await world.addNode({ 'example.com/zone': 'b' });
  const stop = new AbortController();
  const running = world.csi.run(() => {}, stop.signal);
  const nodeInfo = { nodeId: 'n', accessibleTopology: { segments: { 'example.com/zone': 'a' } } };
  const refused = await world.driver(t, { name: 'refused.example.com', socketName: 'a.sock', nodeInfo });
  await world.driver(t, { socketName: 'b.sock' });
  const { message } = await world.until('DriverNotRegistered');
  assert.equal(
    message,
    'RegisterPlugin error -- plugin registration failed with err: detected topology value collision: driver reported "example.com/zone":"a" but existing label is "example.com/zone":"b"',
  );
  assert.equal(refused.statuses[0], message, 'it may have been tried again since');
  await world.until('DriverRegistered');
  assert.deepEqual(world.csi.drivers.names(), [driverName]);
  stop.abort();
  await running;
});

test('a CSINode of an earlier Node of the same name is replaced, also when the Node is replaced later', async (t) => {
  const world = new World(await apiServer(t), temporaryDirectory(t));
  const owner = { apiVersion: 'v1', kind: 'Node', name: 'here', uid: 'gone' };
  const drivers = [{ name: 'old.example.com', nodeID: 'old', topologyKeys: [] }];
  await world.admin.create(
    csiNodes,
    {},
    { metadata: { name: 'here', ownerReferences: [owner] }, spec: { drivers } },
    signal,
  );
  const stop = new AbortController();
  const running = world.csi.run(() => {}, stop.signal);
  await world.addNode();
  const { message } = await world.until('CsiNodeReplaced');
  assert.match(
    message,
    /^CSINode "here" was owned by different node \(oldNodeID="gone", newNodeID=".+"\), deleted it$/,
  );
  const { metadata } = await world.untilCsiNode(({ spec }) => spec.drivers.length === 0);
  await world.admin.delete(nodes, { name: 'here' }, undefined, signal);
  await world.addNode();
  await world.untilCsiNode((csiNode) => csiNode.metadata.uid !== metadata.uid);
  stop.abort();
  await running;
});

test('while the API server is away a driver registers all the same, and is recorded when the server is back', async (t) => {
  const first = await apiServer(t);
  const world = new World(first, temporaryDirectory(t));
  const stop = new AbortController();
  const running = world.csi.run(() => {}, stop.signal);
  await first.close();
  const driver = await world.driver(t);
  await world.until('DriverRegistered');
  await world.until('DriverNotRecorded');
  assert.deepEqual(driver.statuses, ['']);
  const again = await runningApiServer(t, undefined, first);
  const admin = again.client();
  const { metadata } = await admin.create(nodes, {}, { metadata: { name: 'here' } }, signal);
  world.csi.nodeChanged(metadata.uid);
  for (let count = 0; count === 0; await systemClock.sleep(20, signal)) {
    const csiNode = await admin.get(withShape(csiNodes, csiNodeShape), { name: 'here' }, signal).catch(() => undefined);
    count = csiNode?.spec.drivers.length ?? 0;
  }
  stop.abort();
  await running;
});
