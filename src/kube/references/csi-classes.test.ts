import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StorageClass } from '../kinds/storage/storage-class.ts';
import { migratedDrivers, translatedClass } from './csi-translation.ts';

type Topologies = NonNullable<StorageClass['allowedTopologies']>;
const zones = (key: string, ...values: string[]): Topologies => [{ matchLabelExpressions: [{ key, values }] }];
const [stable, beta] = ['topology.kubernetes.io/zone', 'failure-domain.beta.kubernetes.io/zone'];
const gke = 'topology.gke.io/zone';
const azure = 'topology.disk.csi.azure.com/zone';
const prefix = 'csi.storage.k8s.io/';
const migration = { csimigration: 'true' };

const classes: readonly {
  readonly of: string;
  readonly given: Readonly<Record<string, string>>;
  readonly at?: Topologies;
  readonly is?: Readonly<Record<string, string>>;
  readonly placed?: Topologies;
}[] = [
  ...['aws-ebs', 'gce-pd', 'azure-disk', 'azure-file', 'cinder', 'portworx-volume'].map((of) => ({
    of,
    given: { foo: 'bar' },
  })),
  ...['aws-ebs', 'gce-pd', 'cinder'].map((of) => ({
    of,
    given: { fsType: 'ext3' },
    is: { [`${prefix}fstype`]: 'ext3' },
  })),
  { of: 'aws-ebs', given: { iopsPerGB: '100' }, is: { iopsPerGB: '100', allowautoiopspergbincrease: 'true' } },
  { of: 'aws-ebs', given: { zone: 'foo' }, is: {}, placed: zones('topology.ebs.csi.aws.com/zone', 'foo') },
  { of: 'gce-pd', given: { zone: 'foo' }, is: {}, placed: zones(gke, 'foo') },
  { of: 'gce-pd', given: { zones: 'foo,bar,baz' }, is: {}, placed: zones(gke, 'foo', 'bar', 'baz') },
  { of: 'gce-pd', given: {}, at: zones(gke, 'foo'), placed: zones(gke, 'foo') },
  { of: 'gce-pd', given: {}, at: zones(beta, 'foo'), placed: zones(gke, 'foo') },
  { of: 'gce-pd', given: {}, at: zones('test', 'foo'), placed: zones('test', 'foo') },
  { of: 'azure-disk', given: { fsType: 'ext4' } },
  { of: 'azure-disk', given: { zones: 'foo,1' }, is: {}, placed: zones(azure, 'foo', '') },
  { of: 'azure-disk', given: {}, at: zones(stable, '0'), placed: zones(azure, '') },
  { of: 'azure-disk', given: {}, at: zones(stable, '1234'), placed: zones(azure, '') },
  { of: 'azure-disk', given: {}, at: zones(beta, 'centralus-1'), placed: zones(azure, 'centralus-1') },
  { of: 'cinder', given: { availability: 'nova' } },
  {
    of: 'cinder',
    given: {},
    at: zones(beta, 'nova'),
    placed: zones('topology.cinder.csi.openstack.org/zone', 'nova'),
  },
  { of: 'vsphere-volume', given: {}, is: migration },
  { of: 'vsphere-volume', given: { unknownparam: 'value' }, is: migration },
  {
    of: 'vsphere-volume',
    given: {
      storagePolicyName: 'p',
      datastore: 'vsan',
      fstype: 'ext4',
      diskformat: 'thin',
      hostFailuresToTolerate: '1',
    },
    at: zones(stable, 'zone-a'),
    is: {
      storagepolicyname: 'p',
      'datastore-migrationparam': 'vsan',
      [`${prefix}fstype`]: 'ext4',
      'diskformat-migrationparam': 'thin',
      'hostfailurestotolerate-migrationparam': '1',
      ...migration,
    },
    placed: zones('topology.csi.vmware.com/zone', 'zone-a'),
  },
  {
    of: 'portworx-volume',
    given: { repl: '1', 'openstorage.io/auth-secret-name': 's', 'openstorage.io/auth-secret-namespace': 'n' },
    is: Object.fromEntries([
      ['repl', '1'],
      ...[
        'provisioner',
        'controller-publish',
        'node-publish',
        'node-stage',
        'controller-expand',
        'node-expand',
      ].flatMap((use) => [
        [`${prefix}${use}-secret-name`, 's'],
        [`${prefix}${use}-secret-namespace`, 'n'],
      ]),
    ]) as Record<string, string>,
  },
];
for (const { of, given, at, is = given, placed } of classes) {
  test(`a class of ${of} with ${JSON.stringify({ ...given, at })} becomes one of its driver`, () => {
    const provisioner = `kubernetes.io/${of}`;
    const storageClass = {
      metadata: { name: 'c' },
      provisioner,
      parameters: given,
      ...(at && { allowedTopologies: at }),
    };
    assert.deepEqual(translatedClass(storageClass), {
      metadata: { name: 'c' },
      provisioner: migratedDrivers.get(provisioner),
      parameters: is,
      ...(placed && { allowedTopologies: placed }),
    });
  });
}

test('a class of another provisioner stays as it is', () => {
  const storageClass = { metadata: { name: 'c' }, provisioner: 'd.example' };
  assert.equal(translatedClass(storageClass), storageClass);
});

test('a class says once where its volumes may be', () => {
  const given = { metadata: { name: 'c' }, provisioner: 'kubernetes.io/gce-pd', parameters: { zone: 'foo' } };
  assert.throws(() => translatedClass({ ...given, allowedTopologies: zones(gke, 'foo') }), {
    message: 'cannot simultaneously set allowed topologies and zone/zones parameters',
  });
});
