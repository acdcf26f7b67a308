import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { VolumeCapabilitySchema } from '../grpc/messages/csi_pb.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import type { CsiDriver } from '../kube/kinds/storage/csi.ts';
import { inlineSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { aPod } from '../testing/fakes/builders.ts';
import {
  type CsiSource,
  changesGroup,
  csiSourceOf,
  ephemeralHandle,
  expandRequest,
  lifecycleProblem,
  podInformation,
  publishRequest,
  stageRequest,
  tokenEntry,
  volumeCapability,
} from './requests.ts';

type Csi = NonNullable<PersistentVolume['spec']['csi']>;

function persistent(spec: Partial<PersistentVolume['spec']> = {}, csi: Partial<Csi> = {}, readOnly = false): CsiSource {
  const source = csiSourceOf(
    persistentSpec(
      {
        metadata: { name: 'pv1' },
        spec: {
          volumeMode: 'Filesystem',
          accessModes: ['ReadWriteOnce'],
          csi: { driver: 'd.example', volumeHandle: 'h1', ...csi },
          ...spec,
        },
      },
      readOnly,
    ),
  );
  assert.ok(source);
  return source;
}

const inline = csiSourceOf(inlineSpec({ name: 'data', csi: { driver: 'd.example', fsType: 'ext4', readOnly: true } }));
assert.ok(inline);

function aDriver(spec: CsiDriver['spec'] = {}): CsiDriver {
  return { metadata: { name: 'd.example' }, spec };
}

test('the Secret of a volume in a pod is always of the namespace of the pod', () => {
  const reference = { name: 'key', namespace: 'kube-system' };
  const source = csiSourceOf(
    inlineSpec({ name: 'data', csi: { driver: 'd.example', nodePublishSecretRef: reference } }),
  );
  assert.equal(source?.secrets.publish?.namespace, undefined);
});

const accessModes: readonly [modes: readonly string[], plain: number, withSingleWriters: number][] = [
  [['ReadWriteOnce'], 1, 7],
  [['ReadWriteOncePod'], 1, 6],
  [['ReadOnlyMany'], 3, 3],
  [['ReadWriteMany'], 5, 5],
  [['ReadOnlyMany', 'ReadWriteMany'], 3, 3],
  [[], 1, 7],
];
for (const [modes, plain, withSingleWriters] of accessModes) {
  test(`a volume of the modes [${modes.join(' ')}] is asked for in the first of them`, () => {
    const mode = (hasSingleWriters: boolean): number | undefined =>
      create(VolumeCapabilitySchema, volumeCapability(persistent({ accessModes: [...modes] }), { hasSingleWriters }))
        .accessMode?.mode;
    assert.deepEqual([mode(false), mode(true)], [plain, withSingleWriters]);
  });
}

test('a file system is asked for with its kind, its options and the group it is for', () => {
  const source = persistent({ mountOptions: ['noatime', 'ro'] }, { fsType: 'xfs' });
  assert.deepEqual(volumeCapability(source, { hasSingleWriters: false }, 0).accessType, {
    case: 'mount',
    value: { fsType: 'xfs', mountFlags: ['noatime', 'ro'], volumeMountGroup: '0' },
  });
  assert.deepEqual(volumeCapability(inline, { hasSingleWriters: false }).accessType, {
    case: 'mount',
    value: { fsType: 'ext4', mountFlags: [], volumeMountGroup: '' },
  });
});

test('a raw device is asked for as one', () => {
  const source = persistent({ volumeMode: 'Block', mountOptions: ['noatime'] }, { fsType: 'xfs' });
  assert.deepEqual(volumeCapability(source, { hasSingleWriters: true }, 7).accessType, { case: 'block', value: {} });
});

const given = { volumeCapability: {}, publishContext: { lun: '3' }, secrets: { key: 'value' } };

test('a stage has the volume, its place and everything that was found out about it', () => {
  const source = persistent({}, { volumeAttributes: { pool: 'fast' } });
  assert.deepEqual(stageRequest(source, { ...given, stagingTargetPath: '/staged' }), {
    volumeId: 'h1',
    publishContext: { lun: '3' },
    stagingTargetPath: '/staged',
    volumeCapability: {},
    secrets: { key: 'value' },
    volumeContext: { pool: 'fast' },
  });
});

test('facts about the pod win over attributes of the same name, and the attributes of the object stay as they are', () => {
  const attributes = { pool: 'fast', 'csi.storage.k8s.io/pod.name': 'forged' };
  const source = persistent({}, { volumeAttributes: attributes }, true);
  const context = podInformation(aPod({ serviceAccountName: 'web' }), 'Persistent', aDriver({ podInfoOnMount: true }));
  const parts = { ...given, volumeId: 'h1', stagingTargetPath: '', targetPath: '/pod/mount', context };
  const { volumeContext, readonly, stagingTargetPath } = publishRequest(source, parts);
  assert.deepEqual(volumeContext, {
    pool: 'fast',
    'csi.storage.k8s.io/pod.name': 'web',
    'csi.storage.k8s.io/pod.namespace': 'shop',
    'csi.storage.k8s.io/pod.uid': '5f3a7c3e-0000-4000-8000-000000000001',
    'csi.storage.k8s.io/serviceAccount.name': 'web',
    'csi.storage.k8s.io/ephemeral': 'false',
  });
  assert.deepEqual([readonly, stagingTargetPath], [true, '']);
  assert.equal(attributes['csi.storage.k8s.io/pod.name'], 'forged');
});

for (const driver of [undefined, aDriver(), aDriver({ podInfoOnMount: false })]) {
  test(`a driver that says ${JSON.stringify(driver?.spec)} gets no facts about the pod`, () => {
    assert.deepEqual(podInformation(aPod(), 'Ephemeral', driver), {});
  });
}

test('only the read-only of the pod counts, not that of the volume', () => {
  assert.equal(persistent({}, { readOnly: true }).readOnly, false);
  assert.equal(inline.readOnly, true);
});

test('an expansion names both places and the size', () => {
  const request = expandRequest(persistent(), {
    volumeCapability: {},
    secrets: {},
    volumePath: '/pod/mount',
    stagingTargetPath: '/staged',
    sizeBytes: 42n,
  });
  assert.deepEqual(
    [request.volumePath, request.stagingTargetPath, request.capacityRange?.requiredBytes],
    ['/pod/mount', '/staged', 42n],
  );
});

test('tokens are one entry of JSON as Go writes it, in the order of their audiences', () => {
  const expirationTimestamp = '2026-01-01T00:00:00Z';
  const tokens = { vault: { token: 'b<', expirationTimestamp }, '': { token: 'a', expirationTimestamp } };
  assert.deepEqual(tokenEntry(tokens), {
    'csi.storage.k8s.io/serviceAccount.tokens':
      '{"":{"token":"a","expirationTimestamp":"2026-01-01T00:00:00Z"},"vault":{"token":"b\\u003c","expirationTimestamp":"2026-01-01T00:00:00Z"}}',
  });
});

test('a volume without a handle gets one that only its pod and name lead to', () => {
  const handle = ephemeralHandle('5f3a7c3e', 'data');
  assert.match(handle, /^csi-[0-9a-f]{64}$/);
  assert.notEqual(handle, ephemeralHandle('5f3a7c3f', 'data'));
});

const lifecycles: readonly [source: CsiSource, driver: CsiDriver | undefined, problem: string | undefined][] = [
  [persistent(), undefined, undefined],
  [persistent(), aDriver(), undefined],
  [
    persistent(),
    aDriver({ volumeLifecycleModes: ['Ephemeral'] }),
    'volume mode "Persistent" not supported by driver d.example (only supports ["Ephemeral"])',
  ],
  [inline, undefined, 'volume mode "Ephemeral" not supported by driver d.example (no CSIDriver object)'],
  [inline, aDriver(), 'volume mode "Ephemeral" not supported by driver d.example (only supports ["Persistent"])'],
  [inline, aDriver({ volumeLifecycleModes: ['Persistent', 'Ephemeral'] }), undefined],
];
for (const [source, driver, problem] of lifecycles) {
  const says = JSON.stringify(driver?.spec.volumeLifecycleModes);
  test(`a volume that is ${source.lifecycle}, of a driver with the modes ${says}, ${problem ?? 'is allowed'}`, () => {
    assert.equal(lifecycleProblem(source, driver), problem);
  });
}

const ext4 = { fsType: 'ext4' };
const groups: readonly [what: string, source: CsiSource, policy: string | undefined, changed: boolean][] = [
  ['for one node with a file system', persistent({}, ext4), undefined, true],
  ['for one pod with a file system', persistent({ accessModes: ['ReadWriteOncePod'] }, ext4), undefined, true],
  ['for one node, whose file system is unknown', persistent(), undefined, false],
  ['for many nodes', persistent({ accessModes: ['ReadWriteMany'] }, ext4), undefined, false],
  ['for one node among others', persistent({ accessModes: ['ReadWriteMany', 'ReadWriteOnce'] }, ext4), undefined, true],
  ['that is read-only', persistent({}, ext4, true), undefined, false],
  ['for many nodes', persistent({ accessModes: ['ReadWriteMany'] }), 'File', true],
  ['that is read-only', persistent({}, ext4, true), 'File', false],
  ['for one node with a file system', persistent({}, ext4), 'None', false],
  ['of the pod itself', { ...inline, readOnly: false }, undefined, true],
];
for (const [what, source, fsGroupPolicy, changed] of groups) {
  test(`a volume ${what} is ${changed ? '' : 'not '}given to the group under the policy ${fsGroupPolicy}`, () => {
    assert.equal(changesGroup(source, fsGroupPolicy === undefined ? undefined : aDriver({ fsGroupPolicy })), changed);
  });
}
