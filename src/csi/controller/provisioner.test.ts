import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GrpcError } from '../../grpc/grpc-error.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type DriverTraits, allCapabilities } from '../../testing/csi/memory-driver.ts';
import { newVolume } from '../../testing/fakes/storage-builders.ts';
import { CsiWorld } from '../../testing/worlds/csi-story.ts';
import { nodeName } from '../../testing/worlds/storage-world.ts';
import { failureOf } from './provisioner.ts';
import { driverError } from '../failures.ts';
import { RefusedError } from './requests.ts';
import { NodeGoneError } from './topology.ts';

async function opened(t: TestContext, traits: DriverTraits = {}): Promise<CsiWorld> {
  const csi = await CsiWorld.open(traits);
  t.after(() => csi.world.close());
  return csi;
}

type Code = GrpcError['code'];
const failing = (code: Code, text = 'why'): Error => new GrpcError('CreateVolume', code, text);
const selectedNode = 'volume.kubernetes.io/selected-node';
const selected = (node = nodeName): { readonly metadata: object } => ({
  metadata: { annotations: { [selectedNode]: node } },
});

const codes: readonly { readonly code: Code; readonly failure: string; readonly withNode?: string }[] = [
  { code: 'CANCELLED', failure: 'background' },
  { code: 'DEADLINE_EXCEEDED', failure: 'background' },
  { code: 'UNAVAILABLE', failure: 'background' },
  { code: 'ABORTED', failure: 'background' },
  { code: 'RESOURCE_EXHAUSTED', failure: 'finished', withNode: 'reschedule' },
  { code: 'INVALID_ARGUMENT', failure: 'infeasible' },
  { code: 'ALREADY_EXISTS', failure: 'finished' },
  { code: 'OUT_OF_RANGE', failure: 'finished' },
  { code: 'INTERNAL', failure: 'finished' },
  { code: 'UNKNOWN', failure: 'finished' },
];
for (const { code, failure, withNode = failure } of codes) {
  test(`CreateVolume that fails with ${code} is ${failure}, and ${withNode} where a node is chosen`, () => {
    const error = driverError(failing(code), []);
    assert.deepEqual([failureOf(error, false), failureOf(error, true)], [failure, withNode]);
  });
}

test('what was not asked for changes nothing, and a node that is gone is no reason to wait', () => {
  assert.equal(failureOf(new RefusedError('no secret'), true), 'unchanged');
  assert.deepEqual(
    [failureOf(new NodeGoneError('gone'), true), failureOf(new NodeGoneError('gone'), false)],
    ['reschedule', 'unchanged'],
  );
  assert.equal(failureOf(new Error('the answer makes no sense'), true), 'background');
});

test('a call whose outcome is unknown is repeated with the same name until it is known, and no other node is asked for', async (t) => {
  const csi = await opened(t, { hasTopology: true });
  await csi.addClass('late', { volumeBindingMode: 'WaitForFirstConsumer', reclaimPolicy: 'Delete' });
  let answers: readonly Code[] = ['UNAVAILABLE', 'ABORTED', 'DEADLINE_EXCEEDED'];
  csi.driver.script.createVolume = () => {
    const [code, ...rest] = answers;
    answers = rest;
    if (code !== undefined) throw failing(code);
    return undefined;
  };
  await csi.claim({ storageClassName: 'late', ...selected() });
  for (let tries = 0; tries < 4; tries += 1) await csi.world.rest();
  const claim = await csi.claimed();
  assert.equal(claim?.status?.phase, 'Bound');
  assert.equal(claim?.metadata.annotations?.[selectedNode], nodeName);
  const names = csi.driver.named('createVolume').map((request) => (request as { readonly name: string }).name);
  assert.deepEqual(
    names,
    Array.from({ length: 4 }, () => `pvc-${claim?.metadata.uid}`),
  );
  assert.deepEqual(csi.problems(), []);
});

test('a claim is deleted only when it is known whether there is a volume, and that one goes too', async (t) => {
  const csi = await opened(t);
  let isSlow = true;
  csi.driver.script.createVolume = ({ name }) => {
    if (!isSlow) return undefined;
    // It goes on, and is done some time later.
    csi.driver.volumes.set(name, { id: `id-${name}`, sizeBytes: 2n ** 30n, published: new Set() });
    throw failing('DEADLINE_EXCEEDED');
  };
  await csi.claim({});
  await csi.world.rest();
  await csi.delete('PersistentVolumeClaim', 'data');
  await csi.world.rest();
  assert.ok(await csi.claimed(), 'it waits');
  isSlow = false;
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.equal(await csi.claimed(), undefined);
  assert.deepEqual([csi.volumes, [...csi.driver.volumes]], [[], []]);
});

test('what was made for a claim that got another volume meanwhile is deleted as soon as it is known', async (t) => {
  const csi = await opened(t);
  csi.driver.script.createVolume = ({ name }) => {
    csi.driver.volumes.set(name, { id: `id-${name}`, sizeBytes: 2n ** 30n, published: new Set() });
    throw failing('DEADLINE_EXCEEDED');
  };
  await csi.claim({});
  await csi.world.rest();
  await csi.create('v1', 'PersistentVolume', newVolume('by-hand', { storageClassName: 'disks' }));
  await csi.world.rest();
  assert.equal((await csi.claimed())?.spec.volumeName, 'by-hand');
  assert.equal(csi.driver.volumes.size, 1);
  csi.driver.script = {};
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual([csi.volumes.map(({ metadata }) => metadata.name), [...csi.driver.volumes]], [['by-hand'], []]);
  assert.deepEqual(csi.problems(), []);
});

test('a claim that goes waits for its volume to go, whatever the driver says of that', async (t) => {
  const csi = await opened(t);
  csi.driver.script.createVolume = ({ name }) => {
    csi.driver.volumes.set(name, { id: `id-${name}`, sizeBytes: 2n ** 30n, published: new Set() });
    throw failing('ABORTED');
  };
  csi.driver.script.deleteVolume = () => {
    throw failing('INTERNAL', 'disk is busy');
  };
  await csi.claim({});
  await csi.world.rest();
  await csi.delete('PersistentVolumeClaim', 'data');
  delete csi.driver.script.createVolume;
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.ok(await csi.claimed());
  assert.match(
    csi.events('data').join('\n'),
    /Cleanup of volume pvc-\S+ failed: rpc error: code = Internal desc = disk is busy/,
  );
  csi.driver.script = {};
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual([await csi.claimed(), csi.volumes, [...csi.driver.volumes]], [undefined, [], []]);
});

test('a driver that has no room on the chosen node leaves the choice to the scheduler again', async (t) => {
  const csi = await opened(t, { hasTopology: true });
  await csi.addClass('late', { volumeBindingMode: 'WaitForFirstConsumer' });
  csi.driver.script.createVolume = () => {
    throw failing('RESOURCE_EXHAUSTED', 'full');
  };
  await csi.claim({ storageClassName: 'late', ...selected() });
  await csi.world.rest();
  const { metadata } = (await csi.claimed()) ?? assert.fail();
  assert.equal(metadata.annotations?.[selectedNode], undefined);
  assert.deepEqual(csi.problems(), []);
  assert.ok(csi.events('data').includes('ProvisioningFailed: rpc error: code = ResourceExhausted desc = full'));
  assert.equal(csi.driver.named('createVolume').length, 1, 'and it waits for that');
});

test('what the driver cannot do at all is tried again after five minutes, or with another class', async (t) => {
  const csi = await opened(t);
  csi.driver.script.createVolume = () => {
    throw failing('INVALID_ARGUMENT', 'no such tier');
  };
  await csi.claim({});
  await csi.world.rest();
  await csi.world.clock.advance(4 * 60_000);
  await csi.world.rest();
  assert.equal(csi.driver.named('createVolume').length, 1);
  const text =
    'ProvisioningFailed: Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = InvalidArgument desc = no such tier';
  assert.ok(csi.events('data').includes(text), String(csi.events('data')));
  await csi.delete('StorageClass', 'disks');
  csi.driver.script = {};
  await csi.addClass('disks', { reclaimPolicy: 'Delete' });
  await csi.world.rest();
  assert.equal((await csi.claimed())?.status?.phase, 'Bound');
});

test('a volume that is smaller than it should be is deleted', async (t) => {
  const csi = await opened(t);
  csi.driver.script.createVolume = ({ name }) => {
    csi.driver.volumes.set(name, { id: `id-${name}`, sizeBytes: 1n, published: new Set() });
    return { volume: { volumeId: `id-${name}`, capacityBytes: 1n } };
  };
  await csi.claim({});
  await csi.world.rest();
  assert.deepEqual([csi.volumes, [...csi.driver.volumes]], [[], []]);
  const text = 'ProvisioningFailed: created volume capacity 1 less than requested capacity 1073741824';
  assert.ok(csi.events('data').includes(text), String(csi.events('data')));
});

test('a Secret goes to the driver as it is, and into no Event, also when the driver repeats it', async (t) => {
  const csi = await opened(t);
  const password = 'corr\u00e9ct horse\nbattery';
  const data = { password: Buffer.from(password).toString('base64') };
  await csi.create('v1', 'Secret', { metadata: { name: 'storage', namespace: 'shop' }, data } as KubeObject);
  const parameters = {
    'csi.storage.k8s.io/provisioner-secret-name': 'storage',
    'csi.storage.k8s.io/provisioner-secret-namespace': '${pvc.namespace}',
  };
  await csi.addClass('locked', { parameters, reclaimPolicy: 'Delete' });
  csi.driver.script.createVolume = ({ secrets }) => {
    throw failing('INTERNAL', `cannot log in with ${secrets['password']}`);
  };
  await csi.claim({ storageClassName: 'locked' });
  await csi.world.rest();
  assert.deepEqual((csi.driver.named('createVolume')[0] as { readonly secrets: object }).secrets, { password });
  const said = [...csi.events('data'), ...csi.world.failures].join('\n');
  assert.match(said, /cannot log in with/);
  for (const part of [password, 'battery', 'horse']) assert.ok(!said.includes(part), said);
  csi.driver.script = {};
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  await csi.delete('PersistentVolumeClaim', 'data');
  await csi.world.rest();
  assert.deepEqual((csi.driver.named('deleteVolume')[0] as { readonly secrets: object }).secrets, { password });
});

test('a Secret that is missing is said, and waited for', async (t) => {
  const csi = await opened(t);
  const parameters = { 'csi.storage.k8s.io/secret-name': 'late', 'csi.storage.k8s.io/secret-namespace': 'shop' };
  await csi.addClass('locked', { parameters });
  await csi.claim({ storageClassName: 'locked' });
  await csi.world.rest();
  const text = 'ProvisioningFailed: error getting secret late in namespace shop: secrets "late" not found';
  assert.ok(csi.events('data').includes(text), String(csi.events('data')));
  assert.deepEqual([csi.driver.named('createVolume'), csi.problems()], [[], []]);
  await csi.create('v1', 'Secret', { metadata: { name: 'late', namespace: 'shop' } });
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.equal((await csi.claimed())?.status?.phase, 'Bound');
});

test('a claim of a class that waits has its volume where its node is', async (t) => {
  const csi = await opened(t, { hasTopology: true });
  await csi.addClass('late', { volumeBindingMode: 'WaitForFirstConsumer' });
  const segments = { 'kubernetes.io/hostname': nodeName };
  csi.driver.script.createVolume = ({ name, accessibilityRequirements }) => {
    assert.deepEqual(
      accessibilityRequirements?.requisite.map((one) => one.segments),
      [segments],
    );
    csi.driver.volumes.set(name, { id: `id-${name}`, sizeBytes: 2n ** 30n, published: new Set() });
    return { volume: { volumeId: `id-${name}`, accessibleTopology: [{ segments }] } };
  };
  await csi.claim({ storageClassName: 'late' });
  await csi.world.rest();
  assert.equal(csi.volumes.length, 0);
  await csi.update('PersistentVolumeClaim', 'data', (claim) => ({
    ...claim,
    metadata: { ...claim.metadata, annotations: { ...claim.metadata.annotations, [selectedNode]: nodeName } },
  }));
  await csi.world.rest();
  const terms = csi.volumes.flatMap(({ spec }) => spec.nodeAffinity?.required?.nodeSelectorTerms ?? []);
  const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] };
  assert.deepEqual(terms, [{ matchExpressions: [expression] }]);
});

test('a driver that makes no volumes says so, and claims of others are left alone', async (t) => {
  const csi = await opened(t, { capabilities: allCapabilities.filter((one) => one !== 'CREATE_DELETE_VOLUME') });
  await csi.addClass('others', { provisioner: 'other.example.com' });
  await csi.claim({});
  await csi.claim({ name: 'foreign', storageClassName: 'others' });
  await csi.world.rest();
  const text =
    'ProvisioningFailed: CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME capability is not reported';
  assert.ok(csi.events('data').includes(text), String(csi.events('data')));
  assert.ok(csi.events('foreign').every((event) => event.startsWith('ExternalProvisioning')));
  assert.deepEqual(csi.driver.requests, []);
});

test('a volume is deleted when nothing is attached any more, the data first', async (t) => {
  const csi = await opened(t);
  await csi.claim({});
  await csi.world.rest();
  const name = (await csi.claimed())?.spec.volumeName ?? '';
  await csi.attach(name);
  await csi.world.rest();
  await csi.delete('PersistentVolumeClaim', 'data');
  await csi.world.rest();
  assert.ok(
    csi.events(name).includes(`VolumeFailedDelete: persistentvolume ${name} is still attached to node ${nodeName}`),
  );
  assert.equal(csi.driver.named('deleteVolume').length, 0);
  assert.deepEqual(csi.world.failures, [], 'to wait is no failure');
  csi.driver.script.deleteVolume = () => {
    throw failing('INTERNAL', 'busy');
  };
  await csi.delete('VolumeAttachment', `attach-${name}`);
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.ok(csi.events(name).includes('VolumeFailedDelete: rpc error: code = Internal desc = busy'));
  assert.equal(csi.volumes.length, 1, 'it stays as long as its data');
  csi.driver.script = {};
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual([csi.volumes, [...csi.driver.volumes], csi.driver.problems], [[], [], []]);
});

test("a volume's finalizer follows its policy", async (t) => {
  const csi = await opened(t);
  await csi.claim({});
  await csi.world.rest();
  const name = (await csi.claimed())?.spec.volumeName ?? '';
  const isProtected = async (): Promise<boolean> =>
    (await csi.world.get('PersistentVolume', name))?.metadata.finalizers?.includes(
      'external-provisioner.volume.kubernetes.io/finalizer',
    ) === true;
  const setPolicy = async (persistentVolumeReclaimPolicy: string): Promise<void> => {
    await csi.update('PersistentVolume', name, (object) => {
      const volume = object as PersistentVolume;
      return { ...volume, spec: { ...volume.spec, persistentVolumeReclaimPolicy } } as KubeObject;
    });
    await csi.world.rest();
  };
  assert.equal(await isProtected(), true);
  await setPolicy('Retain');
  assert.equal(await isProtected(), false);
  await setPolicy('Delete');
  assert.equal(await isProtected(), true);
});
