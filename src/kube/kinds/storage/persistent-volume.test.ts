import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { type FieldError, placeOf } from '../../schema/field-errors.ts';
import { claimKind, persistentVolumeClaimShape } from './persistent-volume-claim.ts';
import { persistentVolumeKind, persistentVolumeShape } from './persistent-volume.ts';

const accessModes = ['ReadWriteOnce'];
const capacity = { storage: '1Gi' };
const modes = 'supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"';
const nodeAffinity = {
  required: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['a'] }] }],
  },
};

interface Case {
  readonly it: string;
  readonly spec: object;
  readonly errors: readonly string[];
}

const volumes: readonly Case[] = [
  { it: 'accepts a local volume', spec: { accessModes, capacity, nodeAffinity, local: { path: '/mnt' } }, errors: [] },
  {
    it: 'asks for modes, capacity and a source',
    spec: {},
    errors: [
      'spec.accessModes: Required value',
      'spec.capacity: Required value',
      'spec.capacity: Unsupported value: null: supported values: "storage"',
      'spec: Required value: must specify a volume type',
    ],
  },
  {
    it: 'asks a local volume for a path and a node',
    spec: { accessModes, capacity, local: { path: '' } },
    errors: [
      'spec.local.path: Required value',
      'spec.nodeAffinity: Required value: Local volume requires node affinity',
    ],
  },
  {
    it: 'refuses back-steps in a local path and an affinity without terms',
    spec: { accessModes, capacity, nodeAffinity: {}, local: { path: '/a/../b' } },
    errors: [
      'spec.nodeAffinity.required: Required value: must specify required node constraints',
      `spec.local.path: Invalid value: "/a/../b": must not contain '..'`,
    ],
  },
  {
    it: 'asks storage of other drivers for what it needs',
    spec: { accessModes, capacity, iscsi: { iqn: 'iqn.2026-01.com.example:a' } },
    errors: ['spec.iscsi.targetPortal: Required value'],
  },
  {
    it: 'calls a disk by its old name',
    spec: { accessModes, capacity, gcePersistentDisk: { pdName: 'd', partition: 256 } },
    errors: ['spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive'],
  },
  {
    it: 'asks for the namespace of what is in one',
    spec: { accessModes, capacity, cinder: { volumeID: 'v', secretRef: { name: 's' } } },
    errors: ['spec.cinder.secretRef.namespace: Required value'],
  },
  {
    it: 'knows namespaces that pods do not need',
    spec: { accessModes, capacity, glusterfs: { endpoints: 'e', path: 'p', endpointsNamespace: '' } },
    errors: [
      'spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name',
    ],
  },
  {
    it: 'checks the secrets of a driver, but for the one for staging',
    spec: {
      accessModes,
      capacity,
      csi: {
        driver: 'd',
        volumeHandle: 'h',
        nodeStageSecretRef: {},
        nodePublishSecretRef: { name: 's' },
        nodeExpandSecretRef: { namespace: 'n' },
      },
    },
    errors: [
      'spec.csi.nodePublishSecretRef.namespace: Required value',
      'spec.csi.nodeExpandSecretRef.name: Required value',
    ],
  },
  {
    it: 'takes one source',
    spec: { accessModes, capacity, hostPath: { path: '/a' }, nfs: { server: '', path: '' }, csi: { driver: 'a' } },
    errors: [
      'spec.nfs: Forbidden: may not specify more than 1 volume type',
      'spec.csi: Forbidden: may not specify more than 1 volume type',
    ],
  },
  {
    it: 'holds its choices to what there is',
    spec: {
      accessModes: ['ReadWriteOncePod', 'ReadWriteMany', 'ReadOnce'],
      capacity: { storage: '0', cpu: '-1' },
      persistentVolumeReclaimPolicy: 'Keep',
      volumeMode: 'Raw',
      csi: { driver: '', volumeHandle: '' },
    },
    errors: [
      `spec.accessModes: Unsupported value: "ReadOnce": ${modes}`,
      'spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes',
      'spec.capacity: Unsupported value: {"cpu":"-1","storage":"0"}: supported values: "storage"',
      'spec.capacity[storage]: Invalid value: "0": must be greater than zero',
      'spec.capacity[cpu]: Invalid value: -1: must be a valid resource quantity',
      'spec.capacity[cpu]: Invalid value: "-1": must be greater than zero',
      'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", "Recycle", "Retain"',
      'spec.csi.driver: Required value',
      'spec.csi.volumeHandle: Required value',
      'spec.volumeMode: Unsupported value: "Raw": supported values: "Block", "Filesystem"',
    ],
  },
  {
    it: 'does not recycle the root of a node',
    spec: { accessModes, capacity, hostPath: { path: '//.' }, persistentVolumeReclaimPolicy: 'Recycle' },
    errors: [`spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'`],
  },
];
for (const { it, spec, errors } of volumes) {
  test(`validatePersistentVolume ${it}`, () => {
    const volume = decoded(persistentVolumeShape, { metadata: { name: 'pv' }, spec });
    assert.deepEqual(messagesOf(persistentVolumeKind.validate(persistentVolumeKind.complete(volume))), errors);
  });
}

const resources = { requests: { storage: '1Gi' } };
const claims: readonly Case[] = [
  { it: 'accepts the smallest claim', spec: { accessModes, resources }, errors: [] },
  {
    it: 'asks for modes and storage',
    spec: {},
    errors: [
      'spec.accessModes: Required value: at least 1 access mode is required',
      'spec.resources[storage]: Required value',
    ],
  },
  {
    it: 'holds a claim to its rules',
    spec: {
      accessModes,
      resources: { requests: { storage: '-1' } },
      storageClassName: 'a.',
      volumeMode: 'Raw',
      selector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] },
    },
    errors: [
      "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
      'spec.resources[storage]: Invalid value: "-1": must be greater than zero',
      `spec.storageClassName: Invalid value: "a.": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
      'spec.volumeMode: Unsupported value: "Raw": supported values: "Block", "Filesystem"',
    ],
  },
  {
    it: 'wants its data from one place',
    spec: {
      accessModes,
      resources,
      dataSource: { kind: 'Pod', name: '' },
      dataSourceRef: { apiGroup: 'a.b', kind: 'C', name: 'd' },
    },
    errors: [
      'spec.dataSource.name: Required value',
      `spec.dataSource: Invalid value: "Pod": must be 'PersistentVolumeClaim' when referencing the default apiGroup`,
      'spec: Invalid value: {}: must match dataSourceRef',
    ],
  },
];
for (const { it, spec, errors } of claims) {
  test(`validatePersistentVolumeClaim ${it}`, () => {
    assert.deepEqual(messagesOf(claimErrors(spec)), errors);
  });
}

test('a claim names what its volume is filled with in both fields, whichever it was given in', () => {
  const sources = (given: object): unknown => {
    const spec = { accessModes, resources, ...given };
    const claim = decoded(persistentVolumeClaimShape, { metadata: { name: 'a', namespace: 'b' }, spec });
    const { dataSource, dataSourceRef } = claimKind.complete(claim).spec;
    return { ...(dataSource && { dataSource }), ...(dataSourceRef && { dataSourceRef }) };
  };
  const claim = { kind: 'PersistentVolumeClaim', name: 'c' };
  const snapshot = { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 's' };
  const backup = { apiGroup: 'a.b', kind: 'Backup', name: 'b' };
  for (const source of [claim, snapshot]) {
    assert.deepEqual(sources({ dataSource: source }), { dataSource: source, dataSourceRef: source });
    assert.deepEqual(sources({ dataSourceRef: source }), { dataSource: source, dataSourceRef: source });
  }
  assert.deepEqual(sources({ dataSourceRef: backup }), { dataSource: backup, dataSourceRef: backup });
  assert.deepEqual(sources({ dataSource: backup }), {});
  const elsewhere = { ...claim, namespace: 'other' };
  assert.deepEqual(sources({ dataSourceRef: elsewhere }), { dataSourceRef: elsewhere });
});

test('the error of a claim’s storage is where the request is', () => {
  const [error] = claimErrors({ accessModes, resources: { requests: { storage: '0' } } });
  assert.deepEqual(error && placeOf(error), ['spec', 'resources', 'requests', 'storage']);
});

function claimErrors(spec: object): readonly FieldError[] {
  const claim = decoded(persistentVolumeClaimShape, { metadata: { name: 'a', namespace: 'b' }, spec });
  return claimKind.validate(claimKind.complete(claim));
}

test('storage of other drivers is completed as by Kubernetes, whatever is given is kept', () => {
  const completed = (spec: object): unknown => {
    const volume = decoded(persistentVolumeShape, { metadata: { name: 'v' }, spec });
    const { volumeMode: _, persistentVolumeReclaimPolicy: __, ...sources } = persistentVolumeKind.complete(volume).spec;
    return sources;
  };
  assert.deepEqual(completed({ iscsi: { targetPortal: 'p', iqn: 'q', iscsiInterface: '' } }), {
    iscsi: { targetPortal: 'p', iqn: 'q', lun: 0, iscsiInterface: 'default' },
  });
  assert.deepEqual(completed({ rbd: { monitors: ['m'], image: 'i', pool: 'fast' } }), {
    rbd: { monitors: ['m'], image: 'i', pool: 'fast', user: 'admin', keyring: '/etc/ceph/keyring' },
  });
});
