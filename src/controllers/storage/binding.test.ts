import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import { aClaim, aClass, aVolume } from '../../testing/fakes/storage-builders.ts';
import { type ClaimStep, type VolumeStep, migratedClaim, migratedVolume, planClaim, planVolume } from './binding.ts';
import { VolumeIndex } from './volume-index.ts';

const late = { volumeBindingMode: 'WaitForFirstConsumer' };
const isDefault = (creationTimestamp = '2026-01-01T00:00:00Z'): Partial<StorageClass> => ({
  metadata: { name: '', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' }, creationTimestamp },
});
const classNamed = (name: string, parts: Partial<StorageClass> = {}): StorageClass =>
  aClass(name, { ...parts, ...(parts.metadata && { metadata: { ...parts.metadata, name } }) });
const bound = {
  annotations: { 'pv.kubernetes.io/bind-completed': 'yes', 'pv.kubernetes.io/bound-by-controller': 'yes' },
};

function show(step: ClaimStep): string {
  switch (step.kind) {
    case 'bind':
      return `bind ${step.volume.metadata.name}`;
    case 'assignClass':
      return `class ${step.className}`;
    case 'provision':
      return `provision by ${step.provisioner}`;
    case 'pending':
      return step.news === undefined ? 'pending' : `pending: ${step.news.reason} ${step.news.message}`;
    case 'leave':
    case 'lost':
      return `${step.kind}: ${step.news.reason} ${step.news.message}`;
  }
}

interface Case {
  readonly it: string;
  readonly claim?: PersistentVolumeClaim;
  readonly volumes?: readonly PersistentVolume[];
  readonly classes?: readonly StorageClass[];
  readonly pods?: readonly string[];
  readonly step: string;
}

const claims: readonly Case[] = [
  { it: 'takes a free volume', volumes: [aVolume('one')], step: 'bind one' },
  {
    it: 'takes the smallest that fits',
    volumes: [aVolume('big', { size: '10Gi' }), aVolume('small')],
    step: 'bind small',
  },
  {
    it: 'takes the volume with the fewest access modes before the smallest',
    volumes: [aVolume('small', { accessModes: ['ReadWriteOnce', 'ReadWriteMany'] }), aVolume('big', { size: '10Gi' })],
    step: 'bind big',
  },
  {
    it: 'takes a volume that is reserved for it before a smaller free one, whatever its class',
    volumes: [
      aVolume('free'),
      aVolume('mine', { size: '9Gi', for: 'data', storageClassName: 'gold', phase: 'Pending' }),
    ],
    step: 'bind mine',
  },
  {
    it: 'prefers the exact access modes to a reserved volume with more',
    volumes: [aVolume('free'), aVolume('mine', { for: 'data', accessModes: ['ReadWriteOnce', 'ReadOnlyMany'] })],
    step: 'bind free',
  },
  {
    it: 'never takes what is reserved for another, or for an earlier claim of its name',
    volumes: [aVolume('other', { for: 'else' }), aVolume('old', { for: 'data@gone' })],
    step: 'pending: FailedBinding no persistent volumes available for this claim and no storage class is set',
  },
  {
    it: 'takes neither a small, nor a released, nor a raw one, nor one of another class, nor one that ends',
    volumes: [
      aVolume('small', { size: '1Mi' }),
      aVolume('released', { phase: 'Released' }),
      aVolume('raw', { volumeMode: 'Block' }),
      aVolume('gold', { storageClassName: 'gold' }),
      aVolume('ending', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    ],
    step: 'pending: FailedBinding no persistent volumes available for this claim and no storage class is set',
  },
  {
    it: 'asks for labels of free volumes',
    claim: aClaim({ selector: { matchLabels: { disk: 'ssd' } } }),
    volumes: [aVolume('plain'), aVolume('fast', { size: '5Gi', metadata: { labels: { disk: 'ssd' } } })],
    step: 'bind fast',
  },
  {
    it: 'gets the newest default class where it names none',
    claim: { ...aClaim(), spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
    classes: [classNamed('old', isDefault()), classNamed('new', isDefault('2026-02-01T00:00:00Z'))],
    step: 'class new',
  },
  {
    it: 'gets no default class where it asks for the empty one',
    classes: [classNamed('old', isDefault())],
    step: 'pending: FailedBinding no persistent volumes available for this claim and no storage class is set',
  },
  {
    it: 'is provisioned by others',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold')],
    step: 'provision by example.com/disks',
  },
  {
    it: 'says that its class is missing',
    claim: aClaim({ storageClassName: 'gold' }),
    step: 'leave: ProvisioningFailed storageclass.storage.k8s.io "gold" not found',
  },
  {
    it: 'says that nothing in here provisions',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold', { provisioner: 'kubernetes.io/no-provisioner' })],
    step: 'leave: ProvisioningFailed no volume plugin matched name: kubernetes.io/no-provisioner',
  },
  {
    it: 'is provisioned by the driver that serves an old plugin',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold', { provisioner: 'kubernetes.io/aws-ebs' })],
    step: 'provision by ebs.csi.aws.com',
  },
  {
    it: 'waits for its first pod and leaves free volumes to the scheduler',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold', late)],
    volumes: [aVolume('one', { storageClassName: 'gold' })],
    step: 'pending: WaitForFirstConsumer waiting for first consumer to be created before binding',
  },
  {
    it: 'names the pods that wait for a node',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold', late)],
    pods: ['a', 'b'],
    step: 'pending: WaitForPodScheduled waiting for pods a,b to be scheduled',
  },
  {
    it: 'that waits takes a reserved volume at once',
    claim: aClaim({ storageClassName: 'gold' }),
    classes: [aClass('gold', late)],
    volumes: [aVolume('one', { storageClassName: 'gold', for: 'data@uid-data' })],
    step: 'bind one',
  },
  {
    it: 'is provisioned once a node was chosen',
    claim: aClaim({
      storageClassName: 'gold',
      metadata: { annotations: { 'volume.kubernetes.io/selected-node': 'n' } },
    }),
    classes: [aClass('gold', late)],
    step: 'provision by example.com/disks',
  },
  { it: 'that names a missing volume waits', claim: aClaim({ volumeName: 'one' }), step: 'pending' },
  {
    it: 'gets the volume it names, without regard to labels',
    claim: aClaim({ volumeName: 'one', selector: { matchLabels: { a: 'b' } } }),
    volumes: [aVolume('one')],
    step: 'bind one',
  },
  {
    it: 'does not get a volume that is too small',
    claim: aClaim({ volumeName: 'one', size: '2Gi' }),
    volumes: [aVolume('one')],
    step: 'pending: VolumeMismatch Cannot bind to requested volume "one": requested PV is too small',
  },
  {
    it: 'does not get a volume with other access modes',
    claim: aClaim({ volumeName: 'one', accessModes: ['ReadWriteMany'] }),
    volumes: [aVolume('one')],
    step: 'pending: VolumeMismatch Cannot bind to requested volume "one": incompatible accessMode',
  },
  {
    it: 'gets a volume that names it, without a check',
    claim: aClaim({ volumeName: 'one', size: '2Gi' }),
    volumes: [aVolume('one', { for: 'data' })],
    step: 'bind one',
  },
  {
    it: 'does not get the volume of another',
    claim: aClaim({ volumeName: 'one' }),
    volumes: [aVolume('one', { for: 'else@1' })],
    step: 'pending: FailedBinding volume "one" already bound to a different claim.',
  },
  {
    it: 'that was bound and names no volume is lost',
    claim: aClaim({ metadata: bound }),
    step: 'lost: ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!',
  },
  {
    it: 'that was bound to a volume that is gone is lost',
    claim: aClaim({ metadata: bound, volumeName: 'one' }),
    step: 'lost: ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!',
  },
  {
    it: 'that was bound repairs a volume that has lost its name',
    claim: aClaim({ metadata: bound, volumeName: 'one' }),
    volumes: [aVolume('one')],
    step: 'bind one',
  },
  {
    it: 'that was bound to a volume of another is lost',
    claim: aClaim({ metadata: bound, volumeName: 'one' }),
    volumes: [aVolume('one', { for: 'data@other' })],
    step: 'lost: ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly',
  },
];
for (const { it, claim = aClaim(), volumes = [], classes = [], pods = [], step } of claims) {
  test(`a claim ${it}`, () => {
    const index = new VolumeIndex();
    for (const volume of volumes) index.set(volume.metadata.name, volume);
    const around = {
      volumes: index,
      classes: new Map(classes.map((one) => [one.metadata.name, one])),
      waitingPods: pods,
    };
    assert.equal(show(planClaim(claim, around)), step);
  });
}

function showVolume(step: VolumeStep): string {
  switch (step.kind) {
    case 'phase':
      return step.phase;
    case 'release':
      return step.reclaim.kind === 'keep'
        ? 'release'
        : `release: ${step.reclaim.news.reason} ${step.reclaim.news.message}`;
    case 'mismatch':
      return `mismatch: ${step.onVolume.message}`;
    case 'wakeClaim':
    case 'unbind':
      return step.kind;
  }
}

const provisioned = { annotations: { 'pv.kubernetes.io/provisioned-by': 'example.com/disks' } };
const inTree = (name: string): object => ({
  annotations: { 'pv.kubernetes.io/provisioned-by': `kubernetes.io/${name}` },
  finalizers: ['kubernetes.io/pv-controller', 'external-provisioner.volume.kubernetes.io/finalizer', 'own'],
});
const volumes: readonly { it: string; volume: PersistentVolume; claim?: PersistentVolumeClaim; step: string }[] = [
  { it: 'without a claim is free', volume: aVolume('one', { phase: 'Pending' }), step: 'Available' },
  { it: 'that is reserved by name is free', volume: aVolume('one', { for: 'data' }), step: 'Available' },
  { it: 'whose claim is gone is released and kept', volume: aVolume('one', { for: 'data@gone' }), step: 'release' },
  {
    it: 'to be recycled fails in clear words',
    volume: aVolume('one', { for: 'data@gone', persistentVolumeReclaimPolicy: 'Recycle' }),
    step: 'release: VolumeFailedRecycle No recycler plugin found for the volume!',
  },
  {
    it: 'to be deleted that nothing can delete fails',
    volume: aVolume('one', { for: 'data@gone', persistentVolumeReclaimPolicy: 'Delete' }),
    step: 'release: VolumeFailedDelete error getting deleter volume plugin for volume "one": no deletable volume plugin matched',
  },
  {
    it: 'to be deleted by a plugin that is not here fails',
    volume: aVolume('one', { for: 'data@gone', persistentVolumeReclaimPolicy: 'Delete', metadata: inTree('gone') }),
    step: 'release: VolumeFailedDelete no volume plugin matched name: kubernetes.io/gone',
  },
  {
    it: 'with a policy of no meaning fails',
    volume: aVolume('one', { for: 'data@gone', persistentVolumeReclaimPolicy: 'Burn' }),
    step: 'release: VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy',
  },
  {
    it: 'that a driver took over is left to it',
    volume: aVolume('one', {
      for: 'data@gone',
      persistentVolumeReclaimPolicy: 'Delete',
      metadata: { annotations: { 'pv.kubernetes.io/migrated-to': 'ebs.csi.aws.com' } },
    }),
    step: 'release',
  },
  {
    it: 'to be deleted is left to its provisioner',
    volume: aVolume('one', { for: 'data@gone', persistentVolumeReclaimPolicy: 'Delete', metadata: provisioned }),
    step: 'release',
  },
  {
    it: 'wakes a claim that does not name it',
    volume: aVolume('one', { for: 'data@uid-data' }),
    claim: aClaim(),
    step: 'wakeClaim',
  },
  {
    it: 'of another mode than its claim says so',
    volume: aVolume('one', { for: 'data@uid-data', volumeMode: 'Block' }),
    claim: aClaim(),
    step: 'mismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim "data" due to incompatible volumeMode.',
  },
  {
    it: 'whose claim names it is bound',
    volume: aVolume('one', { for: 'data@uid-data' }),
    claim: aClaim({ volumeName: 'one' }),
    step: 'Bound',
  },
  {
    it: 'whose claim has another is free again',
    volume: aVolume('one', { for: 'data@uid-data' }),
    claim: aClaim({ volumeName: 'two' }),
    step: 'unbind',
  },
  {
    it: 'that was provisioned in vain is released',
    volume: aVolume('one', { for: 'data@uid-data', persistentVolumeReclaimPolicy: 'Delete', metadata: provisioned }),
    claim: aClaim({ volumeName: 'two' }),
    step: 'release',
  },
];
for (const { it, volume, claim, step } of volumes) {
  test(`a volume ${it}`, () => assert.equal(showVolume(planVolume(volume, claim)), step));
}

const provisionedOf = (name: string, persistentVolumeReclaimPolicy: string): PersistentVolume =>
  aVolume('one', { metadata: inTree(name), persistentVolumeReclaimPolicy });
const migrations = [
  {
    it: 'of an old plugin is noted as its driver’s',
    name: 'aws-ebs',
    policy: 'Delete',
    to: 'ebs.csi.aws.com',
    own: false,
  },
  { it: 'of a plugin without a driver keeps the controller’s finalizer', name: 'other', policy: 'Delete', own: true },
  { it: 'that is kept needs no finalizer of the controller', name: 'other', policy: 'Retain', own: false },
];
for (const { it, name, policy, to, own } of migrations) {
  test(`a volume ${it}`, () => {
    const { metadata } = migratedVolume(provisionedOf(name, policy));
    assert.equal(metadata.annotations?.['pv.kubernetes.io/migrated-to'], to);
    assert.equal(metadata.finalizers?.includes('kubernetes.io/pv-controller'), own);
    assert.ok(metadata.finalizers?.includes('own'));
  });
}

test('a volume and a claim of an external provisioner are left as they are, without a note that no longer holds', () => {
  const volume = aVolume('one', { metadata: provisioned });
  assert.equal(migratedVolume(volume), volume);
  const provisioner = { 'volume.kubernetes.io/storage-provisioner': 'example.com/disks' };
  const claim = aClaim({ metadata: { annotations: provisioner } });
  assert.equal(migratedClaim(claim), claim);
  const noted = aClaim({ metadata: { annotations: { ...provisioner, 'pv.kubernetes.io/migrated-to': 'x' } } });
  assert.deepEqual(migratedClaim(noted).metadata.annotations, provisioner);
});
