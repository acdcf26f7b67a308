/** Rules for questions about access, which say either a resource or a path, and nothing in their metadata. */
import type {
  ResourceAttributes,
  SelectorAttributes,
  SelfAccessSpec,
  SelfSubjectAccessReview,
  SubjectAccessReview,
  SubjectAccessSpec,
} from '../objects/access-review.ts';
import { invalidField, requiredField, showPath } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import type { ObjectMeta } from '../objects/metadata.ts';
import type { FieldPath } from '../objects/schema.ts';
import { isEmpty } from '../values/semantic-equality.ts';

export function validateSubjectAccessReview({ metadata, spec }: SubjectAccessReview): FieldError[] {
  return [...subjectErrors(spec), ...emptyMetadataErrors(metadata, 'must be empty')];
}

export function validateSelfSubjectAccessReview({ metadata, spec }: SelfSubjectAccessReview): FieldError[] {
  return [...accessErrors(spec), ...emptyMetadataErrors(metadata, 'must be empty')];
}

export function validateLocalSubjectAccessReview({ metadata, spec }: SubjectAccessReview): FieldError[] {
  const { namespace = '', ...rest } = metadata;
  const errors = [...subjectErrors(spec), ...emptyMetadataErrors(rest, 'must be empty except for namespace')];
  const asked = spec.resourceAttributes?.namespace ?? '';
  if (spec.resourceAttributes !== undefined && asked !== namespace) {
    errors.push(invalidField(['spec', 'resourceAttributes', 'namespace'], asked, 'must match metadata.namespace'));
  }
  if (spec.nonResourceAttributes !== undefined) {
    const detail = 'disallowed on this kind of request';
    errors.push(invalidField(['spec', 'nonResourceAttributes'], spec.nonResourceAttributes, detail));
  }
  return errors;
}

function subjectErrors(spec: SubjectAccessSpec): FieldError[] {
  const { user = '', groups = [] } = spec;
  const isNobody = user === '' && groups.length === 0;
  return [
    ...accessErrors(spec),
    ...(isNobody ? [invalidField(['spec', 'user'], user, 'at least one of user or group must be specified')] : []),
  ];
}

function accessErrors({ resourceAttributes, nonResourceAttributes }: SelfAccessSpec): FieldError[] {
  const detail = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
  const isOne = (resourceAttributes === undefined) !== (nonResourceAttributes === undefined);
  return [
    ...(isOne ? [] : [invalidField(['spec'], nonResourceAttributes ?? null, detail)]),
    ...(resourceAttributes === undefined ? [] : selectorErrors(resourceAttributes, ['spec', 'resourceAttributes'])),
  ];
}

function selectorErrors({ fieldSelector, labelSelector }: ResourceAttributes, path: FieldPath): FieldError[] {
  const errorsOf = (selector: SelectorAttributes | undefined, here: FieldPath): FieldError[] => {
    if (selector === undefined) return [];
    const { rawSelector = '', requirements = [] } = selector;
    if (rawSelector !== '' && requirements.length > 0) {
      const detail = 'may not specified at the same time as requirements';
      return [invalidField([...here, 'rawSelector'], rawSelector, detail)];
    }
    if (rawSelector !== '' || requirements.length > 0) return [];
    const detail = `when ${showPath(here)} is specified, requirements or rawSelector is required`;
    return [requiredField([...here, 'requirements'], detail)];
  };
  return [
    ...errorsOf(fieldSelector, [...path, 'fieldSelector']),
    ...errorsOf(labelSelector, [...path, 'labelSelector']),
  ];
}

function emptyMetadataErrors(meta: ObjectMeta, detail: string): FieldError[] {
  const { managedFields: _, ...metadata } = meta;
  return isEmpty(metadata) ? [] : [invalidField(['metadata'], metadata, detail)];
}
