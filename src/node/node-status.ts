/** The status of a node, from the one it had and what is known now. What others put there stays. Pure. */
import { aggregated } from '../base/errors.ts';
import { type Node, nodeShape } from '../kube/kinds/node.ts';
import { means } from '../kube/schema/equality.ts';
import { Quantity, type ResourceList, isExtendedResource, isHugePages, readQuantity } from '../kube/values/quantity.ts';
import { timestamp } from '../kube/values/times.ts';

/** What an operator decides about how this machine appears in the cluster. */
export interface NodeSettings {
  /** Also its hostname, as far as the cluster is concerned. */
  readonly nodeName: string;
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** Only when it registers: later they belong to the cluster. */
  readonly taints: readonly { readonly key: string; readonly value: string; readonly effect: string }[];
  readonly podsMax: number;
  /** Where the node's own server really listens; 0: it has none. */
  readonly port: number;
  /** A controller of the cluster attaches volumes, and not the node. */
  readonly controllerAttaches: boolean;
  /** How a cloud calls this machine; empty: there is none. */
  readonly providerId: string;
  /** `v1.33.0+mountlet`: clients adapt to it. */
  readonly kubeletVersion: string;
  /** `process://0.1.0`. */
  readonly runtimeVersion: string;
  /** What of the machine is not for pods. */
  readonly reserved: readonly Reserve[];
  /** How many images the status lists, the largest ones; -1: all. */
  readonly imagesMax: number;
  readonly registersNode: boolean;
  readonly nodeStatusUpdateMs: number;
  readonly nodeStatusReportMs: number;
}

/** Kept from pods: an amount, and a part of all there is. */
interface Reserve {
  readonly resource: string;
  readonly amount: Quantity;
  /** 0 to 1. */
  readonly part: number;
}

/** What the runtime says of itself; what it does not say is not in the status. */
export interface RuntimeFacts {
  readonly handlers?: readonly {
    readonly name: string;
    readonly features: { readonly recursiveReadOnlyMounts: boolean; readonly userNamespaces: boolean } | undefined;
  }[];
  readonly supplementalGroupsPolicy?: boolean | undefined;
  readonly images?:
    | readonly {
        readonly id: string;
        readonly tags: readonly string[];
        readonly digests: readonly string[];
        readonly sizeBytes: number;
      }[]
    | undefined;
}

/** The machine under a node, as data for the node's status. */
export interface MachineFacts {
  /** What there is of `cpu`, `memory` and `ephemeral-storage`, and of huge pages where there are any. */
  readonly capacity: Readonly<Record<string, string>>;
  /** The first is the one that pods see. */
  readonly internalAddresses: readonly string[];
  readonly machineId: string;
  readonly systemUuid: string;
  /** Another one after each boot. */
  readonly bootId: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  /** As Go names them: `linux`, `amd64`. */
  readonly operatingSystem: string;
  readonly architecture: string;
}

export type NodeStatus = NonNullable<Node['status']>;

/** What a node knows of itself at one moment. */
export interface Observed {
  readonly nowMs: number;
  /** Undefined when the machine could not be inspected: the facts last reported stand. */
  readonly machine: MachineFacts | undefined;
  /** Why no pod should come; none: the node is ready. */
  readonly problems: readonly string[];
  /** Undefined before that is known: the list reported before the restart stands. */
  readonly volumesInUse: readonly string[] | undefined;
  readonly isUnderDiskPressure: boolean;
  readonly runtime: RuntimeFacts;
}

interface ObservedStatus {
  readonly status: NodeStatus;
  /** Reasons of the Events about what changed. */
  readonly changes: readonly string[];
}

export function observedStatus(before: NodeStatus, observed: Observed, settings: NodeSettings): ObservedStatus {
  const { machine, volumesInUse, nowMs } = observed;
  const capacity = { ...before.capacity, ...machine?.capacity, pods: String(settings.podsMax) };
  const missing = ['cpu', 'memory', 'pods', 'ephemeral-storage'].filter((name) => !(name in capacity));
  const problems = [...observed.problems];
  if (missing.length > 0) problems.push(`missing node capacity for resources: ${missing.join(', ')}`);
  const { conditions, changes } = nodeConditions(
    before.conditions ?? [],
    { problems, isUnderDiskPressure: observed.isUnderDiskPressure },
    timestamp(nowMs),
  );
  const status: NodeStatus = {
    ...before,
    ...(machine !== undefined && {
      addresses: [
        ...machine.internalAddresses.map((address) => ({ type: 'InternalIP', address })),
        { type: 'Hostname', address: settings.nodeName },
      ],
      nodeInfo: nodeInfo(before.nodeInfo, machine, settings),
    }),
    capacity,
    allocatable: allocatableOf(capacity, before.allocatable ?? {}, settings.reserved),
    daemonEndpoints: { kubeletEndpoint: { Port: settings.port } },
    conditions,
    ...runtimeStatus(observed.runtime, settings.imagesMax),
    // Sorted, so that the same volumes do not look like a change.
    ...(volumesInUse !== undefined && { volumesInUse: volumesInUse.toSorted() }),
  };
  return { status, changes };
}

function nodeInfo(
  before: NodeStatus['nodeInfo'],
  machine: MachineFacts,
  { kubeletVersion, runtimeVersion }: NodeSettings,
): NonNullable<NodeStatus['nodeInfo']> {
  return {
    ...before,
    machineID: machine.machineId,
    systemUUID: machine.systemUuid,
    bootID: machine.bootId,
    kernelVersion: machine.kernelVersion,
    osImage: machine.osImage,
    containerRuntimeVersion: runtimeVersion,
    kubeletVersion,
    // No longer used, and emptied where an older agent had set it.
    kubeProxyVersion: '',
    operatingSystem: machine.operatingSystem,
    architecture: machine.architecture,
  };
}

/** As many names of one image as a status shows. */
const namesMax = 5;

function runtimeStatus(
  { handlers = [], supplementalGroupsPolicy, images }: RuntimeFacts,
  imagesMax: number,
): Pick<NodeStatus, 'runtimeHandlers' | 'features' | 'images'> {
  // In an order of their own, so that the same ones do not look like a change.
  const largest = images?.toSorted((a, b) => b.sizeBytes - a.sizeBytes || (a.id < b.id ? -1 : 1));
  const shown = imagesMax < 0 ? largest : largest?.slice(0, imagesMax);
  return {
    ...(handlers.length > 0 && {
      runtimeHandlers: handlers
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
        .map(({ name, features }) => ({ name, ...(features && { features }) })),
    }),
    ...(supplementalGroupsPolicy !== undefined && { features: { supplementalGroupsPolicy } }),
    ...(shown && {
      images: shown.map(({ digests, tags, sizeBytes }) => ({
        names: [...digests, ...tags].slice(0, namesMax),
        sizeBytes,
      })),
    }),
  };
}

/** Everything but what is reserved, and memory in huge pages. */
function allocatableOf(capacity: ResourceList, before: ResourceList, reserved: readonly Reserve[]): ResourceList {
  const kept = Object.entries(before).filter(([name]) => name in capacity || !isExtendedResource(name));
  const allocatable: Record<string, string | number> = { ...Object.fromEntries(kept), ...capacity };
  const take = (name: string, amount: Quantity): void => {
    const there = readQuantity(allocatable[name]);
    const left = there?.plus(new Quantity(-amount.mantissa, amount.scale, amount.format));
    if (left !== undefined) allocatable[name] = left.mantissa < 0n ? '0' : String(left);
  };
  for (const { resource, amount, part } of reserved) {
    const all = Number(readQuantity(capacity[resource])?.value() ?? 0n);
    take(resource, amount.plus(new Quantity(BigInt(Math.trunc(all * part)), 0, 'BinarySI')));
  }
  for (const [name, value] of Object.entries(capacity)) {
    const pages = isHugePages(name) ? readQuantity(value) : undefined;
    if (pages !== undefined) take('memory', pages);
  }
  return allocatable;
}

/** Whether anything but timestamps has changed. */
export function hasChanged(before: Node, after: Node): boolean {
  return !means(nodeShape, withoutHeartbeats(before), withoutHeartbeats(after));
}

function withoutHeartbeats({ metadata: { labels = {} }, status = {} }: Node): Node {
  const conditions = (status.conditions ?? [])
    .map(({ lastHeartbeatTime: _time, ...condition }) => condition)
    .toSorted((a, b) => (a.type < b.type ? -1 : 1));
  return { metadata: { name: '', labels }, status: { ...status, conditions } };
}

/** The conditions of a node, from those it had and what is wrong with it now. Ready comes last, as old control planes expect. */
export type NodeCondition = NonNullable<NonNullable<Node['status']>['conditions']>[number];

interface NodeConditions {
  readonly conditions: readonly NodeCondition[];
  /** Reasons of the Events about what changed. */
  readonly changes: readonly string[];
}

interface Pressure {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
  readonly change: string;
}

/** Nothing is evicted for the sake of memory or process ids here; schedulers still expect the conditions. */
const pressures = (isUnderDiskPressure: boolean): readonly Pressure[] => [
  {
    type: 'MemoryPressure',
    status: 'False',
    reason: 'KubeletHasSufficientMemory',
    message: 'kubelet has sufficient memory available',
    change: 'NodeHasSufficientMemory',
  },
  isUnderDiskPressure
    ? {
        type: 'DiskPressure',
        status: 'True',
        reason: 'KubeletHasDiskPressure',
        message: 'kubelet has disk pressure',
        change: 'NodeHasDiskPressure',
      }
    : {
        type: 'DiskPressure',
        status: 'False',
        reason: 'KubeletHasNoDiskPressure',
        message: 'kubelet has no disk pressure',
        change: 'NodeHasNoDiskPressure',
      },
  {
    type: 'PIDPressure',
    status: 'False',
    reason: 'KubeletHasSufficientPID',
    message: 'kubelet has sufficient PID available',
    change: 'NodeHasSufficientPID',
  },
];

/** Conditions of others stay as they are and where they are. */
export function nodeConditions(
  before: readonly NodeCondition[],
  {
    problems,
    isUnderDiskPressure = false,
  }: { readonly problems: readonly string[]; readonly isUnderDiskPressure?: boolean },
  time: string,
): NodeConditions {
  const conditions = [...before];
  const changes: string[] = [];
  const put = (next: Omit<NodeCondition, 'lastHeartbeatTime' | 'lastTransitionTime'>): NodeCondition | undefined => {
    const index = conditions.findIndex(({ type }) => type === next.type);
    const old = conditions[index];
    const since = old?.status === next.status ? old.lastTransitionTime : undefined;
    const condition = { ...next, lastHeartbeatTime: time, lastTransitionTime: since ?? time };
    if (old === undefined) conditions.push(condition);
    else conditions[index] = condition;
    return old;
  };
  for (const { change, ...condition } of pressures(isUnderDiskPressure)) {
    if (put(condition)?.status !== condition.status) changes.push(change);
  }
  const isReady = problems.length === 0;
  const status = isReady ? 'True' : 'False';
  const [reason, message] = isReady
    ? ['KubeletReady', 'kubelet is posting ready status']
    : ['KubeletNotReady', aggregated(problems)];
  const old = put({ type: 'Ready', status, reason, message });
  // A node that is new was never anything else.
  if (old !== undefined && old.status !== status) changes.push(isReady ? 'NodeReady' : 'NodeNotReady');
  return { conditions, changes };
}

export function isReadyNode({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}
