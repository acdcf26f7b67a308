/** The loop on a server without a disk; the test is the user and the node. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiClient } from '../../client/api/api-client.ts';
import { persistentVolumeClaims, persistentVolumes } from '../../client/api/resource-reference.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { finished, inProgress, infeasible, resizeStatusOf, storageOf } from '../../kube/references/claim-resize.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { runningApiServer } from '../../testing/servers/test-api-server.ts';
import { ensureDefaultObjects } from '../default-objects.ts';
import { runClaimProtection } from './protection.ts';
import { runStorage } from './storage.ts';
import { runVolumeBinder } from './volume-binder.ts';
import { runVolumeExpander } from './volume-expander.ts';

const { signal } = new AbortController();
const preResize = 'volume.alpha.kubernetes.io/pre-resize-capacity';
const classes = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'storageclasses',
  kind: 'StorageClass',
  isNamespaced: false,
};
const events = { group: '', version: 'v1', plural: 'events', kind: 'Event', isNamespaced: true };

/** A claim `default/data` of 1Gi, bound to the volume `disk` of a class that grows. */
class World {
  readonly client: ApiClient;
  readonly clock: FakeClock;

  private constructor(client: ApiClient, clock: FakeClock) {
    this.client = client;
    this.clock = clock;
  }

  static async start(
    t: TestContext,
    source: object,
    parts: { readonly allows?: boolean; readonly by?: string; readonly asks?: string } = {},
  ): Promise<World> {
    const clock = new FakeClock();
    const server = await runningApiServer(t, memoryStore(), {
      controllers: (host, until) => {
        const settled = ensureDefaultObjects(host, until);
        const loops = (): Promise<void> =>
          runStorage({ ...host, clock }, [runVolumeBinder, runClaimProtection, runVolumeExpander], true, until);
        return { settled, done: settled.then(loops) };
      },
    });
    const world = new World(server.client(), clock);
    const { allows = true, by, asks = '1Gi' } = parts;
    await world.#create(classes, {
      metadata: { name: 'grows' },
      provisioner: 'kubernetes.io/no-provisioner',
      allowVolumeExpansion: allows,
    });
    const common = { accessModes: ['ReadWriteOnce'], storageClassName: 'grows' };
    const annotations = by === undefined ? {} : { 'pv.kubernetes.io/provisioned-by': by };
    const claimRef = { namespace: 'default', name: 'data' };
    const spec = { ...common, capacity: { storage: '1Gi' }, claimRef, ...source };
    await world.#create(persistentVolumes, { metadata: { name: 'disk', annotations }, spec });
    await world.#create(persistentVolumeClaims, {
      metadata: { name: 'data', namespace: 'default' },
      spec: { ...common, volumeName: 'disk', resources: { requests: { storage: asks } } },
    });
    await world.until((claim) => claim.status?.phase === 'Bound');
    return world;
  }

  async #create(resource: typeof events, object: object): Promise<void> {
    const { namespace } = (object as KubeObject).metadata;
    await this.client.create(resource, namespace === undefined ? {} : { namespace }, object, signal);
  }

  async claim(): Promise<PersistentVolumeClaim> {
    return this.client.get(persistentVolumeClaims, { namespace: 'default', name: 'data' }, signal) as never;
  }

  async volume(): Promise<PersistentVolume> {
    return this.client.get(persistentVolumes, { name: 'disk' }, signal) as never;
  }

  async until(holds: (claim: PersistentVolumeClaim) => boolean): Promise<PersistentVolumeClaim> {
    for (let tries = 0; ; tries += 1) {
      const claim = await this.claim();
      if (holds(claim)) return claim;
      assert.ok(tries < 12_000, `it does not happen: ${JSON.stringify(claim.status)}`);
      await sleep(10);
    }
  }

  async has(status: string): Promise<PersistentVolumeClaim> {
    return this.until((claim) => resizeStatusOf(claim) === status);
  }

  async ask(storage: string): Promise<void> {
    const patch = { spec: { resources: { requests: { storage } } } };
    await this.client.patch(
      persistentVolumeClaims,
      { namespace: 'default', name: 'data', type: 'merge' },
      patch,
      signal,
    );
  }

  /** What a node does that can grow the volume, or cannot. */
  async node(can: boolean): Promise<void> {
    const write = async (patch: object): Promise<void> => {
      const at = { namespace: 'default', name: 'data', subresource: 'status', type: 'strategic' } as const;
      await this.client.patch(persistentVolumeClaims, at, patch, signal);
    };
    await write(inProgress(await this.claim()));
    const claim = await this.claim();
    const size = storageOf(claim.status?.allocatedResources);
    await write(can ? finished(claim, size) : infeasible(claim, 'too large', 0));
  }

  async told(): Promise<readonly string[]> {
    const { items } = await this.client.list(events, { namespace: 'default' }, signal);
    return (items as unknown as { type: string; reason: string; message: string; source: { component: string } }[])
      .filter(({ source }) => source.component === 'volume_expand')
      .map(({ type, reason, message }) => `${type} ${reason} ${message}`);
  }

  async untilTold(text: RegExp): Promise<void> {
    for (let tries = 0; !(await this.told()).some((line) => text.test(line)); tries += 1) {
      assert.ok(tries < 12_000, `nothing like ${text} is said`);
      await sleep(10);
    }
  }
}

const local = {
  local: { path: '/disks/one.img' },
  nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }] } },
};

test('a claim grows: the size is on record, the volume has it, the node is waited for, and then all is as before', async (t) => {
  const world = await World.start(t, local);
  await world.ask('3Gi');
  const claim = await world.has('NodeResizePending');
  assert.deepEqual(claim.status?.allocatedResources, { storage: '3Gi' });
  assert.equal(claim.metadata.annotations?.['volume.kubernetes.io/storage-resizer'], 'kubernetes.io/local-volume');
  const conditions = (claim.status?.conditions ?? []).filter(({ type }) => type !== 'Unused');
  assert.deepEqual(
    conditions.map(({ type, message }) => [type, message]),
    [
      ['Resizing', undefined],
      [
        'FileSystemResizePending',
        'Waiting for user to (re-)start a pod to finish file system resize of volume on node.',
      ],
    ],
  );
  const volume = await world.volume();
  assert.deepEqual([volume.spec.capacity, volume.metadata.annotations?.[preResize]], [{ storage: '3Gi' }, '1Gi']);
  await world.untilTold(/^Normal FileSystemResizeRequired Require file system resize of volume on node$/);
  assert.ok((await world.told()).includes('Normal Resizing External resizer is resizing volume disk'));

  await world.ask('5Gi'); // one after the other
  await world.node(true);
  await world.until(({ status }) => status?.allocatedResources?.['storage'] === '5Gi');
  await world.has('NodeResizePending');
  assert.equal((await world.volume()).metadata.annotations?.[preResize], '3Gi');
  await world.node(true);
  const grown = await world.until(({ status }) => status?.capacity?.['storage'] === '5Gi');
  assert.equal(resizeStatusOf(grown), '');
  for (let tries = 0; (await world.volume()).metadata.annotations?.[preResize] !== undefined; tries += 1) {
    assert.ok(tries < 12_000, 'the mark stays');
    await sleep(10);
  }
});

test('what the node refused is left for a while, and a smaller size is taken at once', async (t) => {
  const world = await World.start(t, local);
  await world.ask('100Gi');
  await world.has('NodeResizePending');
  await world.node(false);
  await world.ask('90Gi');
  await world.until(({ status }) => status?.allocatedResources?.['storage'] === '90Gi');
  await world.has('NodeResizePending');
  await world.node(false);
  const refused = await world.has('NodeResizeInfeasible');
  assert.ok(refused.status?.conditions?.some(({ type }) => type === 'NodeResizeError'));
  for (let minutes = 0; resizeStatusOf(await world.claim()) === 'NodeResizeInfeasible'; minutes += 1) {
    assert.ok(minutes < 60, 'it is not tried again');
    await world.clock.advance(60_000);
    await sleep(10);
  }
  await world.has('NodeResizePending');
  await world.node(false);
  await world.ask('2Gi');
  await world.until(({ status }) => status?.allocatedResources?.['storage'] === '2Gi');
  await world.has('NodeResizePending');
  assert.deepEqual((await world.volume()).spec.capacity, { storage: '2Gi' });
  await world.node(true);
  const grown = await world.until(({ status }) => status?.capacity?.['storage'] === '2Gi');
  assert.deepEqual(
    (grown.status?.conditions ?? []).filter(({ type }) => type !== 'Unused'),
    [],
  );
});

const foreign = [
  {
    it: 'a CSI driver',
    source: { csi: { driver: 'disks.example.com', volumeHandle: 'one' } },
    says: /^Normal ExternalExpanding waiting for an external controller to expand this PVC$/,
  },
  {
    it: 'a directory of the host',
    source: { hostPath: { path: '/disks' } },
    says: /^Normal ExternalExpanding waiting for an external controller to expand this PVC$/,
  },
  {
    it: 'a kind that a CSI driver has taken over',
    source: { awsElasticBlockStore: { volumeID: 'vol-1' } },
    says: /^Normal ExternalExpanding CSI migration enabled for kubernetes\.io\/aws-ebs; waiting for external resizer to expand the pvc$/,
    resizer: 'ebs.csi.aws.com',
  },
  {
    it: 'a directory of our own provisioner',
    source: local,
    by: 'mountlet.dev/local-path',
    says: /^Warning VolumeResizeFailed Cannot expand volume "disk": mountlet\.dev\/local-path limits no volume/,
  },
];
for (const { it, source, by, says, resizer } of foreign) {
  test(`${it} is left alone, and the claim says why`, async (t) => {
    const world = await World.start(t, source, by === undefined ? {} : { by });
    await world.ask('3Gi');
    await world.untilTold(says);
    const claim = await world.until(
      ({ metadata }) => metadata.annotations?.['volume.kubernetes.io/storage-resizer'] === resizer,
    );
    assert.equal(claim.status?.allocatedResources, undefined);
    assert.deepEqual((await world.volume()).spec.capacity, { storage: '1Gi' });
  });
}

test('a claim of a class that does not allow it is refused by the server', async (t) => {
  const world = await World.start(t, local, { allows: false });
  await assert.rejects(world.ask('3Gi'), /only dynamically provisioned pvc can be resized/);
});

test('a claim that was reserved a smaller volume grows when its class allows it, and not before', async (t) => {
  const world = await World.start(t, local, { allows: false, asks: '3Gi' });
  assert.deepEqual((await world.volume()).spec.capacity, { storage: '1Gi' });
  await world.client.patch(classes, { name: 'grows', type: 'merge' }, { allowVolumeExpansion: true }, signal);
  const claim = await world.has('NodeResizePending');
  assert.deepEqual(claim.status?.allocatedResources, { storage: '3Gi' });
});

test('a claim that goes while it grows goes', async (t) => {
  const world = await World.start(t, local);
  await world.ask('3Gi');
  await world.has('NodeResizePending');
  await world.client.delete(persistentVolumeClaims, { namespace: 'default', name: 'data' }, {}, signal);
  for (let tries = 0; (await world.volume()).status?.phase !== 'Released'; tries += 1) {
    assert.ok(tries < 12_000, 'the volume is not released');
    await sleep(10);
  }
  await assert.rejects(world.claim(), /not found/);
});
