/** PersistentVolumes, claims, classes, and what CSI drivers and nodes exchange through the API. */
import { type CsiDriver, csiDriverKind, csiDriverShape, csiNodeKind } from '../../kube/kinds/storage/csi.ts';
import { claimKind, validateClaimStatusUpdate } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { type PersistentVolume, persistentVolumeKind } from '../../kube/kinds/storage/persistent-volume.ts';
import { type StorageClass, storageClassKind } from '../../kube/kinds/storage/storage-class.ts';
import {
  type VolumeAttachment,
  validateVolumeAttachmentUpdate,
  volumeAttachmentKind,
} from '../../kube/kinds/storage/volume-attachment.ts';
import { classOf, isDefaultClass } from '../../kube/references/claims.ts';
import { means } from '../../kube/schema/equality.ts';
import { validateObjectMetaUpdate } from '../../kube/schema/metadata-validation.ts';
import { Quantity, readQuantity } from '../../kube/values/quantity.ts';
import { timestamp } from '../../kube/values/times.ts';
import { ageColumn, nameColumn, orUnset, text, wide, yesNo } from '../model/columns.ts';
import { type KubeObject, type Subresource, keepFields, resource } from '../model/resource.ts';

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
    text('StorageClass', 'The class of storage it is of.', classOf),
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
  subresources: [plainStatus(validateClaimStatusUpdate)],
  prepareForCreate: (object) => ({ ...object, status: { phase: 'Pending' } }),
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
    text('StorageClass', 'The class of storage it asks for.', classOf),
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

export const storageClasses = resource(storageClassKind, {
  columns: [
    { ...nameColumn, cell: nameOf },
    text('Provisioner', 'Who makes volumes of the class.', ({ provisioner }) => provisioner),
    text(
      'ReclaimPolicy',
      'What happens to a volume when its claim is gone.',
      (object) => object.reclaimPolicy ?? 'Delete',
    ),
    text('VolumeBindingMode', 'When a volume is chosen.', (object) => object.volumeBindingMode ?? 'Immediate'),
    yesNo('AllowVolumeExpansion', 'Whether volumes may grow.', (object) => object.allowVolumeExpansion ?? false),
    ageColumn,
  ],
  deleteAnswers: 'object',
});

function nameOf(storageClass: StorageClass): string {
  const { name } = storageClass.metadata;
  return isDefaultClass(storageClass) ? `${name} (default)` : name;
}

/** CSINodes, CSIDrivers and VolumeAttachments: what a kubelet and CSI drivers exchange through the API. */
export const csiNodes = resource(csiNodeKind, {
  subresources: [plainStatus()],
  prepareForCreate: (object) => {
    const { status: _, ...rest } = object;
    return rest;
  },
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  columns: [
    nameColumn,
    {
      name: 'Drivers',
      type: 'integer',
      description: 'How many CSI drivers the node has.',
      priority: 0,
      cell: ({ spec }) => spec.drivers.length,
    },
    ageColumn,
  ],
  allowsUnconditionalUpdate: false,
  deleteAnswers: 'object',
});

export const csiDrivers = resource(csiDriverKind, {
  prepareForUpdate: withGeneration,
  columns: [
    nameColumn,
    yesNo(
      'AttachRequired',
      'Whether volumes are attached before they are mounted.',
      ({ spec }) => spec.attachRequired ?? true,
    ),
    yesNo('PodInfoOnMount', 'Whether the driver is told of the pod.', ({ spec }) => spec.podInfoOnMount ?? false),
    yesNo(
      'StorageCapacity',
      'Whether the driver says how much room it has.',
      ({ spec }) => spec.storageCapacity ?? false,
    ),
    text('TokenRequests', 'The audiences of the tokens it gets.', ({ spec }) =>
      spec.tokenRequests ? spec.tokenRequests.map(({ audience }) => audience).join(',') : '<unset>',
    ),
    yesNo(
      'RequiresRepublish',
      'Whether volumes are mounted again from time to time.',
      ({ spec }) => spec.requiresRepublish ?? false,
    ),
    text(
      'Modes',
      'Which kinds of volumes it has.',
      ({ spec }) => (spec.volumeLifecycleModes ?? []).join(',') || '<none>',
    ),
    ageColumn,
  ],
  allowsUnconditionalUpdate: false,
  deleteAnswers: 'object',
});

export const volumeAttachments = resource(volumeAttachmentKind, {
  subresources: [
    {
      name: 'status',
      verbs: ['get', 'patch', 'update'],
      update: {
        prepare: (object, old) => ({ ...object, spec: old.spec }),
        validate: validateVolumeAttachmentUpdate,
      },
    },
  ],
  prepareForCreate: (object) => ({ ...object, status: { attached: false } }),
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  columns: [
    nameColumn,
    { ...text<VolumeAttachment>('Attacher', 'The driver that attaches.', ({ spec }) => spec.attacher), format: 'name' },
    text('PV', 'The volume to attach.', ({ spec }) => spec.source.persistentVolumeName ?? ''),
    text('Node', 'The node to attach it to.', ({ spec }) => spec.nodeName),
    yesNo('Attached', 'Whether it is attached.', ({ status }) => status?.attached ?? false),
    ageColumn,
  ],
  allowsUnconditionalUpdate: false,
  deleteAnswers: 'object',
});

function withGeneration(object: CsiDriver, old: CsiDriver): CsiDriver {
  const shape = csiDriverShape.fields?.['spec'];
  const before = old.metadata.generation ?? 0;
  const isSame = shape !== undefined && means<unknown>(shape, object.spec, old.spec);
  if (isSame && before === 0) return object;
  return { ...object, metadata: { ...object.metadata, generation: isSame ? before : before + 1 } };
}

/** Everything but the spec may come with it, by the rules of metadata where a kind asks nothing more of it. */
export function plainStatus<T extends KubeObject & { readonly spec: unknown }>(
  validate: NonNullable<Subresource<T>['update']>['validate'] = ({ metadata }, old) =>
    validateObjectMetaUpdate(metadata, old.metadata),
): Subresource<T> {
  return {
    name: 'status',
    verbs: ['get', 'patch', 'update'],
    update: {
      prepare: (object, old) => ({ ...object, spec: old.spec }),
      validate,
    },
  };
}
