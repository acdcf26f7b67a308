import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Volume } from '../kinds/pod/volume.ts';
import { type PersistentVolume, persistentVolumeKind } from '../kinds/storage/persistent-volume.ts';
import {
  migratedDrivers,
  migratedKindOf,
  repairedHandle,
  translatedBack,
  translatedInline,
  translatedVolume,
} from './csi-translation.ts';

type Spec = PersistentVolume['spec'];
type Csi = NonNullable<Spec['csi']>;
type Metadata = Omit<PersistentVolume['metadata'], 'name'>;

function volume(spec: Spec, metadata: Metadata = {}): PersistentVolume {
  return { metadata: { name: 'pv', ...metadata }, spec };
}

/** With all that the API server asks for. */
function acceptable({ metadata, spec: { azureDisk, ...spec } }: PersistentVolume): PersistentVolume {
  const source = azureDisk === undefined ? {} : { azureDisk: { diskName: 'd', ...azureDisk } };
  return { metadata, spec: { accessModes: ['ReadWriteOnce'], ...spec, ...source } };
}

/** Freezes what is given, all the way down: a translation makes a copy. */
function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

const disk = '/subscriptions/12/resourceGroups/23/providers/Microsoft.Compute/disks/name';
const vmdk = '[vsanDatastore] 6785a85e/kubernetes-dynamic-pvc-68734c9f.vmdk';
const secret = { name: 'auth', namespace: 'px' };
const rg = 'kubernetes.io/azure-file-resource-group';

const volumes: readonly {
  readonly it: string;
  readonly spec: Spec;
  readonly metadata?: Metadata;
  readonly csi: Csi;
}[] = [
  {
    it: 'an EBS disk',
    spec: { awsElasticBlockStore: { volumeID: 'vol-1', fsType: 'ext3', partition: 1, readOnly: true } },
    csi: {
      driver: 'ebs.csi.aws.com',
      volumeHandle: 'vol-1',
      fsType: 'ext3',
      readOnly: true,
      volumeAttributes: { partition: '1' },
    },
  },
  ...['aws:///vol-02399794d890f9375', 'aws://us-west-2a/vol-02399794d890f9375'].map((volumeID) => ({
    it: `an EBS disk called ${volumeID}`,
    spec: { awsElasticBlockStore: { volumeID } },
    csi: { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-02399794d890f9375', volumeAttributes: { partition: '0' } },
  })),
  {
    it: 'a GCE disk of an unknown zone',
    spec: { gcePersistentDisk: { pdName: 'pd', fsType: 'ext4' } },
    csi: {
      driver: 'pd.csi.storage.gke.io',
      volumeHandle: 'projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd',
      fsType: 'ext4',
      volumeAttributes: { partition: '' },
    },
  },
  ...['failure-domain.beta.kubernetes.io/zone', 'topology.kubernetes.io/zone'].flatMap((label) => [
    {
      it: `a GCE disk of the zone in ${label}`,
      spec: { gcePersistentDisk: { pdName: 'pd', partition: 2 } },
      metadata: { labels: { [label]: 'us-east1-a' } },
      csi: {
        driver: 'pd.csi.storage.gke.io',
        volumeHandle: 'projects/UNSPECIFIED/zones/us-east1-a/disks/pd',
        volumeAttributes: { partition: '2' },
      },
    },
    {
      it: `a GCE disk of the region of the zones in ${label}`,
      spec: { gcePersistentDisk: { pdName: 'pd' } },
      metadata: { labels: { [label]: 'us-central1-a__us-central1-c' } },
      csi: {
        driver: 'pd.csi.storage.gke.io',
        volumeHandle: 'projects/UNSPECIFIED/regions/us-central1/disks/pd',
        volumeAttributes: { partition: '' },
      },
    },
  ]),
  {
    it: 'an Azure disk',
    spec: { azureDisk: { diskURI: disk, cachingMode: 'None', fsType: 'xfs', readOnly: true, kind: 'Managed' } },
    csi: {
      driver: 'disk.csi.azure.com',
      volumeHandle: disk,
      fsType: 'xfs',
      readOnly: true,
      volumeAttributes: { kind: 'Managed', cachingmode: 'None', fstype: 'xfs' },
    },
  },
  {
    it: 'an Azure share with a Secret that Azure named',
    spec: {
      azureFile: {
        shareName: 'share',
        secretName: 'azure-storage-account-acc-dup-secret',
        secretNamespace: 'ns',
        readOnly: true,
      },
    },
    metadata: { annotations: { [rg]: 'group' } },
    csi: {
      driver: 'file.csi.azure.com',
      volumeHandle: 'group#acc-dup#share#pv#ns',
      readOnly: true,
      volumeAttributes: { sharename: 'share' },
      nodeStageSecretRef: { name: 'azure-storage-account-acc-dup-secret', namespace: 'ns' },
    },
  },
  {
    it: 'an Azure share whose claim has the Secret',
    spec: { azureFile: { shareName: 'share', secretName: 'mine' }, claimRef: { namespace: 'shop' } },
    csi: {
      driver: 'file.csi.azure.com',
      volumeHandle: '#mine#share#pv#shop',
      volumeAttributes: { sharename: 'share' },
      nodeStageSecretRef: { name: 'mine', namespace: 'shop' },
    },
  },
  {
    it: 'a Cinder volume',
    spec: { cinder: { volumeID: 'c1', fsType: 'ext4', readOnly: true } },
    csi: {
      driver: 'cinder.csi.openstack.org',
      volumeHandle: 'c1',
      fsType: 'ext4',
      readOnly: true,
      volumeAttributes: {},
    },
  },
  {
    it: 'a vSphere disk',
    spec: { vsphereVolume: { volumePath: vmdk, fsType: 'ext4', storagePolicyName: 'vSAN Default' } },
    csi: {
      driver: 'csi.vsphere.vmware.com',
      volumeHandle: vmdk,
      fsType: 'ext4',
      volumeAttributes: { storagepolicyname: 'vSAN Default' },
    },
  },
  {
    it: 'a Portworx volume',
    spec: { portworxVolume: { volumeID: 'p1', fsType: 'ext4', readOnly: true } },
    metadata: { annotations: { 'openstorage.io/auth-secret-name': 'auth' } },
    csi: { driver: 'pxd.portworx.com', volumeHandle: 'p1', fsType: 'ext4', volumeAttributes: {} },
  },
  {
    it: 'a Portworx volume with a Secret',
    spec: { portworxVolume: { volumeID: 'p1' } },
    metadata: {
      annotations: { 'openstorage.io/auth-secret-name': 'auth', 'openstorage.io/auth-secret-namespace': 'px' },
    },
    csi: {
      driver: 'pxd.portworx.com',
      volumeHandle: 'p1',
      volumeAttributes: {},
      controllerPublishSecretRef: secret,
      nodeStageSecretRef: secret,
      nodePublishSecretRef: secret,
      controllerExpandSecretRef: secret,
      nodeExpandSecretRef: secret,
    },
  },
];
for (const { it, spec, metadata, csi } of volumes) {
  test(`${it} becomes a volume of its driver`, () => {
    const given = frozen(volume({ capacity: { storage: '1Gi' }, volumeMode: 'Block', ...spec }, metadata));
    const { nodeAffinity: _, ...made } = translatedVolume(given).spec;
    const { claimRef } = spec;
    assert.deepEqual(persistentVolumeKind.validate(acceptable(given)), []);
    assert.deepEqual(persistentVolumeKind.validate(acceptable(translatedVolume(given))), []);
    assert.deepEqual(made, { capacity: { storage: '1Gi' }, volumeMode: 'Block', ...(claimRef && { claimRef }), csi });
    assert.deepEqual(translatedVolume(given).metadata, given.metadata);
  });
}

const refusals: readonly { readonly spec: Spec; readonly metadata?: Metadata; readonly says: string }[] = [
  {
    spec: { awsElasticBlockStore: { volumeID: 'aws://us-west-2a/02399794d890f9375' } },
    says: 'failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://us-west-2a/02399794d890f9375)',
  },
  {
    spec: { azureDisk: { diskURI: disk, kind: 'Dedicated' } },
    says: 'kind(Dedicated) is not supported in csi migration',
  },
  {
    spec: { azureFile: { shareName: 's', secretName: 'n' } },
    says: 'could not find a secret namespace in PersistentVolumeSource or ClaimRef',
  },
  {
    spec: { azureFile: { shareName: 's', secretName: 'n', secretNamespace: '' }, claimRef: { namespace: 'shop' } },
    says: 'could not find a secret namespace in PersistentVolumeSource or ClaimRef',
  },
  {
    spec: { gcePersistentDisk: { pdName: 'pd' } },
    metadata: { labels: { 'topology.kubernetes.io/zone': 'us-east1-a__us-west1-a' } },
    says: 'multiple or no regions gotten from zones, got: map[us-east1:{} us-west1:{}]',
  },
  { spec: { cinder: { volumeID: 7 } }, says: 'cinder does not name its volume' },
];
for (const { spec, metadata, says } of refusals) {
  test(`a volume cannot be translated: ${says}`, () => {
    const message = `failed to translate in-tree pv to CSI: ${says}`;
    assert.throws(() => translatedVolume(volume(spec, metadata)), { message });
  });
}

test('only GCE disks change their access modes', () => {
  const modes = (spec: Spec, given?: readonly string[]): readonly string[] | undefined =>
    translatedVolume(volume({ ...spec, ...(given && { accessModes: given }) })).spec.accessModes;
  const gce = { gcePersistentDisk: { pdName: 'pd' } };
  const [RWO, ROX, RWX] = ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany'];
  for (const [given, expected] of [
    [[ROX], ROX],
    [[RWO], RWO],
    [[RWX], RWO],
    [[ROX, RWO], RWO],
    [[RWO, RWX], RWO],
    [[RWX, ROX], RWO],
    [[RWX, RWO, ROX], RWO],
    [[], RWO],
  ] as const) {
    assert.deepEqual(modes(gce, given), [expected], given.join());
  }
  assert.equal(modes(gce), undefined);
  assert.deepEqual(modes({ cinder: { volumeID: 'c' } }, [RWX, ROX]), [RWX, ROX]);
});

const inline: readonly {
  readonly source: Omit<Volume, 'name'>;
  readonly name: string;
  readonly mode?: string;
  readonly handle?: string;
}[] = [
  { source: { awsElasticBlockStore: { volumeID: 'aws:///vol-1' } }, name: 'ebs.csi.aws.com-vol-1', handle: 'vol-1' },
  {
    source: { gcePersistentDisk: { pdName: 'pd', readOnly: true } },
    name: 'pd.csi.storage.gke.io-pd',
    mode: 'ReadOnlyMany',
    handle: 'projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd',
  },
  { source: { gcePersistentDisk: { pdName: 'pd' } }, name: 'pd.csi.storage.gke.io-pd' },
  { source: { azureDisk: { diskURI: '/a/disk' } }, name: '~a~disk', handle: '/a/disk' },
  {
    source: { azureFile: { secretName: 'secretname', shareName: 'sharename', secretNamespace: 'kube-system' } },
    name: '#secretname#sharename#data#shop',
    mode: 'ReadWriteMany',
  },
  { source: { cinder: { volumeID: 'c1' } }, name: 'cinder.csi.openstack.org-c1', handle: 'c1' },
  {
    source: { vsphereVolume: { volumePath: '[d] v/i.vmdk', storagePolicyName: 'p' } },
    name: 'csi.vsphere.vmware.com-[d] v~i.vmdk',
    handle: '[d] v/i.vmdk',
  },
  { source: { portworxVolume: { volumeID: 'p1', readOnly: true } }, name: 'pxd.portworx.com-p1', mode: 'ReadOnlyMany' },
];
for (const { source, name, mode = 'ReadWriteOnce', handle } of inline) {
  test(`a volume in a pod becomes the PersistentVolume ${name}, ${mode}`, () => {
    const made = translatedInline(frozen({ name: 'data', ...source }), 'shop');
    assert.equal(made?.metadata.name, name);
    assert.deepEqual([made.spec.accessModes, made.spec.volumeMode], [[mode], 'Filesystem']);
    if (handle !== undefined) assert.equal(made.spec.csi?.volumeHandle, handle);
    assert.deepEqual(Object.keys(made.spec).sort(), ['accessModes', 'csi', 'volumeMode']);
  });
}

test("a share in a pod uses the Secrets of the pod's namespace, whatever it says", () => {
  const azureFile = { secretName: 's', shareName: 'h', secretNamespace: 'kube-system' };
  const namespaceIn = (podNamespace: string): unknown =>
    translatedInline({ name: 'data', azureFile }, podNamespace)?.spec.csi?.nodeStageSecretRef?.namespace;
  assert.deepEqual([namespaceIn('shop'), namespaceIn('')], ['shop', 'default']);
});

test('what no driver has taken over stays as it is', () => {
  const given = volume({ iscsi: { targetPortal: 'p', iqn: 'i', lun: 0 } });
  assert.equal(translatedVolume(given), given);
  assert.equal(translatedInline({ name: 'v', emptyDir: {} }, 'shop'), undefined);
  const of = volume({ csi: { driver: 'd.example', volumeHandle: 'h' } });
  assert.equal(translatedBack(of), of);
  assert.equal(migratedKindOf(given.spec), undefined);
});

test('every kind has the names of its plugin and its driver', () => {
  const names = `aws-ebs ebs.csi.aws.com, azure-disk disk.csi.azure.com, azure-file file.csi.azure.com,
    cinder cinder.csi.openstack.org, gce-pd pd.csi.storage.gke.io, portworx-volume pxd.portworx.com,
    vsphere-volume csi.vsphere.vmware.com`.split(/,\s+/);
  assert.deepEqual(
    [...migratedDrivers].map(([plugin, driver]) => `${plugin} ${driver}`),
    names.map((name) => `kubernetes.io/${name}`),
  );
});

const handles = [
  { it: 'a complete one', handle: 'projects/foo/zones/bar/disks/baz' },
  { it: 'a complete one of a region', handle: 'projects/foo/regions/us-central1-c/disks/baz' },
  { it: 'no project', handle: 'projects/UNSPECIFIED/zones/bar/disks/baz', is: 'projects/bing/zones/bar/disks/baz' },
  {
    it: 'neither project nor zone',
    handle: 'projects/UNSPECIFIED/zones/UNSPECIFIED/disks/baz',
    is: 'projects/bing/zones/us-central1-c/disks/baz',
  },
  {
    it: 'neither project nor region',
    handle: 'projects/UNSPECIFIED/regions/UNSPECIFIED/disks/baz',
    is: 'projects/bing/regions/us-central1/disks/baz',
  },
  {
    it: 'a region without project',
    handle: 'projects/UNSPECIFIED/regions/us-west1/disks/baz',
    is: 'projects/bing/regions/us-west1/disks/baz',
  },
];
const node = 'projects/bing/zones/us-central1-c/instances/boom';
for (const { it, handle, is = handle } of handles) {
  test(`the handle of a GCE disk is completed from the node: ${it}`, () => {
    assert.equal(repairedHandle('pd.csi.storage.gke.io', handle, node), is);
  });
}

test('a handle that is no GCE disk, or a node that is no GCE instance, repairs nothing', () => {
  const repair = (handle: string, nodeId = node): string => repairedHandle('pd.csi.storage.gke.io', handle, nodeId);
  assert.throws(
    () => repair('foo'),
    /^OperatingError: volume handle has wrong number of elements; got 1, wanted 6 or more$/,
  );
  const incomplete = 'projects/UNSPECIFIED/zones/bar/disks/baz';
  assert.throws(() => repair(incomplete, 'foo'), /node handle has wrong number of elements; got 1, wanted 6 or more$/);
  assert.throws(() => repair('projects/UNSPECIFIED/moons/bar/disks/baz'), /regionality value, got: moons$/);
  assert.equal(repairedHandle('ebs.csi.aws.com', 'vol-1', 'i-1'), 'vol-1');
});

const share = { shareName: 'sharename' };
const back: readonly { readonly it: string; readonly csi: Csi; readonly spec: Spec; readonly metadata?: Metadata }[] = [
  {
    it: 'an Azure disk',
    csi: {
      driver: 'disk.csi.azure.com',
      volumeHandle: disk,
      fsType: 'xfs',
      readOnly: true,
      volumeAttributes: { cachingMode: 'ReadWrite', fsType: 'ext4', kind: 'managed' },
    },
    spec: {
      azureDisk: {
        diskName: 'name',
        diskURI: disk,
        fsType: 'ext4',
        readOnly: true,
        kind: 'Managed',
        cachingMode: 'ReadWrite',
      },
    },
  },
  {
    it: 'an Azure share with a reference to its Secret',
    csi: {
      driver: 'file.csi.azure.com',
      volumeHandle: 'rg#st#pvc-file-dynamic#diskname.vhd',
      readOnly: true,
      volumeAttributes: share,
      nodeStageSecretRef: { name: 'ut', namespace: 'ns' },
    },
    spec: { azureFile: { secretName: 'ut', ...share, secretNamespace: 'ns', readOnly: true } },
  },
  {
    it: 'an Azure share whose attributes name its Secret',
    csi: {
      driver: 'file.csi.azure.com',
      volumeHandle: 'rg#st#pvc-file-dynamic#diskname.vhd',
      volumeAttributes: { ...share, secretName: 'mine', secretNamespace: 'ns' },
    },
    spec: { azureFile: { secretName: 'mine', ...share, secretNamespace: 'ns' } },
  },
  {
    it: 'an Azure share with a name and no Secret',
    csi: { driver: 'file.csi.azure.com', volumeHandle: 'rg#st#pvc-file-dynamic#d.vhd', volumeAttributes: share },
    spec: { azureFile: { secretName: 'azure-storage-account-st-secret', ...share, secretNamespace: 'default' } },
    metadata: { annotations: { [rg]: 'rg' } },
  },
  {
    it: 'an Azure share that only its handle describes',
    csi: { driver: 'file.csi.azure.com', volumeHandle: 'rg#st#pvc-file-dynamic' },
    spec: {
      azureFile: {
        secretName: 'azure-storage-account-st-secret',
        shareName: 'pvc-file-dynamic',
        secretNamespace: 'default',
      },
    },
    metadata: { annotations: { [rg]: 'rg' } },
  },
  {
    it: 'a vSphere disk',
    csi: {
      driver: 'csi.vsphere.vmware.com',
      volumeHandle: 'e4073a6d',
      fsType: 'ext4',
      volumeAttributes: { storagepolicyname: 'p', initialvolumefilepath: vmdk },
    },
    spec: { vsphereVolume: { volumePath: vmdk, fsType: 'ext4' } },
  },
  {
    it: 'a Portworx volume',
    csi: { driver: 'pxd.portworx.com', volumeHandle: 'ID', fsType: 'type', readOnly: true },
    spec: { portworxVolume: { volumeID: 'ID', fsType: 'type', readOnly: true } },
  },
];
for (const { it, csi, spec, metadata } of back) {
  test(`${it} becomes a volume of its old kind`, () => {
    const { metadata: made, spec: translated } = translatedBack(frozen(volume({ csi })));
    assert.deepEqual(translated, spec);
    assert.deepEqual(made.annotations ?? {}, metadata?.annotations ?? {});
  });
}

for (const spec of [
  { gcePersistentDisk: { pdName: 'test-disk', fsType: 'ext4' } },
  { gcePersistentDisk: { pdName: 'test-disk', partition: 3 } },
  { awsElasticBlockStore: { volumeID: 'vol01', fsType: 'ext3', partition: 1, readOnly: true } },
  { cinder: { volumeID: 'vol1', fsType: 'ext4' } },
]) {
  test(`${JSON.stringify(spec)} is the same after there and back`, () => {
    const given = volume({ ...spec, accessModes: ['ReadWriteOnce'] });
    assert.deepEqual(translatedBack(translatedVolume(given)), given);
  });
}

for (const [csi, says] of [
  [{ driver: 'disk.csi.azure.com', volumeHandle: disk.replace('/resourceGroups/23', '') }, /^could not get disk name/],
  [
    { driver: 'file.csi.azure.com', volumeHandle: 'rg#st' },
    /^error parsing volume id: "rg#st", should at least contain/,
  ],
  [{ driver: 'pd.csi.storage.gke.io', volumeHandle: 'pd' }, /^volume handle has wrong number of elements/],
  [
    { driver: 'ebs.csi.aws.com', volumeHandle: 'v', volumeAttributes: { partition: 'one' } },
    /^failed to convert partition one to integer$/,
  ],
] as const) {
  test(`${csi.volumeHandle} of ${csi.driver} has no name of the old kind`, () => {
    assert.throws(() => translatedBack(volume({ csi })), { message: says });
  });
}
