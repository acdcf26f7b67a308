/** A class of storage: who provisions volumes of it, and how. */
import { means } from '../../schema/equality.ts';
import {
  type FieldError,
  duplicateField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type Of, boolean, described, list, map, object, required, string } from '../../schema/schema.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';

const storageClassShape = described(
  {
    text: 'A class of storage: who makes volumes of it, and how.',
    fields: {
      provisioner: 'Who makes the volumes.',
      parameters: 'What the provisioner needs to know.',
      reclaimPolicy: 'What happens to a volume when its claim is gone; Delete if absent.',
      mountOptions: 'Options of the mounts.',
      allowVolumeExpansion: 'Whether volumes may grow.',
      volumeBindingMode: 'When a volume is chosen: Immediate or WaitForFirstConsumer.',
      allowedTopologies: 'Where volumes may be.',
    },
  },
  object({
    ...objectFields,
    provisioner: required(string),
    parameters: map(string),
    reclaimPolicy: string,
    mountOptions: list(string),
    allowVolumeExpansion: boolean,
    volumeBindingMode: string,
    allowedTopologies: list(
      object({ matchLabelExpressions: list(object({ key: required(string), values: required(list(string)) })) }),
    ),
  }),
);
export interface StorageClass extends Of<typeof storageClassShape> {}

export const storageClassKind = resourceKind<StorageClass>({
  group: 'storage.k8s.io',
  kind: 'StorageClass',
  plural: 'storageclasses',
  shortNames: ['sc'],
  namespaced: false,
  shape: storageClassShape,
  complete: defaultStorageClass,
  validate: validateStorageClass,
  validateUpdate: validateStorageClassUpdate,
  wire: {
    StorageClass: `
    1 metadata ObjectMeta, 2 provisioner!, 3 parameters {string}, 4 reclaimPolicy?, 5 mountOptions [string],
    6 allowVolumeExpansion? bool, 7 volumeBindingMode?, 8 allowedTopologies [TopologySelectorTerm]`,
    TopologySelectorTerm: '1 matchLabelExpressions [TopologySelectorLabelRequirement]',
    TopologySelectorLabelRequirement: '1 key!, 2 values [string]',
  },
});

function defaultStorageClass(given: StorageClass): StorageClass {
  return {
    ...given,
    reclaimPolicy: given.reclaimPolicy ?? 'Delete',
    volumeBindingMode: given.volumeBindingMode ?? 'Immediate',
  };
}

/** Rules for storage classes, on creation and on update. */
const parametersMax = 512;
const parametersBytesMax = 256 * 1024;
const reclaimPolicies = ['Delete', 'Retain'];
const bindingModes = ['Immediate', 'WaitForFirstConsumer'];

function validateStorageClass(storageClass: StorageClass): FieldError[] {
  const { metadata, provisioner, reclaimPolicy = '', volumeBindingMode } = storageClass;
  const errors = validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' });
  if (provisioner === '') errors.push(requiredField(['provisioner']));
  else {
    const lowered = provisioner.toLowerCase();
    errors.push(...invalidFields(['provisioner'], lowered, qualifiedNameProblems(lowered)));
  }
  errors.push(...parameterErrors(storageClass.parameters ?? {}));
  if (reclaimPolicy !== '' && !reclaimPolicies.includes(reclaimPolicy)) {
    errors.push(unsupportedField(['reclaimPolicy'], reclaimPolicy, reclaimPolicies));
  }
  if (volumeBindingMode === undefined) errors.push(requiredField(['volumeBindingMode']));
  else if (!bindingModes.includes(volumeBindingMode)) {
    errors.push(unsupportedField(['volumeBindingMode'], volumeBindingMode, bindingModes));
  }
  return [...errors, ...topologyErrors(storageClass.allowedTopologies ?? [])];
}

function validateStorageClassUpdate(storageClass: StorageClass, old: StorageClass): FieldError[] {
  const { parameters } = storageClass;
  return [
    ...validateStorageClass(storageClass),
    ...validateObjectMetaUpdate(storageClass.metadata, old.metadata),
    ...(means(map(string), parameters, old.parameters)
      ? []
      : [invalidField(['parameters'], parameters ?? null, 'field is immutable')]),
    ...immutableErrors(storageClass.provisioner, old.provisioner, ['provisioner']),
    ...immutableErrors(storageClass.reclaimPolicy ?? null, old.reclaimPolicy ?? null, ['reclaimPolicy']),
    ...immutableErrors(storageClass.volumeBindingMode ?? null, old.volumeBindingMode ?? null, ['volumeBindingMode']),
  ];
}

/** A term says something of each label once, and no two terms say the same. */
function topologyErrors(terms: NonNullable<StorageClass['allowedTopologies']>): FieldError[] {
  const seen = new Set<string>();
  return terms.flatMap(({ matchLabelExpressions = [] }, index) => {
    const path = ['allowedTopologies', index, 'matchLabelExpressions'];
    const keys = matchLabelExpressions.map(({ key }) => key);
    const errors = matchLabelExpressions.flatMap(({ key, values }, at) => [
      ...(values.length === 0 ? [requiredField([...path, at, 'values'])] : []),
      ...values.flatMap((value, nth) =>
        values.indexOf(value) < nth ? [duplicateField([...path, at, 'values', nth], value)] : [],
      ),
      ...invalidFields([...path, at, 'key'], key, qualifiedNameProblems(key)),
      ...(keys.indexOf(key) < at ? [duplicateField([...path, at, 'key'], key)] : []),
    ]);
    const meaning = JSON.stringify(matchLabelExpressions.map(({ key, values }) => [key, [...values].sort()]).sort());
    if (seen.has(meaning)) errors.push(duplicateField(path, ''));
    seen.add(meaning);
    return errors;
  });
}

function parameterErrors(parameters: Readonly<Record<string, string>>): FieldError[] {
  const entries = Object.entries(parameters);
  if (entries.length > parametersMax) return [tooLongField(['parameters'], parametersMax)];
  const sizeBytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  return [
    ...(Object.hasOwn(parameters, '') ? [invalidField(['parameters'], '', 'field can not be empty.')] : []),
    ...(sizeBytes > parametersBytesMax ? [tooLongField(['parameters'], parametersBytesMax)] : []),
  ];
}
