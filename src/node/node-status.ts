/** The status of a node, from the one it had and what is known of it now. What others put there stays. Pure. */
import { type Node, nodeShape } from '../kube/kinds/node.ts';
import { means } from '../kube/schema/equality.ts';
import { Quantity } from '../kube/values/quantity.ts';
import { type ResourceList, isExtendedResource, isHugePages, readQuantity } from '../kube/values/resource-list.ts';
import { timestamp } from '../kube/values/times.ts';
import type { MachineFacts } from './machine-facts.ts';
import { nodeConditions } from './node-conditions.ts';
import type { NodeSettings } from './node-settings.ts';

export type NodeStatus = NonNullable<Node['status']>;

/** What a node knows of itself at one moment. */
export interface Observed {
  readonly nowMs: number;
  /** Undefined when the machine could not be asked: what was told of it before stands. */
  readonly machine: MachineFacts | undefined;
  /** Why no pod should come; none: the node is ready. */
  readonly problems: readonly string[];
  /** Undefined before that is known: what was told before the restart stands. */
  readonly volumesInUse: readonly string[] | undefined;
}

interface ObservedStatus {
  readonly status: NodeStatus;
  /** Reasons of the Events that tell what changed. */
  readonly changes: readonly string[];
}

export function observedStatus(before: NodeStatus, observed: Observed, settings: NodeSettings): ObservedStatus {
  const { machine, volumesInUse, nowMs } = observed;
  const capacity = { ...before.capacity, ...machine?.capacity, pods: String(settings.podsMax) };
  const missing = ['cpu', 'memory', 'pods', 'ephemeral-storage'].filter((name) => !(name in capacity));
  const problems = [...observed.problems];
  if (missing.length > 0) problems.push(`missing node capacity for resources: ${missing.join(', ')}`);
  const { conditions, changes } = nodeConditions(before.conditions ?? [], problems, timestamp(nowMs));
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
    allocatable: allocatableOf(capacity, before.allocatable ?? {}),
    daemonEndpoints: { kubeletEndpoint: { Port: settings.port } },
    conditions,
    // In order, so that the same volumes are no change.
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

/** All there is, as nothing is set aside; memory in huge pages is no other memory. */
function allocatableOf(capacity: ResourceList, before: ResourceList): ResourceList {
  const kept = Object.entries(before).filter(([name]) => name in capacity || !isExtendedResource(name));
  const allocatable: Record<string, string | number> = { ...Object.fromEntries(kept), ...capacity };
  for (const [name, value] of Object.entries(capacity)) {
    const [memory, pages] = [readQuantity(allocatable['memory']), readQuantity(value)];
    if (!isHugePages(name) || memory === undefined || pages === undefined) continue;
    const left = memory.plus(new Quantity(-pages.mantissa, pages.scale, pages.format));
    allocatable['memory'] = left.mantissa < 0n ? '0' : String(left);
  }
  return allocatable;
}

/** Whether there is more to tell than that the node is still there. */
export function hasChanged(before: Node, after: Node): boolean {
  return !means(nodeShape, withoutHeartbeats(before), withoutHeartbeats(after));
}

function withoutHeartbeats({ metadata: { labels = {} }, status = {} }: Node): Node {
  const conditions = (status.conditions ?? [])
    .map(({ lastHeartbeatTime: _time, ...condition }) => condition)
    .toSorted((a, b) => (a.type < b.type ? -1 : 1));
  return { metadata: { name: '', labels }, status: { ...status, conditions } };
}
