/** The machine pods run on, as the cluster sees it. */
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  placedBelow,
  requiredField,
  unsupportedField,
} from '../schema/field-errors.ts';
import { objectFields } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { resourceQuantityErrors } from '../schema/number-validation.ts';
import {
  resourceList,
  type FieldPath,
  type Of,
  any,
  boolean,
  integer,
  list,
  object,
  required,
  setOf,
  string,
  described,
} from '../schema/schema.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../values/names.ts';
import { roundUpResources } from '../values/resource-list.ts';
import { taintEffects } from './pod/scheduling-validation.ts';

export const nodeShape = described(
  {
    text: 'A machine that runs pods.',
    fields: { spec: 'What others decide about the node.', status: 'What the node says of itself.' },
  },
  object({
    ...objectFields,
    spec: described(
      {
        name: 'io.k8s.api.core.v1.NodeSpec',
        text: 'What others decide about a node.',
        fields: {
          podCIDR: 'The addresses its pods get.',
          podCIDRs: 'The addresses its pods get, of each family.',
          providerID: 'What the provider of the machine calls it.',
          unschedulable: 'Whether new pods stay away.',
          taints: 'What keeps pods away that do not tolerate it.',
          externalID: 'No longer used.',
          configSource: 'No longer used.',
        },
      },
      object({
        podCIDR: string,
        podCIDRs: setOf(string),
        providerID: string,
        unschedulable: boolean,
        taints: list(object({ key: required(string), value: string, effect: required(string), timeAdded: string })),
        configSource: any,
        externalID: string,
        podPreemptionPolicy: any,
      }),
    ),
    status: described(
      {
        name: 'io.k8s.api.core.v1.NodeStatus',
        text: 'What a node says of itself.',
        fields: {
          capacity: 'What the machine has.',
          allocatable: 'What of it is for pods.',
          phase: 'No longer used.',
          conditions: 'How the node is: Ready, MemoryPressure, DiskPressure, PIDPressure.',
          addresses: 'Where the node is reached.',
          daemonEndpoints: 'The ports of its agents.',
          nodeInfo: 'Its system, kernel and versions.',
          images: 'The images it has.',
          volumesInUse: 'The attachable volumes it uses.',
          volumesAttached: 'The volumes attached to it.',
          runtimeHandlers: 'The ways it can run containers.',
          features: 'What its runtime can do.',
          declaredFeatures: 'What the node says it can do.',
        },
      },
      object({
        capacity: resourceList,
        allocatable: resourceList,
        phase: string,
        conditions: list(
          object({
            type: required(string),
            status: required(string),
            lastHeartbeatTime: string,
            lastTransitionTime: string,
            reason: string,
            message: string,
          }),
          'type',
        ),
        addresses: list(object({ type: required(string), address: required(string) }), 'type'),
        daemonEndpoints: object({ kubeletEndpoint: object({ Port: required(integer) }) }),
        nodeInfo: object({
          machineID: required(string),
          systemUUID: required(string),
          bootID: required(string),
          kernelVersion: required(string),
          osImage: required(string),
          containerRuntimeVersion: required(string),
          kubeletVersion: required(string),
          kubeProxyVersion: required(string),
          operatingSystem: required(string),
          architecture: required(string),
          swap: object({ capacity: integer }),
          runningInUserNamespace: boolean,
        }),
        images: list(object({ names: list(string), sizeBytes: integer })),
        volumesInUse: list(string),
        volumesAttached: list(object({ name: required(string), devicePath: required(string) })),
        config: any,
        runtimeHandlers: list(
          object({ name: string, features: object({ recursiveReadOnlyMounts: boolean, userNamespaces: boolean }) }),
        ),
        features: object({ supplementalGroupsPolicy: boolean }),
        declaredFeatures: list(string),
      }),
    ),
  }),
);
export interface Node extends Of<typeof nodeShape> {}

/** Rules for nodes: name, taints, resources. What the node says of itself in its status is otherwise taken as it is. */
type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

export function validateNode(node: Node, path: FieldPath = []): FieldError[] {
  const metadataPath = [...path, 'metadata'];
  // The API server looks for taints in the spec and reports them as metadata.
  const printed = [...metadataPath, 'taints'];
  return [
    ...validateObjectMeta(node.metadata, { name: dnsSubdomainProblems, scope: 'cluster' }, metadataPath),
    ...placedBelow([...path, 'spec', 'taints'], printed, taintErrors(node.spec?.taints ?? [], printed)),
    ...(['capacity', 'allocatable'] as const).flatMap((field) =>
      Object.entries(node.status?.[field] ?? {}).flatMap(([name, value]) =>
        resourceQuantityErrors(name, value, [...path, 'status', field, name]),
      ),
    ),
  ];
}

/** For the node and for its status alike. A spec's fields are set once, but for taints and the mark that keeps pods away. */
export function validateNodeUpdate(node: Node, old: Node): FieldError[] {
  const seen = new Set<string>();
  return [
    ...validateObjectMetaUpdate(node.metadata, old.metadata),
    ...(node.status?.addresses ?? []).flatMap(({ type, address }, index) => {
      const key = `${type} ${address}`;
      const isRepeated = seen.has(key);
      seen.add(key);
      return isRepeated ? [duplicateField(['status', 'addresses', index], { Type: type, Address: address })] : [];
    }),
    ...rangeErrors(node.spec?.podCIDRs ?? [], old.spec?.podCIDRs ?? []),
    ...providerErrors(node.spec?.providerID ?? '', old.spec?.providerID ?? ''),
    ...((node.spec?.externalID ?? '') === (old.spec?.externalID ?? '')
      ? []
      : [forbiddenField(['spec', 'externalID'], 'may not be updated')]),
  ];
}

function rangeErrors(ranges: readonly string[], old: readonly string[]): FieldError[] {
  if (old.length === 0) return [];
  const refusal = forbiddenField(['spec', 'podCIDRs'], 'node updates may not change podCIDR except from "" to valid');
  if (ranges.length !== old.length) return [refusal];
  return old.flatMap((range, index) => (range === ranges[index] ? [] : [refusal]));
}

function providerErrors(id: string, old: string): FieldError[] {
  if (old === '' || id === old) return [];
  const detail = id === '' ? 'field cannot be cleared once set' : 'field cannot be modified once set';
  return [invalidField(['spec', 'providerID'], null, detail)];
}

function taintErrors(taints: readonly Taint[], path: FieldPath): FieldError[] {
  const seen = new Set<string>();
  return taints.flatMap(({ key, value = '', effect }, index) => {
    const here = [...path, index];
    const valueProblems = labelValueProblems(value);
    const errors = invalidFields([...here, 'key'], key, qualifiedNameProblems(key));
    if (valueProblems.length > 0) errors.push(invalidField([...here, 'value'], value, valueProblems.join(';')));
    if (effect === '') errors.push(requiredField([...here, 'effect']));
    else if (!taintEffects.includes(effect)) {
      errors.push(unsupportedField([...here, 'effect'], effect, taintEffects));
    }
    const pair = `${effect} ${key}`;
    if (seen.has(pair)) {
      const inside = { Key: key, Value: value, Effect: effect, TimeAdded: null };
      errors.push(duplicateField(here, inside, 'taints must be unique by key and effect pair'));
    }
    seen.add(pair);
    return errors;
  });
}

export function defaultNode(node: Node): Node {
  const { capacity, allocatable = capacity } = node.status ?? {};
  return {
    ...node,
    ...(node.status && {
      status: {
        ...node.status,
        ...(capacity && { capacity: roundUpResources(capacity) }),
        ...(allocatable && { allocatable: roundUpResources(allocatable) }),
      },
    }),
  };
}
