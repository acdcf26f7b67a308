/** What an update may change, for the kinds whose rules for creation are tested elsewhere. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import type { FieldError } from '../schema/field-errors.ts';
import { nodeShape, validateNodeUpdate } from './node.ts';
import { serviceAccountKind } from './service-account.ts';
import { serviceKind, serviceShape } from './service.ts';
import {
  type PersistentVolumeClaim,
  claimKind,
  persistentVolumeClaimShape,
} from './storage/persistent-volume-claim.ts';
import { type PersistentVolume, persistentVolumeKind, persistentVolumeShape } from './storage/persistent-volume.ts';

interface UpdateCase {
  readonly it: string;
  readonly old?: object;
  readonly changed: object;
  readonly errors: readonly string[];
}

function testUpdates(
  name: string,
  cases: readonly UpdateCase[],
  errorsOf: (changed: object, old: object) => readonly FieldError[],
): void {
  for (const { it, old = {}, changed, errors } of cases) {
    test(`${name} ${it}`, () => assert.deepEqual(messagesOf(errorsOf(changed, old)), errors));
  }
}

testUpdates(
  'validateNodeUpdate',
  [
    { it: 'takes a node without changes', changed: {}, errors: [] },
    {
      it: 'takes a first range and provider',
      changed: { spec: { podCIDRs: ['10.0.0.0/24'], providerID: 'a' } },
      errors: [],
    },
    {
      it: 'keeps ranges',
      old: { spec: { podCIDRs: ['10.0.0.0/24'] } },
      changed: { spec: { podCIDRs: ['10.0.1.0/24'] } },
      errors: ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
    },
    {
      it: 'keeps the number of ranges',
      old: { spec: { podCIDRs: ['10.0.0.0/24'] } },
      changed: {},
      errors: ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
    },
    {
      it: 'keeps the provider',
      old: { spec: { providerID: 'a' } },
      changed: { spec: { providerID: 'b' } },
      errors: ['spec.providerID: Invalid value: null: field cannot be modified once set'],
    },
    {
      it: 'does not lose the provider',
      old: { spec: { providerID: 'a' } },
      changed: {},
      errors: ['spec.providerID: Invalid value: null: field cannot be cleared once set'],
    },
    {
      it: 'refuses an address twice',
      changed: {
        status: {
          addresses: [
            { type: 'Hostname', address: 'a' },
            { type: 'Hostname', address: 'a' },
          ],
        },
      },
      errors: ['status.addresses[1]: Duplicate value: {"Type":"Hostname","Address":"a"}'],
    },
    {
      it: 'keeps the external id',
      changed: { spec: { externalID: 'x' } },
      errors: ['spec.externalID: Forbidden: may not be updated'],
    },
  ],
  (changed, old) => {
    const from = (parts: object) => decoded(nodeShape, { metadata: { name: 'n', resourceVersion: '1' }, ...parts });
    return validateNodeUpdate(from(changed), from(old));
  },
);

function aVolume(spec: object): PersistentVolume {
  return persistentVolumeKind.complete(
    decoded(persistentVolumeShape, {
      metadata: { name: 'pv', resourceVersion: '1' },
      spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, hostPath: { path: '/a' }, ...spec },
    }),
  );
}

const nodesOf = (key: string): object => ({
  required: { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: 'Exists' }] }] },
});

testUpdates(
  'validatePersistentVolumeUpdate',
  [
    {
      it: 'takes another reclaim policy and claim',
      changed: { persistentVolumeReclaimPolicy: 'Delete', claimRef: { name: 'c' } },
      errors: [],
    },
    {
      it: 'keeps the source and shows the change',
      changed: { hostPath: { path: '/b' } },
      errors: [
        'spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n- hostPath.path: "/a"\n+ hostPath.path: "/b"',
      ],
    },
    {
      it: 'keeps the mode',
      changed: { volumeMode: 'Block' },
      errors: ['volumeMode: Invalid value: "Block": field is immutable'],
    },
    {
      it: 'takes nodes that come later, and new names of their labels',
      old: { nodeAffinity: nodesOf('beta.kubernetes.io/os') },
      changed: { nodeAffinity: nodesOf('kubernetes.io/os') },
      errors: [],
    },
    {
      it: 'keeps its nodes',
      old: { nodeAffinity: nodesOf('kubernetes.io/os') },
      changed: {},
      errors: ['nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA'],
    },
    {
      it: 'takes a secret for expansion that comes later',
      old: { hostPath: null, csi: { driver: 'd', volumeHandle: 'v' } },
      changed: {
        hostPath: null,
        csi: { driver: 'd', volumeHandle: 'v', controllerExpandSecretRef: { name: 's', namespace: 'n' } },
      },
      errors: [],
    },
  ],
  (changed, old) => persistentVolumeKind.validateUpdate(aVolume(changed), aVolume(old)),
);

function aClaim({ status, annotation, ...spec }: { status?: unknown; annotation?: string }): PersistentVolumeClaim {
  const annotations = annotation && { 'volume.beta.kubernetes.io/storage-class': annotation };
  return claimKind.complete(
    decoded(persistentVolumeClaimShape, {
      metadata: { name: 'c', namespace: 'shop', resourceVersion: '1', ...(annotations && { annotations }) },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '2Gi' } }, ...spec },
      status,
    }),
  );
}

const bound = { status: { phase: 'Bound', capacity: { storage: '1Gi' } }, volumeName: 'pv' };
const claimRefusal =
  'spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n';

testUpdates(
  'validatePersistentVolumeClaimUpdate',
  [
    { it: 'takes a volume, once', changed: { volumeName: 'pv' }, errors: [] },
    {
      it: 'keeps its volume',
      old: { volumeName: 'pv' },
      changed: { volumeName: 'other' },
      errors: [`${claimRefusal}- volumeName: "pv"\n+ volumeName: "other"`],
    },
    { it: 'takes a class that comes later', changed: { storageClassName: 'fast' }, errors: [] },
    {
      it: 'keeps its class',
      old: { storageClassName: 'fast' },
      changed: { storageClassName: 'slow' },
      errors: [`${claimRefusal}- storageClassName: "fast"\n+ storageClassName: "slow"`],
    },
    {
      it: 'takes the class of its annotation as the field',
      old: { annotation: 'fast' },
      changed: { storageClassName: 'fast' },
      errors: [],
    },
    {
      it: 'does not take another class than that of its annotation',
      old: { annotation: 'fast' },
      changed: { annotation: 'fast', storageClassName: 'slow' },
      errors: [`${claimRefusal}+ storageClassName: "slow"`],
    },
    {
      it: 'does not take back attributes that were applied',
      old: {
        ...bound,
        volumeAttributesClassName: 'a',
        status: { ...bound.status, currentVolumeAttributesClassName: 'a' },
      },
      changed: { ...bound },
      errors: [
        'spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil',
      ],
    },
    {
      it: 'takes a class of no name for what it is',
      old: { storageClassName: '' },
      changed: {},
      errors: [claimRefusal],
    },
    {
      it: 'lets a bound claim grow',
      old: bound,
      changed: { ...bound, resources: { requests: { storage: '3Gi' } } },
      errors: [],
    },
    {
      it: 'does not let an unbound claim grow',
      changed: { resources: { requests: { storage: '3Gi' } } },
      errors: [`${claimRefusal}- resources.requests.storage: "2Gi"\n+ resources.requests.storage: "3Gi"`],
    },
    {
      it: 'does not let a claim shrink below its volume',
      old: bound,
      changed: { ...bound, resources: { requests: { storage: '1Gi' } } },
      errors: ['spec.resources.requests.storage: Forbidden: field can not be less than status.capacity'],
    },
    {
      it: 'lets a growth that failed be taken back in part',
      old: bound,
      changed: { ...bound, resources: { requests: { storage: '1500Mi' } } },
      errors: [],
    },
    {
      it: 'lets a bound claim change its attributes',
      old: bound,
      changed: { ...bound, volumeAttributesClassName: 'a' },
      errors: [],
    },
  ],
  (changed, old) => claimKind.validateUpdate(aClaim(changed), aClaim(old)),
);

testUpdates(
  'validateServiceUpdate',
  [
    { it: 'takes another selector', changed: { selector: { a: 'b' } }, errors: [] },
    {
      it: 'keeps the address',
      old: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] },
      changed: { clusterIP: '10.0.0.2', clusterIPs: ['10.0.0.2'] },
      errors: ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'],
    },
    {
      it: 'does not lose the address',
      old: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] },
      changed: {},
      errors: ['spec.clusterIPs[0]: Invalid value: []: primary clusterIP can not be unset'],
    },
    {
      it: 'gives up an address of another family only when the update says so',
      old: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1', 'fd00::1'] },
      changed: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] },
      errors: [
        "spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary clusterIP",
      ],
    },
    {
      it: 'lets a name give up the address',
      old: { clusterIP: '10.0.0.1' },
      changed: { type: 'ExternalName', externalName: 'example.com' },
      errors: [],
    },
  ],
  (changed, old) => {
    const from = (spec: object) =>
      serviceKind.complete(
        decoded(serviceShape, {
          metadata: { name: 's', namespace: 'shop', resourceVersion: '1' },
          spec: { ports: [{ port: 80 }], ...spec },
        }),
      );
    return serviceKind.validateUpdate(from(changed), from(old));
  },
);

test('validateServiceAccountUpdate looks at metadata', () => {
  const from = (parts: object) =>
    decoded(serviceAccountKind.shape, { metadata: { name: 'a', namespace: 'shop', resourceVersion: '1', ...parts } });
  assert.deepEqual(serviceAccountKind.validateUpdate(from({ labels: { a: 'b' } }), from({})), []);
  assert.deepEqual(messagesOf(serviceAccountKind.validateUpdate(from({ uid: 'a' }), from({ uid: 'b' }))), [
    'metadata.uid: Invalid value: "a": field is immutable',
  ]);
});
