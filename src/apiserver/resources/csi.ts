/** CSINodes, CSIDrivers and VolumeAttachments: what a kubelet and CSI drivers tell each other through the API. */
import { type CsiDriver, csiDriverKind, csiDriverShape, csiNodeKind } from '../../kube/kinds/storage/csi.ts';
import {
  type VolumeAttachment,
  validateVolumeAttachmentUpdate,
  volumeAttachmentKind,
} from '../../kube/kinds/storage/volume-attachment.ts';
import { means } from '../../kube/schema/equality.ts';
import { ageColumn, nameColumn, text, yesNo } from '../model/columns.ts';
import { keepFields, resource } from '../model/resource.ts';
import { plainStatus } from './plain-status.ts';

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
