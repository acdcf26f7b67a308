/**
 * The life of a driver's volumes as its controller side sees it: made for claims, attached, grown, detached, deleted. Told again
 * for each write and each call, struck there, it must come to the same end.
 */
import assert from 'node:assert/strict';
import { messageOf } from '../../base/errors.ts';
import { kindNamed, unlessRefused } from '../../controllers/cluster/cluster.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { runDriverLoops } from '../../csi/controller/csi-controllers.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type DriverTraits, MemoryDriver } from '../csi/memory-driver.ts';
import { aClass, newClaim } from '../fakes/storage-builders.ts';
import { type Fault, type Party, StorageWorld, claimParties, namespace, nodeName } from './storage-world.ts';

export class CsiWorld {
  readonly world: StorageWorld;
  readonly driver: MemoryDriver;

  private constructor(world: StorageWorld, driver: MemoryDriver) {
    this.world = world;
    this.driver = driver;
  }

  /** With a class `disks`, and a class `kept` whose volumes stay. */
  static async open(traits: DriverTraits = {}): Promise<CsiWorld> {
    const driver = new MemoryDriver(traits);
    const party: Party = (deps, signal) =>
      runStorage(
        deps,
        [(given, view, until) => runDriverLoops(driver.connected(deps.effect), given, view, until)],
        true,
        signal,
      );
    const csi = new CsiWorld(await StorageWorld.open({ ...claimParties, csi: party }), driver);
    await csi.addClass('disks', { reclaimPolicy: 'Delete', allowVolumeExpansion: true });
    await csi.addClass('kept', { reclaimPolicy: 'Retain' });
    const drivers = [{ name: driver.name, nodeID: 'id-here', topologyKeys: ['kubernetes.io/hostname'] }];
    await csi.create('storage.k8s.io/v1', 'CSINode', { metadata: { name: nodeName }, spec: { drivers } } as KubeObject);
    return csi;
  }

  async addClass(name: string, parts: Parameters<typeof aClass>[1]): Promise<void> {
    await this.create('storage.k8s.io/v1', 'StorageClass', aClass(name, { provisioner: this.driver.name, ...parts }));
  }

  create(apiVersion: string, kind: string, object: KubeObject): Promise<void> {
    return this.world.create(apiVersion, kind, object);
  }

  async claim(parts: Parameters<typeof newClaim>[0]): Promise<void> {
    await this.create('v1', 'PersistentVolumeClaim', newClaim({ storageClassName: 'disks', ...parts }));
  }

  async claimed(name = 'data'): Promise<PersistentVolumeClaim | undefined> {
    return this.world.get<PersistentVolumeClaim>('PersistentVolumeClaim', name);
  }

  get volumes(): readonly PersistentVolume[] {
    return this.world.all<PersistentVolume>('v1', 'PersistentVolume');
  }

  get attachments(): readonly VolumeAttachment[] {
    return this.world.all<VolumeAttachment>('storage.k8s.io/v1', 'VolumeAttachment');
  }

  async attach(volumeName: string, name = `attach-${volumeName}`): Promise<void> {
    const spec = { attacher: this.driver.name, nodeName, source: { persistentVolumeName: volumeName } };
    await this.create('storage.k8s.io/v1', 'VolumeAttachment', { metadata: { name }, spec } as KubeObject);
  }

  async delete(kind: string, name: string): Promise<void> {
    await unlessRefused(this.world.user.delete(this.key(kind, name)), 404, 409);
  }

  key(kind: string, name: string): string {
    const { user } = this.world;
    const isCore = ['PersistentVolumeClaim', 'PersistentVolume', 'Namespace', 'Secret'].includes(kind);
    const found = kindNamed(user, isCore ? 'v1' : 'storage.k8s.io/v1', kind);
    return user.keyOf(found, found.namespaced ? namespace : '', name);
  }

  async update(kind: string, name: string, change: (object: KubeObject) => KubeObject): Promise<void> {
    await this.world.user.update(this.key(kind, name), change);
  }

  async resize(name: string, storage: string): Promise<void> {
    await this.update('PersistentVolumeClaim', name, (object) => {
      const claim = object as PersistentVolumeClaim;
      return { ...claim, spec: { ...claim.spec, resources: { requests: { storage } } } } as KubeObject;
    });
  }

  /** `Reason: message` of what was said of an object, each once. */
  events(name: string): readonly string[] {
    const all = this.world.all<KubeObject & EventParts>('v1', 'Event');
    return all
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ reason, message }) => `${reason}: ${message}`);
  }

  /** What is wrong when nothing is under way. */
  problems(): readonly string[] {
    const handles = new Set(this.volumes.map(({ spec }) => spec.csi?.volumeHandle));
    const stored = [...this.driver.volumes.values()];
    const lost = stored.filter(({ id }) => !handles.has(id)).map(({ id }) => `${id} has no PersistentVolume`);
    const claims = this.world.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim');
    const unsettled = claims.filter(({ metadata }) => metadata.finalizers?.includes('mountlet.dev/csi-provisioning'));
    const published = stored.flatMap(({ id, published: nodes }) => [...nodes].map((node) => `${id} on ${node}`));
    const attached = new Set(
      this.attachments.map(({ spec }) => `id-${spec.source.persistentVolumeName} on id-${spec.nodeName}`),
    );
    return [
      ...this.driver.problems,
      ...lost,
      ...unsettled.map(({ metadata }) => `${metadata.name} is not settled`),
      ...published.filter((one) => !attached.has(one)).map((one) => `${one} is attached for nobody`),
    ];
  }
}

interface EventParts {
  readonly involvedObject: { readonly name: string };
  readonly reason: string;
  readonly message: string;
}

export interface CsiStoryOptions {
  readonly fault?: Fault & { readonly point: number };
  readonly conflicts?: boolean;
  /** When the fault has struck, and before anything that died is back, the user deletes everything. */
  readonly isCutShort?: boolean;
}

class CutShort extends Error {}

/** Resolves to the points of the story; rejects with what is wrong. */
export async function tellCsiStory({ fault, conflicts = false, isCutShort = false }: CsiStoryOptions = {}): Promise<
  readonly string[]
> {
  const csi = await CsiWorld.open();
  const { world, driver } = csi;
  const started = world.points.length;
  if (fault !== undefined) world.fault = { ...fault, point: started + fault.point };
  world.conflicts = conflicts;
  const endAll = async (): Promise<void> => {
    const names = ['data', 'kept'];
    for (const { metadata } of csi.attachments) await csi.delete('VolumeAttachment', metadata.name);
    for (const name of names) await csi.delete('PersistentVolumeClaim', name);
    world.start();
    await world.rest();
    for (const { metadata } of csi.volumes) await csi.delete('PersistentVolume', metadata.name);
    await world.rest();
    assert.deepEqual(
      [await csi.claimed('data'), await csi.claimed('kept'), csi.attachments],
      [undefined, undefined, []],
    );
    assert.deepEqual(csi.volumes, []);
    const left = [...driver.volumes.keys()];
    assert.ok(left.length <= 1, `only the storage of what is kept is left: ${String(left)}`);
    throw new CutShort();
  };
  const step = async (act: Promise<unknown>): Promise<void> => {
    await act;
    await world.rest();
    if (isCutShort && world.struck !== undefined) await endAll();
    world.start();
    await world.rest();
    assert.deepEqual(csi.problems(), []);
  };
  const volumeOf = async (name: string): Promise<string> => (await csi.claimed(name))?.spec.volumeName ?? '';
  try {
    await step(Promise.all([csi.claim({ name: 'data' }), csi.claim({ name: 'kept', storageClassName: 'kept' })]));
    assert.equal((await csi.claimed('data'))?.status?.phase, 'Bound');
    assert.equal((await csi.claimed('kept'))?.status?.phase, 'Bound');
    const [data, kept] = [await volumeOf('data'), await volumeOf('kept')];
    await step(csi.attach(data));
    assert.deepEqual(
      csi.attachments.map(({ status }) => [status?.attached, status?.attachmentMetadata]),
      [[true, { device: `/dev/id-${data}` }]],
    );
    await step(csi.resize('data', '3Gi'));
    assert.equal((await csi.claimed('data'))?.status?.capacity?.['storage'], '3Gi');
    assert.equal(driver.volumes.get(data)?.sizeBytes, 3n * 1024n ** 3n);
    // The volume first, which waits for the claim; the claim first, which does not.
    await step(csi.delete('PersistentVolume', data));
    await step(csi.delete('VolumeAttachment', `attach-${data}`));
    assert.deepEqual([csi.attachments, driver.volumes.get(data)?.published.size], [[], 0]);
    await step(Promise.all([csi.delete('PersistentVolumeClaim', 'data'), csi.delete('PersistentVolumeClaim', 'kept')]));
    assert.deepEqual(
      csi.volumes.map(({ metadata, status }) => [metadata.name, status?.phase]),
      [[kept, 'Released']],
    );
    assert.deepEqual([...driver.volumes.keys()], [kept]);
    return world.points.slice(started);
  } catch (error) {
    if (error instanceof CutShort) return world.points.slice(started);
    const where = fault === undefined ? '' : `${fault.victim} ${fault.moment} ${fault.point} (${world.struck}): `;
    throw new Error(`${where}${messageOf(error)}\n${world.failures.slice(-5).join('\n')}`, { cause: error });
  } finally {
    await world.close();
  }
}
