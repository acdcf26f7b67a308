/** Rules for CSINodes and CSIDrivers. What a driver's fields may say is left to the driver, but for their named values. */
import type { CsiDriver } from '../objects/csi-driver.ts';
import { csiNode as csiNodeShape } from '../objects/csi-node.ts';
import type { CsiNode, CsiNodeDriver } from '../objects/csi-node.ts';
import { duplicateField, invalidField, invalidFields, requiredField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';
import { list, string } from '../objects/schema.ts';
import { means } from '../values/semantic-equality.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';
import { csiDriverErrors } from './validate-volume-sources.ts';

const nodeIdBytesMax = 256;
const fsGroupPolicies = ['File', 'None', 'ReadWriteOnceWithFSType'];
const lifecycleModes = ['Ephemeral', 'Persistent'];

export function validateCsiNode({ metadata, spec }: CsiNode): FieldError[] {
  const seen = new Set<string>();
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...spec.drivers.flatMap((driver, index) => nodeDriverErrors(driver, seen, ['spec', 'drivers', index])),
  ];
}

/** A driver's identity on the node does not change; how many volumes it can take does. */
export function validateCsiNodeUpdate(csiNode: CsiNode, old: CsiNode): FieldError[] {
  const shape = csiNodeShape.fields?.['spec']?.fields?.['drivers']?.item;
  const identity = (driver: CsiNodeDriver): object => {
    const { allocatable: _, ...rest } = driver;
    return rest;
  };
  const before = new Map(old.spec.drivers.map((driver) => [driver.name, driver]));
  return [
    ...validateCsiNode(csiNode),
    ...csiNode.spec.drivers.flatMap((driver) => {
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

export function validateCsiDriver({ metadata, spec }: CsiDriver): FieldError[] {
  return [...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }), ...driverErrors(spec)];
}

export function validateCsiDriverUpdate({ metadata, spec }: CsiDriver, old: CsiDriver): FieldError[] {
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
