import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { VolumeCapability_AccessMode_Mode as Mode, VolumeSchema } from '../../grpc/messages/csi_pb.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import { MemoryDriver } from '../../testing/csi/memory-driver.ts';
import { aClaim, aClass } from '../../testing/fakes/storage-builders.ts';
import { type CreatePlan, answerProblem, planCreation, secretReference, volumeFor } from './create-volume.ts';

const driver = new MemoryDriver().connected();
const inNode = new MemoryDriver({ capabilities: ['SINGLE_NODE_MULTI_WRITER'] }).connected();
const ofDriver = (parts: Partial<StorageClass> = {}): StorageClass =>
  aClass('disks', { provisioner: driver.name, ...parts });
const key = (name: string): string => `csi.storage.k8s.io/${name}`;
const planned = (claim = aClaim(), storageClass = ofDriver()): CreatePlan =>
  planCreation(claim, storageClass, driver) ?? assert.fail('others make it');

test('a claim and its class become a request', () => {
  const parameters = {
    [key('fstype')]: 'xfs',
    tier: 'gold',
    [key('provisioner-secret-name')]: 's',
    [key('provisioner-secret-namespace')]: 'n',
  };
  const { request, fsType, secrets } = planned(
    aClaim({ size: '1500M', accessModes: ['ReadWriteOnce', 'ReadOnlyMany'] }),
    ofDriver({ parameters, mountOptions: ['noatime'] }),
  );
  const mount = { case: 'mount' as const, value: { fsType: 'xfs', mountFlags: ['noatime'] } };
  assert.deepEqual(request, {
    name: 'pvc-uid-data',
    capacityRange: { requiredBytes: 1_500_000_000n },
    volumeCapabilities: [
      { accessType: mount, accessMode: { mode: Mode.SINGLE_NODE_WRITER } },
      { accessType: mount, accessMode: { mode: Mode.MULTI_NODE_READER_ONLY } },
    ],
    parameters: { tier: 'gold' },
  });
  assert.equal(fsType, 'xfs');
  assert.deepEqual(secrets, { provisioner: { name: 's', namespace: 'n' } });
});

test('a block volume has neither a file system nor mount options', () => {
  const { request } = planned(aClaim({ volumeMode: 'Block' }), ofDriver({ mountOptions: ['noatime'] }));
  assert.deepEqual(request.volumeCapabilities[0]?.accessType, { case: 'block', value: {} });
});

const modes = [
  { mode: 'ReadWriteOnce', plain: Mode.SINGLE_NODE_WRITER, several: Mode.SINGLE_NODE_MULTI_WRITER },
  { mode: 'ReadWriteOncePod', plain: Mode.SINGLE_NODE_WRITER, several: Mode.SINGLE_NODE_SINGLE_WRITER },
  { mode: 'ReadOnlyMany', plain: Mode.MULTI_NODE_READER_ONLY, several: Mode.MULTI_NODE_READER_ONLY },
  { mode: 'ReadWriteMany', plain: Mode.MULTI_NODE_MULTI_WRITER, several: Mode.MULTI_NODE_MULTI_WRITER },
];
for (const { mode, plain, several } of modes) {
  test(`${mode} in the words of the interface`, () => {
    const claim = aClaim({ accessModes: [mode] });
    const asked = [driver, inNode].map(
      (one) => planCreation(claim, ofDriver(), one)?.request.volumeCapabilities[0]?.accessMode?.mode,
    );
    assert.deepEqual(asked, [plain, several]);
  });
}

const refusals = [
  {
    of: 'a selector',
    claim: aClaim({ selector: { matchLabels: { a: 'b' } } }),
    text: 'claim Selector is not supported',
  },
  {
    of: 'a snapshot',
    claim: aClaim({ dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 'one' } }),
    text: 'CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported',
  },
  {
    of: 'a clone',
    claim: aClaim({ dataSource: { kind: 'PersistentVolumeClaim', name: 'one' } }),
    text: 'CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported',
  },
  {
    of: 'a parameter of a reserved name',
    parameters: { [key('pvc/name')]: 'x' },
    text: 'failed to strip CSI Parameters of prefixed keys: found unknown parameter key "csi.storage.k8s.io/pvc/name" with reserved namespace csi.storage.k8s.io/',
  },
  {
    of: 'two file systems',
    parameters: { fsType: 'ext4', [key('fstype')]: 'xfs' },
    text: 'fstype specified in parameters with both "fstype" and "csi.storage.k8s.io/fstype" keys',
  },
  {
    of: 'half a secret',
    parameters: { [key('node-stage-secret-name')]: 's' },
    text: 'failed to get name and namespace template from params: either name and namespace for NodeStage secrets specified, Both must be specified',
  },
  {
    of: 'an empty secret',
    parameters: { [key('secret-name')]: '', [key('secret-namespace')]: 'n' },
    text: 'failed to get default name and namespace template from params: Default secrets specified in parameters but value of either namespace or name is empty',
  },
  {
    of: "a namespace that the claim's user chooses",
    parameters: { [key('secret-name')]: 's', [key('secret-namespace')]: '${pvc.name}' },
    text: 'error resolving value "${pvc.name}": invalid tokens: ["pvc.name"]',
  },
  {
    of: 'a name that is none',
    claim: aClaim({ metadata: { annotations: { team: '../etc' } } }),
    parameters: { [key('secret-name')]: "${pvc.annotations['team']}", [key('secret-namespace')]: 'n' },
    text: `"\${pvc.annotations['team']}" resolved to "../etc" which is not a valid secret name`,
  },
];
for (const { of, claim = aClaim(), parameters = {}, text } of refusals) {
  test(`a claim with ${of} is refused`, () => {
    assert.throws(() => planCreation(claim, ofDriver({ parameters }), driver), { message: text });
  });
}

test('a claim with a data source of another kind is left to whoever fills it', () => {
  const claim = aClaim({ dataSourceRef: { apiGroup: 'example.com', kind: 'Backup', name: 'one' } });
  assert.equal(planCreation(claim, ofDriver(), driver), undefined);
});

test('names of Secrets have parts of the claim in them', () => {
  const parameters = {
    [key('secret-name')]: "${pvc.namespace}-${pvc.name}-${pvc.annotations['team']}",
    [key('secret-namespace')]: '$pvc',
    [key('node-publish-secret-name')]: '${pv.name}',
    [key('node-publish-secret-namespace')]: '${pvc.namespace}',
  };
  const claim = aClaim({ metadata: { annotations: { team: 'blue' } } });
  assert.deepEqual(secretReference('node-publish', parameters, 'pv-1', claim), { name: 'pv-1', namespace: 'shop' });
  const named = { ...parameters, [key('secret-namespace')]: 'n' };
  assert.deepEqual(secretReference('node-stage', named, 'pv-1', claim), { name: 'shop-data-blue', namespace: 'n' });
});

const given = {
  volumeId: 'v1',
  capacityBytes: 2n ** 31n,
  volumeContext: { lun: '3' },
  accessibleTopology: [{ segments: { zone: 'b', host: 'x' } }, { segments: {} }],
};
const answer = create(VolumeSchema, given);

test('an answer becomes a volume of the claim', () => {
  const parameters = { [key('secret-name')]: 's', [key('secret-namespace')]: 'n', fstype: 'ext4' };
  const storageClass = ofDriver({ parameters, reclaimPolicy: 'Retain', mountOptions: ['ro'] });
  const claim = aClaim({ storageClassName: 'disks' });
  const reference = { name: 's', namespace: 'n' };
  const placed = { name: driver.name, hasTopology: true };
  const { metadata, spec } = volumeFor(claim, storageClass, placed, planned(claim, storageClass), answer, 'me');
  assert.deepEqual(metadata, {
    name: 'pvc-uid-data',
    annotations: {
      'pv.kubernetes.io/provisioned-by': driver.name,
      'volume.kubernetes.io/provisioner-deletion-secret-name': 's',
      'volume.kubernetes.io/provisioner-deletion-secret-namespace': 'n',
    },
    finalizers: ['external-provisioner.volume.kubernetes.io/finalizer'],
  });
  assert.deepEqual(spec, {
    capacity: { storage: '2Gi' },
    accessModes: ['ReadWriteOnce'],
    claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'shop', name: 'data', uid: 'uid-data' },
    persistentVolumeReclaimPolicy: 'Retain',
    storageClassName: 'disks',
    mountOptions: ['ro'],
    volumeMode: 'Filesystem',
    nodeAffinity: {
      required: {
        nodeSelectorTerms: [
          {
            matchExpressions: [
              { key: 'host', operator: 'In', values: ['x'] },
              { key: 'zone', operator: 'In', values: ['b'] },
            ],
          },
        ],
      },
    },
    csi: {
      driver: driver.name,
      volumeHandle: 'v1',
      fsType: 'ext4',
      volumeAttributes: { 'storage.kubernetes.io/csiProvisionerIdentity': 'me', lun: '3' },
      controllerPublishSecretRef: reference,
      nodeStageSecretRef: reference,
      nodePublishSecretRef: reference,
      controllerExpandSecretRef: reference,
      nodeExpandSecretRef: reference,
    },
  });
});

test('a driver without topology makes volumes for all nodes, and one that does not know a size makes what was asked for', () => {
  const unknown = create(VolumeSchema, { ...given, capacityBytes: 0n });
  const { metadata, spec } = volumeFor(aClaim(), ofDriver(), driver, planned(), unknown, 'me');
  assert.equal(spec.nodeAffinity, undefined);
  assert.deepEqual(spec.capacity, { storage: '1Gi' });
  assert.equal(metadata.annotations?.['volume.kubernetes.io/provisioner-deletion-secret-name'], '');
});

test('a class of an old kind is served, and its volumes stay of that kind', () => {
  const storageClass = aClass('old', {
    provisioner: 'kubernetes.io/cinder',
    parameters: { fstype: 'xfs', type: 'ssd' },
  });
  const cinder = { ...driver, name: 'cinder.csi.openstack.org' };
  const plan = planCreation(aClaim(), storageClass, cinder) ?? assert.fail();
  assert.deepEqual([plan.fsType, plan.request.parameters], ['xfs', { type: 'ssd' }]);
  const { metadata, spec } = volumeFor(aClaim(), storageClass, cinder, plan, answer, 'me');
  assert.deepEqual([spec.csi, spec.cinder], [undefined, { volumeID: 'v1', fsType: 'xfs' }]);
  assert.equal(metadata.annotations?.['pv.kubernetes.io/provisioned-by'], 'kubernetes.io/cinder');
});

const lies = [
  { of: 'no volume_id', parts: { volumeId: '' } },
  { of: 'a volume_id of control characters', parts: { volumeId: 'a\u0000b' } },
  { of: 'an endless volume_id', parts: { volumeId: 'x'.repeat(5_000) } },
  { of: 'an endless volume_context', parts: { volumeContext: { a: 'x'.repeat(70_000) } } },
  { of: 'a negative size', parts: { capacityBytes: -1n } },
  {
    of: 'an endless topology',
    parts: { accessibleTopology: Array.from({ length: 10_000 }, (_, at) => ({ segments: { host: String(at) } })) },
  },
];
for (const { of, parts } of lies) {
  test(`an answer with ${of} makes no volume`, () => {
    assert.equal(answerProblem(answer), undefined);
    assert.notEqual(answerProblem(create(VolumeSchema, { ...given, ...parts })), undefined);
  });
}
