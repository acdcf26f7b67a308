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
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { resourceQuantityErrors } from '../schema/number-validation.ts';
import {
  type FieldPath,
  type Of,
  any,
  boolean,
  described,
  integer,
  list,
  object,
  required,
  resourceList,
  setOf,
  string,
  time,
} from '../schema/schema.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../values/names.ts';
import { roundUpResources } from '../values/quantity.ts';
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
        taints: list(object({ key: required(string), value: string, effect: required(string), timeAdded: time })),
        configSource: object({
          configMap: object({
            namespace: string,
            name: string,
            uid: string,
            resourceVersion: string,
            kubeletConfigKey: string,
          }),
        }),
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
            lastHeartbeatTime: time,
            lastTransitionTime: time,
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

export const nodeKind = resourceKind<Node>({
  kind: 'Node',
  plural: 'nodes',
  shortNames: ['no'],
  namespaced: false,
  shape: nodeShape,
  complete: defaultNode,
  validate: validateNode,
  validateUpdate: (node, old) => [...validateNode(node), ...validateNodeUpdate(node, old)],
  wire: {
    Node: '1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus',
    NodeSpec: `
    1 podCIDR, 7 podCIDRs [string], 3 providerID, 4 unschedulable bool, 5 taints [Taint],
    6 configSource? NodeConfigSource, 2 externalID, 8 podPreemptionPolicy? NodePodPreemptionPolicy`,
    Taint: '1 key!, 2 value, 3 effect!, 4 timeAdded Time',
    NodeConfigSource: '2 configMap? ConfigMapNodeConfigSource',
    ConfigMapNodeConfigSource: '1 namespace!, 2 name!, 3 uid, 4 resourceVersion, 5 kubeletConfigKey!',
    NodePodPreemptionPolicy: '1 disableResizePreemption [string]',
    NodeStatus: `
    1 capacity {Quantity}, 2 allocatable {Quantity}, 3 phase, 4 conditions [NodeCondition],
    5 addresses [NodeAddress], 6 daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo,
    8 images [ContainerImage], 9 volumesInUse [string], 10 volumesAttached [AttachedVolume],
    11 config? NodeConfigStatus, 12 runtimeHandlers [NodeRuntimeHandler], 13 features? NodeFeatures,
    14 declaredFeatures [string]`,
    NodeCondition: '1 type!, 2 status!, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, 5 reason, 6 message',
    NodeAddress: '1 type!, 2 address!',
    NodeDaemonEndpoints: '1 kubeletEndpoint DaemonEndpoint',
    DaemonEndpoint: '1 Port! int',
    NodeSystemInfo: `
    1 machineID!, 2 systemUUID!, 3 bootID!, 4 kernelVersion!, 5 osImage!, 6 containerRuntimeVersion!,
    7 kubeletVersion!, 8 kubeProxyVersion!, 9 operatingSystem!, 10 architecture!, 11 swap? NodeSwapStatus,
    12 runningInUserNamespace? bool`,
    NodeSwapStatus: '1 capacity? int',
    ContainerImage: '1 names [string], 2 sizeBytes int',
    AttachedVolume: '1 name!, 2 devicePath!',
    NodeConfigStatus: `
    1 assigned? NodeConfigSource, 2 active? NodeConfigSource, 3 lastKnownGood? NodeConfigSource, 4 error`,
    NodeRuntimeHandler: '1 name!, 2 features? NodeRuntimeHandlerFeatures',
    NodeRuntimeHandlerFeatures: '1 recursiveReadOnlyMounts? bool, 2 userNamespaces? bool',
    NodeFeatures: '1 supplementalGroupsPolicy? bool',
  },
});

/** Rules for nodes: name, taints, resources. What the node says of itself in its status is otherwise taken as it is. */
type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

function validateNode(node: Node): FieldError[] {
  const metadataPath = ['metadata'];
  // The API server looks for taints in the spec and reports them as metadata.
  const printed = [...metadataPath, 'taints'];
  return [
    ...validateObjectMeta(node.metadata, { name: dnsSubdomainProblems, scope: 'cluster' }, metadataPath),
    ...placedBelow(['spec', 'taints'], printed, taintErrors(node.spec?.taints ?? [], printed)),
    ...(['capacity', 'allocatable'] as const).flatMap((field) =>
      Object.entries(node.status?.[field] ?? {}).flatMap(([name, value]) =>
        resourceQuantityErrors(name, value, ['status', field, name]),
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

function defaultNode(node: Node): Node {
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

/** Where its own server answers. */
export function nodePort(node: Node | undefined): number {
  return node?.status?.daemonEndpoints?.kubeletEndpoint?.Port || 10250;
}

/** Of the reserved labels of its Node a node may set these. */
export const ownNodeLabels: readonly string[] = [
  'kubernetes.io/hostname',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
  'node.kubernetes.io/instance-type',
  'beta.kubernetes.io/instance-type',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/arch',
];
/** And those below these domains. */
export const ownNodeDomains: readonly string[] = ['kubelet.kubernetes.io', 'node.kubernetes.io'];

/** A label of a Node that the node itself may not set: with it, it could attract pods that are not meant for it. */
export function isReservedNodeLabel(key: string): boolean {
  const slash = key.indexOf('/');
  const prefix = slash === -1 ? '' : key.slice(0, slash);
  const isBelow = (domain: string): boolean => prefix === domain || prefix.endsWith(`.${domain}`);
  if (isBelow('node-restriction.kubernetes.io')) return true;
  const isOwn = ownNodeLabels.includes(key) || ownNodeDomains.some(isBelow);
  return !isOwn && (isBelow('kubernetes.io') || isBelow('k8s.io'));
}
