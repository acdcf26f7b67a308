/** Rules for PersistentVolumeClaims, and for the templates of claims that pods carry. */
import { changeList, means } from '../../schema/equality.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { type ObjectMeta, labelSelector, objectFields, objectMeta } from '../../schema/meta.ts';
import {
  immutableErrors,
  validateAnnotations,
  validateLabelSelector,
  validateLabels,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../../schema/metadata-validation.ts';
import { positiveQuantityErrors } from '../../schema/number-validation.ts';
import {
  type FieldPath,
  type Of,
  any,
  atomic,
  described,
  list,
  map,
  object,
  required,
  resourceList,
  string,
  time,
  keyPart,
} from '../../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import {
  Quantity,
  type ResourceList,
  isNativeResource,
  readQuantity,
  roundUpResources,
} from '../../values/quantity.ts';

const claimSpec = described(
  {
    name: 'io.k8s.api.core.v1.PersistentVolumeClaimSpec',
    text: 'What storage is requested.',
    fields: {
      accessModes: 'ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.',
      selector: 'The labels of volumes that will do.',
      resources: 'How much is requested.',
      volumeName: 'The volume it has.',
      storageClassName: 'The class that is requested.',
      volumeMode: 'Filesystem or Block.',
      dataSource: 'What the volume is filled with.',
      dataSourceRef: 'What the volume is filled with, of any kind.',
      volumeAttributesClassName: 'The class of changeable attributes that is requested.',
    },
  },
  object({
    accessModes: list(string),
    selector: labelSelector,
    resources: object({ limits: resourceList, requests: resourceList }),
    volumeName: string,
    storageClassName: string,
    volumeMode: string,
    dataSource: atomic(object({ apiGroup: string, kind: required(string), name: required(string) })),
    dataSourceRef: object({ apiGroup: string, kind: required(string), name: required(string), namespace: string }),
    volumeAttributesClassName: string,
  }),
);
interface ClaimSpec extends Of<typeof claimSpec> {}

export const claimTemplate = described(
  {
    name: 'io.k8s.api.core.v1.PersistentVolumeClaimTemplate',
    text: 'The claim that is made for a pod.',
    fields: { metadata: 'Labels and annotations of the claim.', spec: 'What is requested.' },
  },
  object({ metadata: objectMeta, spec: required(claimSpec) }),
);
interface ClaimTemplate extends Of<typeof claimTemplate> {}

export const persistentVolumeClaimShape = described(
  {
    text: 'A request for storage, and the storage it got.',
    fields: { spec: 'What is requested.', status: 'What it got.' },
  },
  object({
    ...objectFields,
    spec: required(claimSpec),
    status: object({
      phase: string,
      accessModes: list(string),
      capacity: resourceList,
      conditions: list(
        object({
          type: required(string),
          status: required(string),
          lastProbeTime: time,
          lastTransitionTime: time,
          reason: string,
          message: string,
        }),
        'type',
      ),
      allocatedResources: resourceList,
      allocatedResourceStatuses: map(string),
      currentVolumeAttributesClassName: string,
      modifyVolumeStatus: object({ targetVolumeAttributesClassName: string, status: required(string) }),
      healthStatus: any,
    }),
  }),
);
export interface PersistentVolumeClaim extends Of<typeof persistentVolumeClaimShape> {}

export const claimKind = resourceKind<PersistentVolumeClaim>({
  kind: 'PersistentVolumeClaim',
  plural: 'persistentvolumeclaims',
  shortNames: ['pvc'],
  namespaced: true,
  shape: persistentVolumeClaimShape,
  complete: defaultPersistentVolumeClaim,
  validate: validatePersistentVolumeClaim,
  validateUpdate: validatePersistentVolumeClaimUpdate,
  wire: {
    PersistentVolumeClaim: `
    1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec, 3 status PersistentVolumeClaimStatus`,
    PersistentVolumeClaimSpec: `
    1 accessModes [string], 4 selector? LabelSelector, 2 resources VolumeResourceRequirements, 3 volumeName,
    5 storageClassName?, 6 volumeMode?, 7 dataSource? TypedLocalObjectReference,
    8 dataSourceRef? TypedObjectReference, 9 volumeAttributesClassName?`,
    VolumeResourceRequirements: '1 limits {Quantity}, 2 requests {Quantity}',
    PersistentVolumeClaimStatus: `
    1 phase, 2 accessModes [string], 3 capacity {Quantity}, 4 conditions [PersistentVolumeClaimCondition],
    5 allocatedResources {Quantity}, 7 allocatedResourceStatuses {string}, 8 currentVolumeAttributesClassName?,
    9 modifyVolumeStatus? ModifyVolumeStatus, 10 healthStatus? VolumeHealthStatus`,
    PersistentVolumeClaimCondition: `
    1 type!, 2 status!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason, 6 message`,
    ModifyVolumeStatus: '1 targetVolumeAttributesClassName, 2 status!',
    VolumeHealthStatus: '1 healthConditions [VolumeHealthCondition], 2 lastTransitionTime Time',
    VolumeHealthCondition: '1 status!, 2 reason!, 3 message',
    PersistentVolumeClaimTemplate: '1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec',
  },
});

const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];
const volumeModes = ['Block', 'Filesystem'];
/** Group and kind. */
const oldDataSources = new Set(['/PersistentVolumeClaim', 'snapshot.storage.k8s.io/VolumeSnapshot']);

function validatePersistentVolumeClaim(claim: PersistentVolumeClaim): FieldError[] {
  return [
    ...validateObjectMeta(claim.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }, ['metadata']),
    ...claimSpecErrors(claim.spec, ['spec']),
  ];
}

const classAnnotation = 'volume.beta.kubernetes.io/storage-class';

/** A claim is for what it asked for; a bound one may grow and change its attributes' class. */
function validatePersistentVolumeClaimUpdate(
  claim: PersistentVolumeClaim,
  stored: PersistentVolumeClaim,
): FieldError[] {
  const old = { ...stored, spec: withDataSources(stored.spec) };
  const errors = [...validateObjectMetaUpdate(claim.metadata, old.metadata), ...validatePersistentVolumeClaim(claim)];
  const annotation = claim.metadata.annotations?.[classAnnotation];
  const before = old.metadata.annotations?.[classAnnotation];
  const { storageClassName } = claim.spec;
  // The older annotation may become the field, with the same name.
  const isSameClass = before !== undefined && old.spec.storageClassName === undefined && storageClassName === before;
  if (!isSameClass || (annotation ?? before) !== before) {
    errors.push(...immutableErrors(annotation ?? '', before ?? '', ['metadata', 'annotations', classAnnotation]));
  }
  const shape = persistentVolumeClaimShape.fields?.['spec'];
  const mayNameClass = old.spec.storageClassName === undefined && (before === undefined || isSameClass);
  const rest = withChangeableFieldsOf(old.spec, claim, mayNameClass);
  const classIsGone = old.spec.storageClassName === '' && claim.spec.storageClassName === undefined;
  if (shape !== undefined && (classIsGone || !means<unknown>(shape, rest, old.spec))) {
    const detail =
      'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims';
    errors.push(forbiddenField(['spec'], `${detail}\n${changeList<unknown>(shape, old.spec, rest)}`));
  }
  errors.push(...shrinkErrors(claim, old));
  const mode = claim.spec.volumeMode ?? null;
  errors.push(...placedAt(['spec', 'volumeMode'], immutableErrors(mode, old.spec.volumeMode ?? null, ['volumeMode'])));
  const { volumeAttributesClassName: attributes } = claim.spec;
  // Attributes that were applied once can be changed, not taken back.
  const isApplied = old.status?.currentVolumeAttributesClassName !== undefined;
  if (isApplied && attributes !== old.spec.volumeAttributesClassName && (attributes ?? '') === '') {
    const what = attributes === undefined ? 'nil' : 'empty string';
    const detail = `update to ${what} is forbidden when status.currentVolumeAttributesClassName is not nil`;
    errors.push(forbiddenField(['spec', 'volumeAttributesClassName'], detail));
  }
  return errors;
}

/** The new spec with everything put back that may change: what then differs from the old one may not. */
function withChangeableFieldsOf(
  old: ClaimSpec,
  { spec, status }: PersistentVolumeClaim,
  mayNameClass: boolean,
): ClaimSpec {
  const isBound = status?.phase === 'Bound';
  const storage = old.resources?.requests?.['storage'];
  const { volumeName: _, volumeAttributesClassName, storageClassName, ...rest } = spec;
  const attributesClass = isBound ? old.volumeAttributesClassName : volumeAttributesClassName;
  const volumeName = (old.volumeName ?? '') === '' ? old.volumeName : spec.volumeName;
  // A class may be named later, once.
  const className = mayNameClass ? undefined : storageClassName;
  return {
    ...rest,
    ...(volumeName !== undefined && { volumeName }),
    ...(className !== undefined && { storageClassName: className }),
    ...(attributesClass !== undefined && { volumeAttributesClassName: attributesClass }),
    ...(isBound &&
      storage !== undefined && {
        resources: { ...spec.resources, requests: { ...spec.resources?.requests, storage } },
      }),
  };
}

/** Less than was asked for before is fine while the volume has not grown to that. */
function shrinkErrors({ spec }: PersistentVolumeClaim, old: PersistentVolumeClaim): FieldError[] {
  const asked = readQuantity(spec.resources?.requests?.['storage']);
  const before = readQuantity(old.spec.resources?.requests?.['storage']);
  const has = readQuantity(old.status?.capacity?.['storage'] ?? '0');
  if (asked === undefined || before === undefined || has === undefined) return [];
  if (asked.compare(before) >= 0 || asked.compare(has) > 0) return [];
  const path = ['spec', 'resources', 'requests', 'storage'];
  return [forbiddenField(path, 'field can not be less than status.capacity')];
}

const resizeStatuses = [
  'ControllerResizeInProgress',
  'ControllerResizeInfeasible',
  'NodeResizeInProgress',
  'NodeResizeInfeasible',
  'NodeResizePending',
];

export function validateClaimStatusUpdate(
  { metadata, status }: PersistentVolumeClaim,
  old: PersistentVolumeClaim,
): FieldError[] {
  const { capacity = {}, allocatedResources = {}, allocatedResourceStatuses = {} } = status ?? {};
  const errors = [...validateObjectMetaUpdate(metadata, old.metadata), ...amountErrors(capacity, 'capacity')];
  const path = ['status', 'allocatedResourceStatuses'];
  for (const [name, value] of Object.entries(allocatedResourceStatuses)) {
    errors.push(...resourceNameErrors(name, path));
    // The API server names the key, not the value.
    if (!resizeStatuses.includes(value)) errors.push(unsupportedField(path, name, resizeStatuses));
  }
  const named = Object.entries(allocatedResources).filter(([name]) => {
    const found = resourceNameErrors(name, ['status', 'allocatedResources']);
    errors.push(...found);
    return found.length === 0;
  });
  return [...errors, ...amountErrors(Object.fromEntries(named), 'allocatedResources')];
}

function resourceNameErrors(name: string, path: FieldPath): FieldError[] {
  const problems = qualifiedNameProblems(name);
  if (problems.length > 0) return invalidFields(path, name, problems);
  return isNativeResource(name) && name !== 'storage' ? [unsupportedField(path, name, ['storage'])] : [];
}

function amountErrors(amounts: ResourceList, field: string): FieldError[] {
  return Object.entries(amounts).flatMap(([name, amount]) => {
    const path = ['status', field, keyPart(name)];
    const bytes = Quantity.parse(amount).value();
    return bytes < 0n ? [invalidField(path, Number(bytes), 'must be a valid resource quantity')] : [];
  });
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
  const storage = resources?.requests?.['storage'];
  // The API server leaves `requests` out of the field's name.
  const printed = [...path, 'resources', keyPart('storage')];
  const errors = storage === undefined ? [requiredField(printed)] : positiveQuantityErrors(storage, printed);
  return placedAt([...path, 'resources', 'requests', keyPart('storage')], errors);
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

function defaultPersistentVolumeClaim(claim: PersistentVolumeClaim): PersistentVolumeClaim {
  const { capacity, allocatedResources } = claim.status ?? {};
  return {
    ...claim,
    spec: withDataSources(defaultClaimSpec(claim.spec)),
    status: {
      ...claim.status,
      phase: claim.status?.phase || 'Pending',
      ...(capacity && { capacity: roundUpResources(capacity) }),
      ...(allocatedResources && { allocatedResources: roundUpResources(allocatedResources) }),
    },
  };
}

/**
 * Who fills volumes reads one of the two fields, so each has what the other one says. The older one alone names claims and snapshots
 * only: anything else in it was never looked at, and such a claim gets an empty volume.
 */
function withDataSources(spec: ClaimSpec): ClaimSpec {
  const { dataSource, dataSourceRef, ...others } = spec;
  if (dataSourceRef === undefined) {
    if (dataSource === undefined) return spec;
    const named = `${dataSource.apiGroup ?? ''}/${dataSource.kind}`;
    return oldDataSources.has(named) ? { ...spec, dataSourceRef: dataSource } : others;
  }
  const { namespace = '', ...local } = dataSourceRef;
  return dataSource === undefined && namespace === '' ? { ...spec, dataSource: local } : spec;
}

export function defaultClaimSpec(spec: ClaimSpec): ClaimSpec {
  const { limits, requests } = spec.resources ?? {};
  const resources = {
    ...spec.resources,
    ...(limits && { limits: roundUpResources(limits) }),
    ...(requests && { requests: roundUpResources(requests) }),
  };
  return { ...spec, volumeMode: spec.volumeMode ?? 'Filesystem', ...(spec.resources && { resources }) };
}
