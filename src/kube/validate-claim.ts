/** Rules for PersistentVolumeClaims, and for the templates of claims that pods carry. */
import { forbiddenField, invalidField, invalidFields, keyPart, placedAt } from './field-errors.ts';
import { requiredField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { validateLabels, validateLabelSelector } from './labels.ts';
import type { ObjectMeta } from './metadata.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from './names.ts';
import type { ClaimSpec, ClaimTemplate, PersistentVolumeClaim } from './persistent-volume.ts';
import type { ResourceList } from './resource-list.ts';
import type { FieldPath } from './schema.ts';
import { validateAnnotations, validateObjectMeta } from './validate-metadata.ts';
import { positiveQuantityErrors, quantityErrors } from './validate-numbers.ts';

export const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
export const volumeModes = ['Block', 'Filesystem'];

export function validatePersistentVolumeClaim(claim: PersistentVolumeClaim, path: FieldPath = []): FieldError[] {
  return [
    ...validateObjectMeta(claim.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }, [...path, 'metadata']),
    ...claimSpecErrors(claim.spec, [...path, 'spec']),
  ];
}

export function claimTemplateErrors({ metadata, spec }: ClaimTemplate, path: FieldPath): FieldError[] {
  return [
    ...(metadata === undefined ? [] : templateMetadataErrors(metadata, [...path, 'metadata'])),
    ...claimSpecErrors(spec, [...path, 'spec']),
  ];
}

/** In the order of the API's own type, which it walks through; the name of `uid` is a slip of that walk. */
const unusedMetadata: readonly (keyof ObjectMeta)[] = [
  'name',
  'generateName',
  'namespace',
  'selfLink',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'ownerReferences',
  'finalizers',
  'managedFields',
];

function templateMetadataErrors(metadata: ObjectMeta, path: FieldPath): FieldError[] {
  return [
    ...validateAnnotations(metadata.annotations ?? {}, [...path, 'annotations']),
    ...validateLabels(metadata.labels ?? {}, [...path, 'labels']),
    ...unusedMetadata
      .filter((field) => ![undefined, '', 0].includes(metadata[field] as undefined))
      .flatMap((field) => {
        const printed = field === 'uid' ? 'uID' : field;
        return placedAt([...path, field], [forbiddenField([...path, printed], 'cannot be set')]);
      }),
  ];
}

export function claimSpecErrors(spec: ClaimSpec, path: FieldPath): FieldError[] {
  const { accessModes: modes = [], storageClassName = '', volumeMode, volumeAttributesClassName = '' } = spec;
  return [
    ...(modes.length === 0 ? [requiredField([...path, 'accessModes'], 'at least 1 access mode is required')] : []),
    ...validateLabelSelector(spec.selector, [...path, 'selector']),
    ...accessModeErrors(modes, [...path, 'accessModes']),
    ...storageErrors(spec, path),
    ...classNameErrors(storageClassName, [...path, 'storageClassName']),
    ...volumeModeErrors(volumeMode, [...path, 'volumeMode']),
    ...dataSourceErrors(spec.dataSource, [...path, 'dataSource']),
    ...dataSourceErrors(spec.dataSourceRef, [...path, 'dataSourceRef']),
    ...bothDataSourcesErrors(spec, path),
    ...classNameErrors(volumeAttributesClassName, [...path, 'volumeAttributesClassName']),
  ];
}

export function accessModeErrors(modes: readonly string[], path: FieldPath): FieldError[] {
  const errors = modes
    .filter((mode) => !accessModes.includes(mode))
    .map((mode) => unsupportedField(path, mode, accessModes));
  const known = new Set(modes.filter((mode) => accessModes.includes(mode)));
  if (known.has('ReadWriteOncePod') && known.size > 1) {
    errors.push(forbiddenField(path, 'may not use ReadWriteOncePod with other access modes'));
  }
  return errors;
}

export function volumeModeErrors(mode: string | undefined, path: FieldPath): FieldError[] {
  return mode === undefined || volumeModes.includes(mode) ? [] : [unsupportedField(path, mode, volumeModes)];
}

export function classNameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [] : invalidFields(path, name, dnsSubdomainProblems(name));
}

function storageErrors({ resources }: ClaimSpec, path: FieldPath): FieldError[] {
  const { storage, ...others } = resources?.requests ?? {};
  // The API server leaves `requests` out of the field's name.
  const printed = [...path, 'resources', keyPart('storage')];
  const errors = storage === undefined ? [requiredField(printed)] : positiveQuantityErrors(storage, printed);
  return [
    ...placedAt([...path, 'resources', 'requests', keyPart('storage')], errors),
    ...syntaxErrors(others, [...path, 'resources', 'requests']),
    ...syntaxErrors(resources?.limits ?? {}, [...path, 'resources', 'limits']),
  ];
}

/** Amounts that nobody will compare must still be amounts. */
function syntaxErrors(list: ResourceList, path: FieldPath): FieldError[] {
  return Object.entries(list).flatMap(([name, value]) => quantityErrors(value, [...path, keyPart(name)]));
}

type DataSource = NonNullable<ClaimSpec['dataSourceRef']>;

function dataSourceErrors(source: DataSource | undefined, path: FieldPath): FieldError[] {
  if (source === undefined) return [];
  const { apiGroup = '', kind, name, namespace = '' } = source;
  const errors: FieldError[] = [];
  if (name === '') errors.push(requiredField([...path, 'name']));
  if (kind === '') errors.push(requiredField([...path, 'kind']));
  if (apiGroup === '' && kind !== 'PersistentVolumeClaim') {
    const detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
    errors.push(invalidField(path, kind, detail));
  }
  if (apiGroup !== '') errors.push(...invalidFields([...path, 'apiGroup'], apiGroup, dnsSubdomainProblems(apiGroup)));
  if (namespace === '') return errors;
  return [...errors, ...invalidFields([...path, 'namespace'], namespace, dnsLabelProblems(namespace))];
}

/** The value in the message is the API server's own path object, which has nothing to show. */
function bothDataSourcesErrors({ dataSource, dataSourceRef }: ClaimSpec, path: FieldPath): FieldError[] {
  if (dataSource === undefined || dataSourceRef === undefined) return [];
  const refuse = (detail: string): FieldError[] => placedAt([...path, 'dataSource'], [invalidField(path, {}, detail)]);
  if ((dataSourceRef.namespace ?? '') !== '') {
    return refuse('may not be specified when dataSourceRef.namespace is specified');
  }
  const same = (['apiGroup', 'kind', 'name'] as const).every((field) => dataSource[field] === dataSourceRef[field]);
  return same ? [] : refuse('must match dataSourceRef');
}
