import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GrpcError } from '../../grpc/grpc-error.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type DriverTraits, allCapabilities } from '../../testing/csi/memory-driver.ts';
import { newVolume } from '../../testing/fakes/storage-builders.ts';
import { CsiWorld } from '../../testing/worlds/csi-story.ts';
import { nodeName } from '../../testing/worlds/storage-world.ts';

/** A volume `disk` of the driver, which knows it. */
async function opened(t: TestContext, traits: DriverTraits = {}, csiParts: object = {}): Promise<CsiWorld> {
  const csi = await CsiWorld.open(traits);
  t.after(() => csi.world.close());
  csi.driver.volumes.set('disk', { id: 'id-disk', sizeBytes: 2n ** 30n, published: new Set() });
  const source = { driver: csi.driver.name, volumeHandle: 'id-disk', volumeAttributes: { lun: '3' }, ...csiParts };
  const { metadata, spec } = newVolume('disk', { csi: source, mountOptions: ['noatime'] }) as PersistentVolume;
  const { hostPath: _, ...rest } = spec;
  await csi.create('v1', 'PersistentVolume', { metadata, spec: rest } as KubeObject);
  return csi;
}

const failing = (code: GrpcError['code'], text = 'why'): Error => new GrpcError('ControllerPublishVolume', code, text);
const finalizer = 'external-attacher/disks-example-com';

test('a volume is attached with all that the driver has to know, and what it answers is on record', async (t) => {
  const csi = await opened(t, {}, { readOnly: true, fsType: 'xfs' });
  await csi.attach('disk', 'one');
  await csi.world.rest();
  const { volumeId, nodeId, readonly, volumeCapability, volumeContext } = csi.driver.named(
    'controllerPublishVolume',
  )[0] as Record<string, { accessType?: { value: { fsType: string; mountFlags: readonly string[] } } }>;
  const { fsType, mountFlags } = volumeCapability?.accessType?.value ?? assert.fail();
  assert.deepEqual(
    { volumeId, nodeId, readonly, volumeContext, fsType, mountFlags },
    {
      volumeId: 'id-disk',
      nodeId: 'id-here',
      readonly: true,
      volumeContext: { lun: '3' },
      fsType: 'xfs',
      mountFlags: ['noatime'],
    },
  );
  const [{ metadata, status } = assert.fail()] = csi.attachments;
  assert.deepEqual(metadata.finalizers, [finalizer]);
  assert.equal(metadata.annotations?.['csi.alpha.kubernetes.io/node-id'], 'id-here');
  assert.deepEqual(status, { attached: true, attachmentMetadata: { device: '/dev/id-disk' } });
  assert.ok(csi.volumes[0]?.metadata.finalizers?.includes(finalizer));
});

test('a driver that does not attach read-only is not asked to', async (t) => {
  const capabilities = allCapabilities.filter((one) => one !== 'PUBLISH_READONLY');
  const csi = await opened(t, { capabilities }, { readOnly: true });
  await csi.attach('disk', 'one');
  await csi.world.rest();
  assert.equal((csi.driver.named('controllerPublishVolume')[0] as { readonly readonly: boolean }).readonly, false);
});

test('a failure is on record with its code and without the Secret, and goes with success', async (t) => {
  const data = { key: Buffer.from('top secret').toString('base64') };
  const csi = await opened(t, {}, { controllerPublishSecretRef: { name: 'storage', namespace: 'shop' } });
  await csi.attach('disk', 'one');
  await csi.world.rest();
  assert.equal(
    csi.attachments[0]?.status?.attachError?.message,
    'error getting secret storage in namespace shop: secrets "storage" not found',
  );
  csi.driver.script.controllerPublishVolume = ({ secrets }) => {
    throw failing('RESOURCE_EXHAUSTED', `${secrets['key']}: ${'too many disks '.repeat(500)}`);
  };
  await csi.create('v1', 'Secret', { metadata: { name: 'storage', namespace: 'shop' }, data } as KubeObject);
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  const { message = '', errorCode } = csi.attachments[0]?.status?.attachError ?? {};
  assert.match(message, /^rpc error: code = ResourceExhausted desc = \[redacted\]: too many disks too many/);
  assert.ok(message.length <= 1024);
  assert.equal(errorCode, 8);
  csi.driver.script = {};
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual(csi.attachments[0]?.status, { attached: true, attachmentMetadata: { device: '/dev/id-disk' } });
});

test('an attachment that is deleted while its outcome is unknown is detached', async (t) => {
  const csi = await opened(t);
  csi.driver.script.controllerPublishVolume = () => {
    csi.driver.volumes.get('disk')?.published.add('id-here');
    throw failing('DEADLINE_EXCEEDED');
  };
  await csi.attach('disk', 'one');
  await csi.world.rest();
  await csi.delete('VolumeAttachment', 'one');
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual([csi.attachments, csi.driver.volumes.get('disk')?.published.size], [[], 0]);
});

test('a failing detach is on record, and repeated until it succeeds; also without the node, once', async (t) => {
  const csi = await opened(t);
  await csi.attach('disk', 'one');
  await csi.world.rest();
  await csi.delete('CSINode', nodeName);
  csi.driver.script.controllerUnpublishVolume = () => {
    throw failing('INTERNAL', 'stuck');
  };
  await csi.delete('VolumeAttachment', 'one');
  await csi.world.rest();
  assert.equal(csi.attachments[0]?.status?.detachError?.message, 'rpc error: code = Internal desc = stuck');
  csi.driver.script = {};
  const before = csi.driver.named('controllerUnpublishVolume').length;
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual(csi.attachments, []);
  const calls = csi.driver.named('controllerUnpublishVolume') as { readonly nodeId: string }[];
  assert.deepEqual(
    calls.slice(before).map(({ nodeId }) => nodeId),
    ['id-here'],
  );
});

test('the finalizer goes before the status: an attachment that others keep is detached once', async (t) => {
  const csi = await opened(t);
  await csi.attach('disk', 'one');
  await csi.world.rest();
  await csi.update('VolumeAttachment', 'one', (object) => ({
    ...object,
    metadata: { ...object.metadata, finalizers: [...(object.metadata.finalizers ?? []), 'example.com/kept'] },
  }));
  const from = csi.world.points.length;
  await csi.delete('VolumeAttachment', 'one');
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  const points = csi.world.points.slice(from).filter((point) => point.startsWith('csi:'));
  assert.deepEqual(
    points.map((point) => point.replace(/^csi: (?:(call) (\w+).*|update \S*volumeattachments\S* ?(\w*))$/, '$2$3')),
    ['controllerUnpublishVolume', '', 'status'],
  );
  assert.deepEqual(csi.attachments[0]?.status, { attached: false });
});

test('a driver that attaches nothing has every attachment as it is asked for, and holds none up', async (t) => {
  const csi = await opened(t, { capabilities: ['CREATE_DELETE_VOLUME'] });
  await csi.attach('disk', 'one');
  await csi.world.rest();
  assert.deepEqual(csi.attachments[0]?.status, { attached: true });
  assert.equal(csi.attachments[0]?.metadata.finalizers, undefined);
  await csi.delete('VolumeAttachment', 'one');
  await csi.world.rest();
  assert.deepEqual([csi.attachments, csi.driver.requests], [[], []]);
});

const refusals = [
  { it: 'no volume', volume: 'none', text: 'persistentvolume "none" not found' },
  { it: 'a node that has not the driver', node: 'there', text: 'csinode.storage.k8s.io "there" not found' },
];
for (const { it, volume = 'disk', node = nodeName, text } of refusals) {
  test(`an attachment with ${it} says so`, async (t) => {
    const csi = await opened(t);
    const spec = { attacher: csi.driver.name, nodeName: node, source: { persistentVolumeName: volume } };
    await csi.create('storage.k8s.io/v1', 'VolumeAttachment', { metadata: { name: 'one' }, spec } as KubeObject);
    await csi.world.rest();
    assert.equal(csi.attachments[0]?.status?.attachError?.message, text);
    assert.deepEqual(csi.driver.requests, []);
    await csi.delete('VolumeAttachment', 'one');
    await csi.world.rest();
    assert.deepEqual(csi.attachments, [], 'nothing was attached, so nothing holds it');
  });
}

test('attachments of other drivers are left alone, and a volume that is deleted is not attached any more', async (t) => {
  const csi = await opened(t);
  const spec = { attacher: 'other.example.com', nodeName, source: { persistentVolumeName: 'disk' } };
  await csi.create('storage.k8s.io/v1', 'VolumeAttachment', { metadata: { name: 'foreign' }, spec } as KubeObject);
  await csi.attach('disk', 'one');
  await csi.world.rest();
  assert.equal(csi.attachments.find(({ metadata }) => metadata.name === 'foreign')?.status?.attached, false);
  await csi.delete('PersistentVolume', 'disk');
  await csi.attach('disk', 'late');
  await csi.world.rest();
  const late = csi.attachments.find(({ metadata }) => metadata.name === 'late');
  assert.equal(late?.status?.attachError?.message, 'PersistentVolume "disk" is marked for deletion');
  for (const name of ['one', 'late', 'foreign']) {
    assert.equal(csi.volumes.length, 1, 'it stays as long as anything names it');
    await csi.delete('VolumeAttachment', name);
    await csi.world.rest();
  }
  assert.deepEqual(csi.volumes, []);
});
