/**
 * PersistentVolumes and claims. Upstream a finalizer protects each while it is in use, and a controller removes it. There is no
 * such controller here, so the server adds no such finalizer, and does not wait for one that came with a copied manifest.
 */
import { claimKind } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { type PersistentVolume, persistentVolumeKind } from '../../kube/kinds/storage/persistent-volume.ts';
import { validateObjectMetaUpdate } from '../../kube/schema/metadata-validation.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import { readQuantity } from '../../kube/values/resource-list.ts';
import { timestamp } from '../../kube/values/times.ts';
import { ageColumn, nameColumn, orUnset, text, wide } from '../model/columns.ts';
import { type KubeObject, keepFields, resource } from '../model/resource.ts';
import { plainStatus } from './plain-status.ts';

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';

export const persistentVolumes = resource(persistentVolumeKind, {
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      update: {
        prepare: (object, old, now) => withTransitionTime({ ...object, spec: old.spec }, old, now),
        validate: ({ metadata }, old) => validateObjectMetaUpdate(metadata, old.metadata),
      },
    },
  ],
  prepareForCreate: (object, now) => ({
    ...object,
    status: { phase: 'Pending', lastPhaseTransitionTime: timestamp(now) },
  }),
  deletion: { finalizersWithoutController: ['kubernetes.io/pv-protection'] },
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  columns: [
    nameColumn,
    text('Capacity', 'How much it holds.', ({ spec }) => sizeOf(spec.capacity?.['storage'])),
    text('Access Modes', 'In which ways it can be mounted.', ({ spec }) => modesOf(spec.accessModes)),
    text(
      'Reclaim Policy',
      'What happens to it when its claim is gone.',
      ({ spec }) => spec.persistentVolumeReclaimPolicy ?? '',
    ),
    text('Status', 'Whether it is free, in use, or about to end.', phaseOf),
    text('Claim', 'The claim it belongs to.', ({ spec: { claimRef } }) =>
      claimRef === undefined ? '' : `${claimRef.namespace ?? ''}/${claimRef.name ?? ''}`,
    ),
    text('StorageClass', 'The class of storage it is of.', ({ metadata, spec }) => classOf(metadata, spec)),
    text('VolumeAttributesClass', 'The class of its changeable attributes.', ({ spec }) =>
      orUnset(spec.volumeAttributesClassName),
    ),
    text('Reason', 'Why it is in its phase.', ({ status }) => status?.reason ?? ''),
    ageColumn,
    wide('VolumeMode', 'Whether it is mounted or used as a device.', ({ spec }) => orUnset(spec.volumeMode)),
  ],
  deleteAnswers: 'object',
});

export const persistentVolumeClaims = resource(claimKind, {
  subresources: [plainStatus()],
  prepareForCreate: (object) => ({ ...object, status: { phase: 'Pending' } }),
  deletion: { finalizersWithoutController: ['kubernetes.io/pvc-protection'] },
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  columns: [
    nameColumn,
    text('Status', 'Whether it has a volume, or is about to end.', phaseOf),
    text('Volume', 'The volume it has.', ({ spec }) => spec.volumeName ?? ''),
    text('Capacity', 'How much its volume holds.', ({ spec, status }) =>
      spec.volumeName ? sizeOf(status?.capacity?.['storage']) : '',
    ),
    text('Access Modes', 'In which ways its volume can be mounted.', ({ spec, status }) =>
      spec.volumeName ? modesOf(status?.accessModes) : '',
    ),
    text('StorageClass', 'The class of storage it asks for.', ({ metadata, spec }) => classOf(metadata, spec)),
    text('VolumeAttributesClass', 'The class of changeable attributes it asks for.', ({ spec }) =>
      orUnset(spec.volumeAttributesClassName),
    ),
    ageColumn,
    wide('VolumeMode', 'Whether its volume is mounted or used as a device.', ({ spec }) => orUnset(spec.volumeMode)),
  ],
  deleteAnswers: 'object',
});

function withTransitionTime(object: PersistentVolume, old: PersistentVolume, now: number): PersistentVolume {
  const before = old.status?.lastPhaseTransitionTime;
  const given = object.status?.lastPhaseTransitionTime;
  const isSamePhase = (object.status?.phase ?? '') === (old.status?.phase ?? '');
  const time = isSamePhase ? (given ?? before) : given === undefined || given === before ? timestamp(now) : given;
  return time === undefined ? object : { ...object, status: { ...object.status, lastPhaseTransitionTime: time } };
}

interface Phased extends KubeObject {
  readonly status?: { readonly phase?: string };
}

function phaseOf({ metadata, status }: Phased): string {
  return metadata.deletionTimestamp === undefined ? (status?.phase ?? '') : 'Terminating';
}

function sizeOf(quantity: string | number | undefined): string {
  return String(readQuantity(quantity) ?? Quantity.zero());
}

const shortModes: readonly (readonly [string, string])[] = [
  ['ReadWriteOnce', 'RWO'],
  ['ReadOnlyMany', 'ROX'],
  ['ReadWriteMany', 'RWX'],
  ['ReadWriteOncePod', 'RWOP'],
];

function modesOf(modes: readonly string[] = []): string {
  return shortModes
    .filter(([mode]) => modes.includes(mode))
    .map(([, short]) => short)
    .join(',');
}

function classOf({ annotations = {} }: KubeObject['metadata'], spec: { readonly storageClassName?: string }): string {
  const annotated = Object.hasOwn(annotations, classAnnotation) ? annotations[classAnnotation] : undefined;
  return annotated ?? spec.storageClassName ?? '';
}
