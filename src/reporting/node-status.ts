/** A node's status made of facts, and how it differs from the one the cluster has. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { timestamp } from '../kube/values/timestamp.ts';
import type { NodeFacts, NodeStatus } from './node-facts.ts';

type Condition = NonNullable<NodeStatus['conditions']>[number];

interface Pressure {
  readonly type: string;
  readonly fact: keyof NodeFacts['pressure'];
  readonly good: { readonly reason: string; readonly message: string; readonly event: string };
  readonly bad: { readonly reason: string; readonly message: string; readonly event: string };
}

const pressures: readonly Pressure[] = [
  {
    type: 'MemoryPressure',
    fact: 'memory',
    good: {
      reason: 'KubeletHasSufficientMemory',
      message: 'kubelet has sufficient memory available',
      event: 'NodeHasSufficientMemory',
    },
    bad: {
      reason: 'KubeletHasInsufficientMemory',
      message: 'kubelet has insufficient memory available',
      event: 'NodeHasInsufficientMemory',
    },
  },
  {
    type: 'DiskPressure',
    fact: 'disk',
    good: {
      reason: 'KubeletHasNoDiskPressure',
      message: 'kubelet has no disk pressure',
      event: 'NodeHasNoDiskPressure',
    },
    bad: { reason: 'KubeletHasDiskPressure', message: 'kubelet has disk pressure', event: 'NodeHasDiskPressure' },
  },
  {
    type: 'PIDPressure',
    fact: 'processes',
    good: {
      reason: 'KubeletHasSufficientPID',
      message: 'kubelet has sufficient PID available',
      event: 'NodeHasSufficientPID',
    },
    bad: {
      reason: 'KubeletHasInsufficientPID',
      message: 'kubelet has insufficient PID available',
      event: 'NodeHasInsufficientPID',
    },
  },
];

const neededCapacities = ['cpu', 'memory', 'pods', 'ephemeral-storage'];

/** Fields and conditions that are not ours are kept as they are. Ready is the last of ours. */
export function nodeStatus(before: NodeStatus | undefined, facts: NodeFacts, now: number): NodeStatus {
  const ours = [...pressures.map((pressure) => pressureCondition(pressure, facts)), readyCondition(facts)];
  const known = before?.conditions ?? [];
  const at = timestamp(now);
  const conditions = ours.map((condition) => {
    const old = known.find(({ type }) => type === condition.type);
    const lastTransitionTime = old?.status === condition.status ? (old.lastTransitionTime ?? at) : at;
    return { ...condition, lastHeartbeatTime: at, lastTransitionTime };
  });
  const others = known.filter(({ type }) => !ours.some((condition) => condition.type === type));
  return {
    ...before,
    addresses: facts.addresses,
    capacity: facts.capacity,
    allocatable: facts.allocatable,
    nodeInfo: facts.nodeInfo,
    daemonEndpoints: { kubeletEndpoint: { Port: facts.serverPort } },
    conditions: [...others, ...conditions],
  };
}

function pressureCondition({ type, fact, good, bad }: Pressure, { pressure }: NodeFacts): Condition {
  const { reason, message } = pressure[fact] ? bad : good;
  return { type, status: pressure[fact] ? 'True' : 'False', reason, message };
}

function readyCondition({ problems, capacity }: NodeFacts): Condition {
  const missing = neededCapacities.filter((name) => capacity[name] === undefined);
  const all =
    missing.length === 0 ? problems : [...problems, `missing node capacity for resources: ${missing.join(', ')}`];
  if (all.length === 0) {
    return { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'kubelet is posting ready status' };
  }
  const message = all.length === 1 ? all.join() : `[${all.join(', ')}]`;
  return { type: 'Ready', status: 'False', reason: 'KubeletNotReady', message };
}

export function isReady(status: NodeStatus): boolean {
  return status.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}

/** Whether anything but the time of the heartbeat differs. */
export function hasChanged(before: NodeStatus | undefined, after: NodeStatus): boolean {
  return !same(withoutHeartbeats(before ?? {}), withoutHeartbeats(after));
}

function withoutHeartbeats(status: NodeStatus): unknown {
  const conditions = (status.conditions ?? []).map((condition) => ({ ...condition, lastHeartbeatTime: '' }));
  return { ...status, conditions };
}

/** As JSON: what came from a server and what was made here differ in their prototypes and in what is left out. */
function same(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(plain(a), plain(b));
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** A strategic merge patch: conditions always, for their heartbeats, and of the rest what differs. */
export function statusPatch(before: NodeStatus | undefined, after: NodeStatus): object {
  const patch: Record<string, unknown> = { conditions: after.conditions };
  for (const field of ['capacity', 'allocatable'] as const) {
    if (same(before?.[field], after[field])) continue;
    const gone = Object.keys(before?.[field] ?? {}).filter((name) => after[field]?.[name] === undefined);
    patch[field] = { ...after[field], ...Object.fromEntries(gone.map((name) => [name, null])) };
  }
  for (const field of ['nodeInfo', 'daemonEndpoints'] as const) {
    if (!same(before?.[field], after[field])) patch[field] = after[field];
  }
  // Addresses are merged by their type, of which there may be several: only the whole list says what is meant.
  if (!same(before?.addresses, after.addresses)) {
    patch['addresses'] = [...(after.addresses ?? []), { $patch: 'replace' }];
  }
  return { status: patch };
}

/** Reasons of the events that tell of a change. A node that was not Ready before it was known has not changed. */
export function statusEvents(before: NodeStatus | undefined, after: NodeStatus): string[] {
  const status = (of: NodeStatus | undefined, type: string): string | undefined =>
    of?.conditions?.find((condition) => condition.type === type)?.status;
  const changed = pressures.filter(({ type }) => {
    const now = status(after, type);
    return now !== undefined && status(before, type) !== now;
  });
  const reasons = changed.map(({ type, good, bad }) => (status(after, type) === 'True' ? bad.event : good.event));
  const wasReady = status(before, 'Ready');
  if (wasReady === undefined || wasReady === status(after, 'Ready')) return reasons;
  return [...reasons, isReady(after) ? 'NodeReady' : 'NodeNotReady'];
}
