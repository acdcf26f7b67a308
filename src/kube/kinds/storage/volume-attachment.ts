/** The wish to attach a volume to a node, and what came of it. */
import { means } from '../../schema/equality.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { validateObjectMeta } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  any,
  boolean,
  described,
  integer,
  map,
  object,
  required,
  string,
  time,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { csiDriverErrors } from './volume-sources.ts';

const volumeError = object({ time, message: string, errorCode: integer });

export const volumeAttachmentShape = described(
  {
    text: 'The wish to attach a volume to a node.',
    fields: { spec: 'What to attach, and where. It cannot be changed.', status: 'What came of it.' },
  },
  object({
    ...objectFields,
    spec: required(
      object({
        attacher: required(string),
        source: required(object({ persistentVolumeName: string, inlineVolumeSpec: any })),
        nodeName: required(string),
      }),
    ),
    status: object({
      attached: required(boolean),
      attachmentMetadata: map(string),
      attachError: volumeError,
      detachError: volumeError,
    }),
  }),
);
export interface VolumeAttachment extends Of<typeof volumeAttachmentShape> {}

export const volumeAttachmentKind = resourceKind<VolumeAttachment>({
  group: 'storage.k8s.io',
  kind: 'VolumeAttachment',
  plural: 'volumeattachments',
  namespaced: false,
  shape: volumeAttachmentShape,
  validate: validateVolumeAttachment,
  validateUpdate: validateVolumeAttachmentUpdate,
  wire: {
    VolumeAttachment: '1 metadata ObjectMeta, 2 spec VolumeAttachmentSpec, 3 status VolumeAttachmentStatus',
    VolumeAttachmentSpec: '1 attacher!, 2 source VolumeAttachmentSource, 3 nodeName!',
    VolumeAttachmentSource: '1 persistentVolumeName?, 2 inlineVolumeSpec? PersistentVolumeSpec',
    VolumeAttachmentStatus: `
    1 attached! bool, 2 attachmentMetadata {string}, 3 attachError? VolumeError, 4 detachError? VolumeError`,
    VolumeError: '1 time Time, 2 message, 3 errorCode? int',
  },
});

/** Rules for VolumeAttachments, on creation and on update. */
const metadataBytesMax = 256 * 1024;
const messageBytesMax = 1024;

function validateVolumeAttachment({ metadata, spec, status }: VolumeAttachment): FieldError[] {
  const { attacher, nodeName } = spec;
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...csiDriverErrors(attacher, ['spec', 'attacher']),
    ...sourceErrors(spec.source, ['spec', 'source']),
    ...invalidFields(['spec', 'nodeName'], nodeName, dnsSubdomainProblems(nodeName)),
    ...statusErrors(status, ['status']),
  ];
}

export function validateVolumeAttachmentUpdate(attachment: VolumeAttachment, old: VolumeAttachment): FieldError[] {
  const specShape = volumeAttachmentShape.fields?.['spec'];
  const errors = validateVolumeAttachment(attachment);
  if (specShape === undefined || means(specShape, attachment.spec, old.spec)) return errors;
  return [...errors, invalidField(['spec'], attachment.spec, 'field is immutable')];
}

function sourceErrors(source: VolumeAttachment['spec']['source'], path: FieldPath): FieldError[] {
  const { persistentVolumeName: name, inlineVolumeSpec } = source;
  const detail = 'must specify exactly one of inlineVolumeSpec and persistentVolumeName';
  if (name === undefined && inlineVolumeSpec === undefined) return [requiredField(path, detail)];
  if (name !== undefined && inlineVolumeSpec !== undefined) return [forbiddenField(path, detail)];
  if (name === undefined) return [];
  const here = [...path, 'persistentVolumeName'];
  const errors = name === '' ? [requiredField(here, 'must specify non empty persistentVolumeName')] : [];
  return [...errors, ...invalidFields(here, name, dnsSubdomainProblems(name))];
}

function statusErrors(status: VolumeAttachment['status'], path: FieldPath): FieldError[] {
  const { attachmentMetadata = {}, attachError, detachError } = status ?? {};
  let sizeBytes = 0;
  for (const [key, value] of Object.entries(attachmentMetadata)) {
    sizeBytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  const errors = sizeBytes > metadataBytesMax ? [tooLongField([...path, 'attachmentMetadata'], metadataBytesMax)] : [];
  for (const [field, problem] of Object.entries({ attachError, detachError })) {
    if (Buffer.byteLength(problem?.message ?? '') > messageBytesMax) {
      errors.push(tooLongField([...path, field, 'message'], messageBytesMax));
    }
    if ((problem?.errorCode ?? 0) < 0) {
      const detail = 'must be between 0 and 2147483647, inclusive';
      errors.push(invalidField([...path, field, 'errorCode'], problem?.errorCode, detail));
    }
  }
  return errors;
}
