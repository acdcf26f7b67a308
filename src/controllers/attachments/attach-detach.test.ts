/** The attach/detach controller against a store, nodes and an attacher that does what a test says. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { attachmentName, csiVolumeName } from '../../kube/references/csi-volumes.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { newClaim, newVolume, podWithClaims } from '../../testing/fakes/storage-builders.ts';
import { AttachmentWorld, driver, volumeName } from '../../testing/worlds/attachment-world.ts';

const minute = 60_000;
const waiting = 'Waiting for detach for volume "one" Volume is already';
const succeeded = (pod: string): string =>
  `${pod} Normal SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "one" `;

async function worldOf(t: TestContext, ...settings: Parameters<typeof AttachmentWorld.open>): Promise<AttachmentWorld> {
  const world = await AttachmentWorld.open(...settings);
  t.after(async () => {
    await world.close();
    assert.deepEqual(world.disks.violations, []);
  });
  return world;
}

/** The disk `one`, mounted on node `a` by pod `web`. */
async function mounted(t: TestContext, ...settings: Parameters<typeof AttachmentWorld.open>): Promise<AttachmentWorld> {
  const world = await worldOf(t, ...settings);
  await world.disk('one');
  await world.pod('web', 'a', 'one');
  await world.rest();
  assert.deepEqual([...world.disks.mounted], ['h-one a']);
  return world;
}

test('nothing is written while no pod uses a volume', async (t) => {
  const world = await worldOf(t);
  await world.disk('one');
  assert.deepEqual(world.writes(), []);
});

test('a volume is attached to the node of its pod, listed, mounted, and after the pod detached again', async (t) => {
  const world = await mounted(t);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  assert.deepEqual(world.status('a').volumesAttached, [{ name: volumeName('one'), devicePath: '' }]);
  assert.deepEqual(world.events(), [succeeded('web')]);
  await world.deletePod('web');
  await world.rest();
  assert.deepEqual([world.attachments(), world.listed('a')], [[], []]);
  assert.deepEqual(world.disks.log, ['attach h-one a', 'detach h-one a']);
});

test('it leaves the list of its node before it is asked to be detached', async (t) => {
  const world = await mounted(t);
  const before = world.storage.points.length;
  await world.deletePod('web');
  await world.rest();
  const [first, second, ...others] = world.writes(before);
  assert.match(first ?? '', /^update .*\/a status$/);
  assert.match(second ?? '', /^delete .*volumeattachments/);
  assert.deepEqual(others, []);
});

test('a list that cannot be written stops the detaching, and the volume is listed as before until it can', async (t) => {
  const world = await mounted(t);
  // The node does not report that it has let go, so that the next write is the controller's.
  world.storage.kill('a');
  world.disks.mounted.clear();
  await world.deletePod('web', { now: true });
  await world.rest();
  world.storage.fault = { point: '/a status', moment: 'before', victim: 'server' };
  await world.setStatus('a', (status) => ({ ...status, volumesInUse: [] }));
  await world.storage.turns(20);
  assert.ok(world.storage.struck);
  assert.deepEqual([world.attachments(), world.listed('a')], [['h-one a attached'], [volumeName('one')]]);
  await world.pass(1_000);
  assert.deepEqual([world.attachments(), world.listed('a')], [[], []]);
});

test('a volume that the node reports as in use stays, however long, while the node is ready', async (t) => {
  const world = await mounted(t);
  world.storage.kill('a');
  await world.deletePod('web', { now: true });
  await world.pass(60 * minute);
  assert.deepEqual([world.attachments(), world.listed('a')], [['h-one a attached'], [volumeName('one')]]);
  world.storage.start();
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('the status of the node is read again before a detach: what the watch shows may be old', async (t) => {
  const world = await mounted(t);
  world.storage.kill('a');
  await world.deletePod('web', { now: true });
  await world.rest();
  const { volumesInUse = [] } = world.status('a');
  await world.setStatus('a', (status) => ({ ...status, volumesInUse: [] }));
  // In use again in the same moment, and the watch is one change behind.
  world.storage.lag('nodes', 2);
  await world.setStatus('a', (status) => ({ ...status, volumesInUse }));
  await world.pass(2_000);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  world.storage.catchUp();
  await world.pass(minute);
  assert.deepEqual([world.attachments(), world.listed('a')], [['h-one a attached'], [volumeName('one')]]);
});

test('a node that is not ready for 6 min loses what no pod uses any more', async (t) => {
  const world = await mounted(t);
  await world.powerOff('a');
  await world.deletePod('web', { now: true });
  await world.pass(6 * minute - 2_000);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  await world.pass(2_000);
  assert.deepEqual(world.attachments(), []);
});

test('the time counts from when the volume was no longer used, and starts over when a pod used it meanwhile', async (t) => {
  const world = await mounted(t);
  await world.powerOff('a');
  await world.deletePod('web', { now: true });
  await world.pass(5 * minute);
  await world.pod('again', 'a', 'one');
  await world.rest();
  await world.deletePod('again', { now: true });
  await world.pass(5 * minute);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  await world.pass(minute);
  assert.deepEqual(world.attachments(), []);
});

test('with force detach turned off such a node keeps it until it says that it does not use it', async (t) => {
  const world = await mounted(t, ['a', 'b'], { disablesForceDetachOnTimeout: true });
  await world.powerOff('a');
  await world.deletePod('web', { now: true });
  await world.pass(60 * minute);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  world.disks.mounted.clear();
  await world.setStatus('a', (status) => ({ ...status, volumesInUse: [] }));
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('a node that is out of service loses its volumes at once, also while it seems ready', async (t) => {
  const world = await mounted(t);
  world.storage.kill('a');
  world.disks.down.add('a');
  await world.taint('a', 'example.com/other');
  await world.deletePod('web', { now: true });
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  await world.taint('a', 'node.kubernetes.io/out-of-service');
  await world.rest();
  assert.deepEqual([world.attachments(), world.listed('a')], [[], []]);
});

test('a node that was deleted keeps what it used, or may have used, for 6 min', async (t) => {
  const world = await mounted(t);
  await world.powerOff('a');
  await world.storage.user.delete(world.storage.key('Node', 'a'));
  await world.deletePod('web', { now: true });
  await world.pass(5 * minute);
  // Also after a restart, which cannot know what the node used.
  world.storage.kill('controllers');
  world.storage.start();
  world.storage.kill('a');
  await world.rest();
  await world.pass(5 * minute);
  assert.deepEqual(world.attachments(), ['h-one a attached']);
  await world.pass(minute);
  assert.deepEqual(world.attachments(), []);
});

test('a volume for one node is refused on a second one, once, and moves when the first has let go', async (t) => {
  const world = await mounted(t);
  await world.pod('second', 'b', 'one');
  await world.pass(10 * minute);
  const refused = `second Warning FailedAttachVolume: ${waiting} used by pod(s) web`;
  assert.deepEqual(world.events(), [succeeded('web'), refused]);
  assert.deepEqual(world.disks.log, ['attach h-one a']);
  await world.deletePod('web');
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one b attached']);
  assert.deepEqual(world.disks.log, ['attach h-one a', 'detach h-one a', 'attach h-one b']);
  assert.deepEqual(world.events().slice(2), [succeeded('second')]);
});

test('when the pods of the first node are gone the Event says that the volume is waited for', async (t) => {
  const world = await mounted(t);
  await world.cutOff('a');
  await world.deletePod('web', { now: true });
  await world.pod('second', 'b', 'one');
  await world.rest();
  const text = 'exclusively attached to one node, waiting on detach before it can be attached to another node';
  assert.deepEqual(world.events().slice(1), [`second Warning FailedAttachVolume: ${waiting} ${text}`]);
});

test('a volume that many nodes may write is attached to all of them', async (t) => {
  const world = await worldOf(t);
  await world.disk('one', ['ReadWriteMany']);
  await world.pod('web', 'a', 'one');
  await world.pod('second', 'b', 'one');
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one a attached', 'h-one b attached']);
  assert.deepEqual([...world.disks.mounted].sort(), ['h-one a', 'h-one b']);
});

test('a refusal of the driver is an Event at growing intervals, and a later success ends it', async (t) => {
  const world = await worldOf(t);
  await world.disk('one');
  world.script.attach = () => 'refuse';
  await world.pod('web', 'a', 'one');
  await world.pass(5 * minute);
  const failed =
    'web Warning FailedAttachVolume: AttachVolume.Attach failed for volume "one" : attachError of the test';
  assert.deepEqual(world.events(), [failed]);
  assert.deepEqual([world.attachments(), world.listed('a')], [['h-one a uncertain'], []]);
  world.script.attach = () => 'ok';
  world.poke();
  await world.rest();
  assert.deepEqual(world.events(), [failed, succeeded('web')]);
});

test('what the driver says has no control characters in Events', async (t) => {
  const world = await worldOf(t);
  await world.disk('one');
  world.script.attach = () => 'refuse';
  world.script.problem = `no\u001b[31m\n${'x'.repeat(900)}`;
  await world.pod('web', 'a', 'one');
  await world.rest();
  const [event = ''] = world.events();
  assert.match(event, / : no \[31m x+$/);
});

test('an attacher that says nothing for 2 min is an Event, and the volume goes to no other node meanwhile', async (t) => {
  const world = await worldOf(t);
  await world.disk('one');
  world.script.attach = (_handle, node) => (node === 'a' ? 'silent' : 'ok');
  await world.pod('web', 'a', 'one');
  await world.pass(2 * minute - 1_000);
  assert.deepEqual(world.events(), []);
  await world.pass(1_000);
  const late = `timed out waiting for external-attacher of ${driver} CSI driver to attach volume h-one`;
  assert.deepEqual(world.events(), [
    `web Warning FailedAttachVolume: AttachVolume.Attach failed for volume "one" : ${late}`,
  ]);
  assert.deepEqual(world.listed('a'), []);
  // It is attached, and only the attacher knows: another node must wait for the end of this one.
  await world.pod('second', 'b', 'one');
  await world.pass(minute);
  assert.deepEqual(world.attachments(), ['h-one a uncertain']);
  await world.deletePod('web');
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one b attached']);
  assert.deepEqual(world.disks.log, ['attach h-one a', 'detach h-one a', 'attach h-one b']);
});

for (const answer of ['refuse', 'hang'] as const) {
  test(`a volume that the driver does not detach (${answer}) is not listed, and goes to no other node`, async (t) => {
    const world = await mounted(t);
    world.script.detach = () => answer;
    await world.deletePod('web');
    await world.pod('second', 'b', 'one');
    await world.pass(5 * minute);
    assert.deepEqual([world.attachments(), world.listed('a'), world.listed('b')], [['h-one a ending'], [], []]);
    const why = answer === 'refuse' ? /detachError of the test/ : /timed out waiting for .* to detach volume h-one/;
    assert.equal(world.storage.failures.filter((line) => why.test(line)).length, 1);
    world.script.detach = () => 'ok';
    world.poke();
    await world.rest();
    assert.deepEqual(world.attachments(), ['h-one b attached']);
  });
}

test('a pod that comes back while its volume is being detached gets it attached again', async (t) => {
  const world = await mounted(t);
  world.script.detach = () => 'hang';
  await world.deletePod('web');
  await world.rest();
  await world.pod('again', 'a', 'one');
  await world.pass(minute);
  assert.deepEqual([world.attachments(), world.events()], [['h-one a ending'], [succeeded('web')]]);
  world.script.detach = () => 'ok';
  world.poke();
  await world.rest();
  assert.deepEqual([world.attachments(), [...world.disks.mounted]], [['h-one a attached'], ['h-one a']]);
});

test('an attacher that hangs at some volumes does not hold up others', async (t) => {
  const world = await worldOf(t);
  const stuck = Array.from({ length: 40 }, (_, at) => `stuck-${at}`);
  world.script.attach = (handle) => (handle.includes('stuck') ? 'hang' : 'ok');
  for (const name of [...stuck, 'one']) await world.disk(name);
  await world.pod('web', 'a', ...stuck);
  await world.rest();
  await world.pod('other', 'b', 'one');
  await world.rest();
  assert.deepEqual(world.listed('b'), [volumeName('one')]);
});

const recoveries = [
  { it: 'a VolumeAttachment without a pod is deleted', pod: false, listed: false, end: [] },
  { it: 'a volume that is only listed, without a pod, is taken off the list', pod: false, listed: true, end: [] },
  { it: 'a VolumeAttachment with a pod is completed', pod: true, listed: false, end: ['h-one a attached'] },
  { it: 'a volume that is only listed is attached for its pod', pod: true, listed: true, end: ['h-one a attached'] },
];
for (const { it, pod, listed, end } of recoveries) {
  test(`after a restart ${it}`, async (t) => {
    const world = await mounted(t);
    // Everything stops, and the pod goes or stays; one of the two records of the attachment is lost.
    world.storage.kill('controllers', 'attacher', 'a', 'b');
    world.disks.mounted.clear();
    await world.deletePod('web', { now: true });
    if (pod) await world.pod('again', 'a', 'one');
    await world.setStatus('a', (status) => ({ ...status, volumesInUse: [], ...(!listed && { volumesAttached: [] }) }));
    if (listed) {
      const key = world.keyOfAttachment('one', 'a');
      await world.storage.user.update(key, ({ metadata, ...rest }) => ({
        ...rest,
        metadata: { ...metadata, finalizers: [] },
      }));
      await world.storage.user.delete(key);
      world.disks.detach('h-one', 'a');
    }
    world.storage.start();
    await world.rest();
    assert.deepEqual(world.attachments(), end);
    assert.deepEqual(world.listed('a'), end.length > 0 ? [volumeName('one')] : []);
    assert.deepEqual([...world.disks.mounted], end.length > 0 ? ['h-one a'] : []);
  });
}

test('a pod that ended keeps nothing attached, though it keeps its claim', async (t) => {
  const world = await mounted(t);
  await world.storage.user.update(
    world.storage.key('Pod', 'web'),
    (pod) => ({ ...pod, status: { phase: 'Succeeded' } }) as KubeObject,
    'status',
  );
  world.storage.kill('a');
  world.disks.mounted.clear();
  await world.setStatus('a', (status) => ({ ...status, volumesInUse: [] }));
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('a node that attaches by itself is left alone', async (t) => {
  const world = await worldOf(t);
  const { user } = world.storage;
  await user.update(world.storage.key('Node', 'a'), (node) => ({
    ...node,
    metadata: { ...node.metadata, annotations: {} },
  }));
  await world.disk('one');
  await world.pod('web', 'a', 'one');
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('what a driver needs no attaching for is not attached, and what was attached before is detached', async (t) => {
  const world = await worldOf(t);
  world.script.attach = () => 'hang';
  await world.disk('one');
  await world.pod('web', 'a', 'one');
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one a uncertain']);
  const drivers = ['storage.k8s.io/v1', 'CSIDriver'] as const;
  // Such a node does not report the volume as attachable any more.
  world.storage.kill('a');
  await world.setStatus('a', (status) => ({ ...status, volumesInUse: [] }));
  await world.storage.create(...drivers, { metadata: { name: driver }, spec: { attachRequired: false } } as KubeObject);
  await world.rest();
  assert.deepEqual(world.attachments(), []);
  const kind = world.storage.user.kindOf(...drivers) ?? assert.fail();
  await world.storage.user.delete(world.storage.user.keyOf(kind, '', driver));
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one a uncertain']);
});

test('a volume of a kind that moved to a driver, in a pod or not, is attached on nodes that say so, and found after a restart', async (t) => {
  const world = await worldOf(t);
  const { storage } = world;
  await storage.create('storage.k8s.io/v1', 'CSINode', {
    metadata: { name: 'a', annotations: { 'storage.alpha.kubernetes.io/migrated-plugins': 'kubernetes.io/gce-pd' } },
    spec: { drivers: [] },
  } as KubeObject);
  const source = { gcePersistentDisk: { pdName: 'disk', fsType: 'ext4' } };
  const { metadata, spec } = newVolume('old') as PersistentVolume;
  const { hostPath: _, ...rest } = spec;
  const gcePersistentDisk = { pdName: 'bound', fsType: 'ext4' };
  await storage.create('v1', 'PersistentVolume', { metadata, spec: { ...rest, gcePersistentDisk } } as KubeObject);
  await storage.create('v1', 'PersistentVolumeClaim', newClaim({ name: 'old' }));
  await world.rest();
  for (const node of ['a', 'b']) {
    const pod = podWithClaims(`web-${node}`, node === 'a' ? ['old'] : [], [{ name: 'data', ...source }]) as Pod;
    await storage.create('v1', 'Pod', { ...pod, spec: { ...pod.spec, nodeName: node } } as KubeObject);
  }
  await world.rest();
  const objects = storage.all<VolumeAttachment>('storage.k8s.io/v1', 'VolumeAttachment');
  const found = objects.map((object) => [object.spec.nodeName, object.spec.attacher, Object.keys(object.spec.source)]);
  const driverOfKind = 'pd.csi.storage.gke.io';
  assert.deepEqual(found.toSorted(), [
    ['a', driverOfKind, ['inlineVolumeSpec']],
    ['a', driverOfKind, ['persistentVolumeName']],
  ]);
  storage.kill('controllers');
  for (const node of ['a', 'b']) await world.deletePod(`web-${node}`, { now: true });
  storage.start();
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('attachments, and entries of lists, that others made are left alone', async (t) => {
  const world = await worldOf(t);
  await world.disk('one');
  const source = { persistentVolumeName: 'one' };
  await world.storage.create('storage.k8s.io/v1', 'VolumeAttachment', {
    metadata: { name: 'by-hand' },
    spec: { attacher: driver, nodeName: 'b', source },
  } as KubeObject);
  const foreign = { name: 'kubernetes.io/iscsi/disk', devicePath: '' };
  await world.setStatus('a', (status) => ({ ...status, volumesAttached: [foreign] }));
  await world.pod('web', 'a', 'one');
  await world.rest();
  assert.deepEqual(world.attachments(), ['h-one a attached', 'misnamed h-one b attached']);
  assert.deepEqual(world.status('a').volumesAttached, [foreign, { name: volumeName('one'), devicePath: '' }]);
  world.disks.violations.length = 0;
});

test('a node cannot have the volume of another node detached by a name that leads to the same VolumeAttachment', async (t) => {
  const world = await worldOf(t, ['a', 'ma']);
  await world.disk('one');
  await world.pod('web', 'ma', 'one');
  await world.rest();
  const forged = csiVolumeName({ driver: `${driver}m`, volumeHandle: 'h-one' });
  const forge = (): Promise<void> =>
    world.setStatus('a', (status) => ({ ...status, volumesAttached: [{ name: forged, devicePath: '' }] }));
  await forge();
  await world.rest();
  // After a restart lists of nodes may be seen first.
  world.storage.kill('controllers');
  await forge();
  world.storage.start();
  await world.rest();
  assert.deepEqual([world.attachments(), world.listed('ma')], [['h-one ma attached'], [volumeName('one')]]);
  await world.deletePod('web');
  await world.rest();
  assert.deepEqual(world.attachments(), []);
});

test('a VolumeAttachment that a user deletes is made again for its pod once it is gone', async (t) => {
  const world = await mounted(t);
  world.script.detach = () => 'hang';
  await world.storage.user.delete(world.keyOfAttachment('one', 'a'));
  await world.rest();
  world.disks.down.add('a');
  world.script.detach = () => 'ok';
  world.poke();
  await world.pass(minute);
  assert.deepEqual([world.attachments(), world.listed('a')], [['h-one a attached'], [volumeName('one')]]);
  const ending = 'volume attachment is being deleted';
  assert.ok(
    world.events().includes(`web Warning FailedAttachVolume: AttachVolume.Attach failed for volume "one" : ${ending}`),
  );
});

test('of several volumes on several nodes a failure at one holds up none of the others', async (t) => {
  const world = await worldOf(t);
  await world.disk('one', ['ReadWriteMany']);
  world.storage.fault = { point: '/a status', moment: 'before', victim: 'server' };
  await world.pod('web', 'a', 'one');
  await world.pod('second', 'b', 'one');
  await world.rest();
  assert.deepEqual([world.listed('a'), world.listed('b')], [[volumeName('one')], [volumeName('one')]]);
});

test('a node whose list cannot be written for long does not delay the volume on others', async (t) => {
  const world = await worldOf(t);
  await world.disk('one', ['ReadWriteMany']);
  // Only the controller writes of it.
  world.storage.kill('a');
  const fault = { point: '/a status', moment: 'before', victim: 'server' } as const;
  world.storage.fault = fault;
  await world.pod('web', 'a', 'one');
  for (const ms of [500, 1_000, 2_000, 4_000, 8_000, 16_000]) {
    world.storage.fault = fault;
    await world.pass(ms);
    assert.equal(world.storage.fault, undefined, 'it was tried again');
  }
  await world.pod('second', 'b', 'one');
  await world.rest();
  assert.deepEqual([world.listed('a'), world.listed('b')], [[], [volumeName('one')]]);
  await world.pass(32_000);
  assert.deepEqual(world.listed('a'), [volumeName('one')]);
});

for (const lands of [true, false]) {
  const end = lands ? 'and lands later, is detached first' : 'and never lands, is free after a while';
  test(`a volume for one node whose attachment was asked for, without an answer, ${end}`, async (t) => {
    const world = await worldOf(t);
    await world.disk('one');
    world.storage.fault = { point: 'create volumeattachments', moment: 'before', victim: 'server' };
    await world.pod('web', 'a', 'one');
    assert.ok(world.storage.struck);
    await world.deletePod('web', { now: true });
    await world.pod('second', 'b', 'one');
    await world.pass(minute);
    assert.deepEqual([world.attachments(), world.disks.log], [[], []], 'it may be attached to the first node soon');
    if (lands) {
      const name = attachmentName({ driver, volumeHandle: 'h-one' }, 'a');
      const spec = { attacher: driver, nodeName: 'a', source: { persistentVolumeName: 'one' } };
      await world.storage.create('storage.k8s.io/v1', 'VolumeAttachment', { metadata: { name }, spec } as KubeObject);
      await world.rest();
    }
    await world.pass(minute + 1_000);
    assert.deepEqual(world.attachments(), ['h-one b attached']);
    assert.deepEqual(world.disks.violations, []);
  });
}
