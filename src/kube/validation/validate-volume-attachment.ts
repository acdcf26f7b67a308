/** Rules for VolumeAttachments, on creation and on update. */
import { forbiddenField, invalidField, invalidFields, requiredField, tooLongField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import { means } from '../values/semantic-equality.ts';
import { validateObjectMeta } from './validate-metadata.ts';
import { csiDriverErrors } from './validate-volume-sources.ts';
import { volumeAttachment as shape } from '../objects/volume-attachment.ts';
import type { VolumeAttachment } from '../objects/volume-attachment.ts';

const metadataBytesMax = 256 * 1024;
const messageBytesMax = 1024;

export function validateVolumeAttachment({ metadata, spec, status }: VolumeAttachment): FieldError[] {
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
  const specShape = shape.fields?.['spec'];
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
