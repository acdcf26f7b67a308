/** What a CSI driver needs of a node: pod facts at mount, tokens, fsGroup handling. */
import { means } from '../../schema/equality.ts';
import {
  type FieldError,
  duplicateField,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  any,
  boolean,
  described,
  integer,
  list,
  object,
  replacedByPatch,
  required,
  setOf,
  string,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import { csiDriverErrors } from './volume-sources.ts';

export const csiDriverShape = described(
  { text: 'A CSI driver and what it needs.', fields: { spec: 'What it needs.' } },
  object({
    ...objectFields,
    spec: required(
      object({
        attachRequired: boolean,
        podInfoOnMount: boolean,
        volumeLifecycleModes: replacedByPatch(setOf(string)),
        storageCapacity: boolean,
        fsGroupPolicy: string,
        tokenRequests: list(object({ audience: required(string), expirationSeconds: integer })),
        requiresRepublish: boolean,
        seLinuxMount: boolean,
        nodeAllocatableUpdatePeriodSeconds: integer,
        serviceAccountTokenInSecrets: boolean,
        preventPodSchedulingIfMissing: boolean,
      }),
    ),
  }),
);
export interface CsiDriver extends Of<typeof csiDriverShape> {}

export const csiDriverKind = resourceKind<CsiDriver>({
  group: 'storage.k8s.io',
  kind: 'CSIDriver',
  plural: 'csidrivers',
  namespaced: false,
  shape: csiDriverShape,
  complete: defaultCsiDriver,
  validate: validateCsiDriver,
  validateUpdate: validateCsiDriverUpdate,
  wire: {
    CSIDriver: '1 metadata ObjectMeta, 2 spec CSIDriverSpec',
    CSIDriverSpec: `
    1 attachRequired? bool, 2 podInfoOnMount? bool, 3 volumeLifecycleModes [string], 4 storageCapacity? bool,
    5 fsGroupPolicy?, 6 tokenRequests [storage.TokenRequest], 7 requiresRepublish? bool, 8 seLinuxMount? bool,
    9 nodeAllocatableUpdatePeriodSeconds? int, 10 serviceAccountTokenInSecrets? bool,
    11 preventPodSchedulingIfMissing? bool`,
    'storage.TokenRequest': '1 audience!, 2 expirationSeconds? int',
  },
});

function defaultCsiDriver(driver: CsiDriver): CsiDriver {
  const { spec } = driver;
  const modes = spec.volumeLifecycleModes ?? [];
  return {
    ...driver,
    spec: {
      ...spec,
      attachRequired: spec.attachRequired ?? true,
      podInfoOnMount: spec.podInfoOnMount ?? false,
      storageCapacity: spec.storageCapacity ?? false,
      fsGroupPolicy: spec.fsGroupPolicy ?? 'ReadWriteOnceWithFSType',
      volumeLifecycleModes: modes.length === 0 ? ['Persistent'] : modes,
      requiresRepublish: spec.requiresRepublish ?? false,
    },
  };
}

/** The CSI drivers of one node. A kubelet ends itself when it cannot write this object. */
export const csiNodeShape = described(
  { text: 'The CSI drivers of a node.', fields: { spec: 'The drivers.', status: 'How their storage is.' } },
  object({
    ...objectFields,
    spec: required(
      object({
        drivers: required(
          list(
            object({
              name: required(string),
              nodeID: required(string),
              topologyKeys: list(string),
              allocatable: object({ count: integer }),
            }),
            'name',
          ),
        ),
      }),
    ),
    status: object({ storageHealth: list(any, 'name') }),
  }),
);
export interface CsiNode extends Of<typeof csiNodeShape> {}

export const csiNodeKind = resourceKind<CsiNode>({
  group: 'storage.k8s.io',
  kind: 'CSINode',
  plural: 'csinodes',
  namespaced: false,
  shape: csiNodeShape,
  validate: validateCsiNode,
  validateUpdate: validateCsiNodeUpdate,
  wire: {
    CSINode: '1 metadata ObjectMeta, 2 spec CSINodeSpec, 3 status CSINodeStatus',
    CSINodeSpec: '1 drivers [CSINodeDriver]',
    CSINodeDriver: '1 name!, 2 nodeID!, 3 topologyKeys [string], 4 allocatable? VolumeNodeResources',
    VolumeNodeResources: '1 count? int',
    CSINodeStatus: '1 storageHealth [StorageHealth]',
    StorageHealth: '1 name!, 2 healthConditions [StorageHealthCondition]',
    StorageHealthCondition: '1 status!, 2 reason!, 3 message, 4 accessMode?, 5 volumeMode?, 6 lastTransitionTime Time',
  },
});
type CsiNodeDriver = CsiNode['spec']['drivers'][number];

/** Rules for CSINodes and CSIDrivers. What a driver's fields may say is left to the driver, but for their named values. */
const nodeIdBytesMax = 256;
const fsGroupPolicies = ['File', 'None', 'ReadWriteOnceWithFSType'];
const lifecycleModes = ['Ephemeral', 'Persistent'];

function validateCsiNode({ metadata, spec }: CsiNode): FieldError[] {
  const seen = new Set<string>();
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...spec.drivers.flatMap((driver, index) => nodeDriverErrors(driver, seen, ['spec', 'drivers', index])),
  ];
}

/** A driver's identity on the node does not change; how many volumes it can take does. */
function validateCsiNodeUpdate(changed: CsiNode, old: CsiNode): FieldError[] {
  const shape = csiNodeShape.fields?.['spec']?.fields?.['drivers']?.item;
  const identity = (driver: CsiNodeDriver): object => {
    const { allocatable: _, ...rest } = driver;
    return rest;
  };
  const before = new Map(old.spec.drivers.map((driver) => [driver.name, driver]));
  return [
    ...validateCsiNode(changed),
    ...changed.spec.drivers.flatMap((driver) => {
      const known = before.get(driver.name);
      if (known === undefined || shape === undefined || means(shape, identity(driver), identity(known))) return [];
      return [invalidField(['spec', 'drivers'], identity(driver), 'field is immutable')];
    }),
  ];
}

function nodeDriverErrors(driver: CsiNodeDriver, seen: Set<string>, path: FieldPath): FieldError[] {
  const { name, nodeID, topologyKeys = [], allocatable } = driver;
  const errors = csiDriverErrors(name, [...path, 'name']);
  if (nodeID === '') errors.push(requiredField([...path, 'nodeID']));
  if (Buffer.byteLength(nodeID) > nodeIdBytesMax) {
    errors.push(invalidField([...path, 'nodeID'], nodeID, `must be ${nodeIdBytesMax} characters or less`));
  }
  errors.push(...nonNegativeErrors(allocatable?.count ?? 0, [...path, 'allocatable', 'count']));
  if (seen.has(name)) errors.push(duplicateField([...path, 'name'], name));
  seen.add(name);
  const keys = new Set<string>();
  for (const key of topologyKeys) {
    if (key === '') errors.push(requiredField(path));
    if (keys.has(key)) errors.push(duplicateField(path, key));
    keys.add(key);
    errors.push(...invalidFields(path, key, qualifiedNameProblems(key)));
  }
  return errors;
}

function validateCsiDriver({ metadata, spec }: CsiDriver): FieldError[] {
  return [...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }), ...driverErrors(spec)];
}

function validateCsiDriverUpdate({ metadata, spec }: CsiDriver, old: CsiDriver): FieldError[] {
  const errors = [...validateObjectMetaUpdate(metadata, old.metadata), ...driverErrors(spec)];
  if (spec.attachRequired !== old.spec.attachRequired) {
    // The API server's own spelling of the field.
    errors.push(invalidField(['spec', 'attachedRequired'], spec.attachRequired ?? null, 'field is immutable'));
  }
  if (!means(list(string), spec.volumeLifecycleModes, old.spec.volumeLifecycleModes)) {
    errors.push(invalidField(['spec', 'volumeLifecycleModes'], spec.volumeLifecycleModes, 'field is immutable'));
  }
  return errors;
}

function driverErrors(spec: CsiDriver['spec']): FieldError[] {
  const { attachRequired, podInfoOnMount, fsGroupPolicy, volumeLifecycleModes = [] } = spec;
  const errors: FieldError[] = [];
  if (attachRequired === undefined) errors.push(requiredField(['spec', 'attachedRequired']));
  if (podInfoOnMount === undefined) errors.push(requiredField(['spec', 'podInfoOnMount']));
  if (fsGroupPolicy !== undefined && !fsGroupPolicies.includes(fsGroupPolicy)) {
    errors.push(unsupportedField(['spec', 'fsGroupPolicy'], fsGroupPolicy, fsGroupPolicies));
  }
  for (const mode of volumeLifecycleModes) {
    if (!lifecycleModes.includes(mode)) {
      errors.push(unsupportedField(['spec', 'volumeLifecycleModes'], mode, lifecycleModes));
    }
  }
  return errors;
}
