/**
 * What a StatefulSet does next, from the set and its pods alone: missing pods from the lowest number up, surplus ones from the highest
 * down, then those of an old version from the highest down. One step at a time, each of which waits until all pods before it are
 * there and available; with the policy `Parallel` nothing waits, but for the update.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { StatefulSet } from '../../kube/kinds/workloads/stateful-set.ts';
import { partOf } from '../../kube/kinds/workloads/workload.ts';
import { isOver } from '../../kube/references/claims.ts';
import { isAvailable, isReady } from './pod-state.ts';

export const revisionLabel = 'controller-revision-hash';

export interface SetView {
  readonly set: StatefulSet;
  readonly pods: readonly Pod[];
  /** Names of revisions: the one that all pods were of last, and the one of the template. */
  readonly current: string;
  readonly update: string;
  readonly nowMs: number;
}

/** In one look; the rest is left to the next. */
const createdMax = 500;

interface SetPlan {
  readonly create: readonly number[];
  readonly remove: readonly Pod[];
}

/** The number at the end of a pod's name; undefined for one that is not a pod of the set. */
export function ordinalOf({ metadata: { name } }: Pod, set: string): number | undefined {
  const [, parent, digits = ''] = /^(.*)-(\d{1,9})$/.exec(name) ?? [];
  return parent === set && String(Number(digits)) === digits ? Number(digits) : undefined;
}

function firstOrdinal({ spec }: StatefulSet): number {
  return spec.ordinals?.start ?? 0;
}

export function planStatefulSet(view: SetView): SetPlan {
  const { set, pods, nowMs } = view;
  const { replicas = 1, podManagementPolicy, minReadySeconds = 0 } = set.spec;
  if (set.metadata.deletionTimestamp !== undefined) return { create: [], remove: [] };
  const first = firstOrdinal(set);
  const byOrdinal = new Map(pods.map((pod) => [ordinalOf(pod, set.metadata.name), pod]));
  const isOrdered = podManagementPolicy !== 'Parallel';
  const isUsable = (pod: Pod): boolean => isSettled(pod, minReadySeconds, nowMs);
  const create: number[] = [];
  const remove: Pod[] = [];
  const kept: Pod[] = [];
  for (let ordinal = first; ordinal < first + replicas; ordinal += 1) {
    const pod = byOrdinal.get(ordinal);
    if (pod === undefined) create.push(ordinal);
    // One that has ended is made again when it is gone.
    else if (!isOver(pod)) kept.push(pod);
    else if (pod.metadata.deletionTimestamp === undefined) remove.push(pod);
    const isThere = pod !== undefined && !isOver(pod) && isUsable(pod);
    if ((isOrdered && !isThere) || create.length === createdMax) return { create, remove };
  }
  if (remove.length > 0) return { create, remove };
  const condemned = pods
    .filter((pod) => !inRange(ordinalOf(pod, set.metadata.name) ?? first, first, replicas))
    .toSorted((a, b) => (ordinalOf(b, set.metadata.name) ?? 0) - (ordinalOf(a, set.metadata.name) ?? 0));
  const lowestUnusable = condemned.findLast((pod) => !isUsable(pod));
  for (const pod of condemned) {
    if (pod.metadata.deletionTimestamp !== undefined) {
      if (isOrdered) return { create, remove };
      continue;
    }
    if (isOrdered && !isUsable(pod) && pod !== lowestUnusable) return { create, remove };
    remove.push(pod);
    if (isOrdered) return { create, remove };
  }
  return { create, remove: [...remove, ...outdated(view, kept, create.length, isUsable)] };
}

function inRange(ordinal: number, first: number, replicas: number): boolean {
  return ordinal >= first && ordinal < first + replicas;
}

/** Running, not about to end, and ready for as long as the set asks for. */
function isSettled(pod: Pod, minReadySeconds: number, nowMs: number): boolean {
  const { metadata, status } = pod;
  if (metadata.deletionTimestamp !== undefined || status?.phase !== 'Running') return false;
  return isAvailable(pod, minReadySeconds, nowMs);
}

/** Which pods make room for the new version now. */
function outdated(
  { set, update }: SetView,
  kept: readonly Pod[],
  missing: number,
  isUsable: (pod: Pod) => boolean,
): readonly Pod[] {
  const { updateStrategy, replicas = 1, podManagementPolicy } = set.spec;
  if (updateStrategy?.type !== 'RollingUpdate') return [];
  const { partition = 0, maxUnavailable = 1 } = updateStrategy.rollingUpdate ?? {};
  const lowest = firstOrdinal(set) + partition;
  const highestFirst = kept
    .filter((pod) => (ordinalOf(pod, set.metadata.name) ?? 0) >= lowest)
    .toSorted((a, b) => (ordinalOf(b, set.metadata.name) ?? 0) - (ordinalOf(a, set.metadata.name) ?? 0));
  const isOld = (pod: Pod): boolean => revisionOf(pod) !== update && pod.metadata.deletionTimestamp === undefined;
  const limit = Math.max(1, partOf(replicas, maxUnavailable, 'down'));
  if (limit === 1 && podManagementPolicy !== 'Parallel') {
    // The first that is old goes, unless a newer one above it has still to come up.
    const next = highestFirst.find((pod) => isOld(pod) || !isUsable(pod));
    return next !== undefined && isOld(next) ? [next] : [];
  }
  const unusable = kept.filter((pod) => !isUsable(pod));
  const room = limit - unusable.length - missing;
  const broken = podManagementPolicy === 'Parallel' ? highestFirst.filter((pod) => isOld(pod) && !isUsable(pod)) : [];
  const sound = highestFirst.filter((pod) => isOld(pod) && !broken.includes(pod));
  return [...broken, ...sound.slice(0, Math.max(0, room))];
}

export function revisionOf({ metadata: { labels = {} } }: Pod): string {
  return labels[revisionLabel] ?? '';
}

/** Whether a new pod with this number is still of the version from before the update. */
export function startsAsBefore({ set }: Pick<SetView, 'set'>, ordinal: number): boolean {
  const { updateStrategy } = set.spec;
  if (updateStrategy?.type !== 'RollingUpdate') return false;
  const { rollingUpdate } = updateStrategy;
  return ordinal < firstOrdinal(set) + (rollingUpdate?.partition ?? set.status?.currentReplicas ?? 0);
}

export function statefulSetStatus({ set, pods, current, update, nowMs }: SetView): NonNullable<StatefulSet['status']> {
  const { replicas: wanted = 1, minReadySeconds = 0, updateStrategy } = set.spec;
  const ready = pods.filter((pod) => pod.status?.phase === 'Running' && isReady(pod));
  const lasting = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const count = (revision: string): number => lasting.filter((pod) => revisionOf(pod) === revision).length;
  const updatedReplicas = count(update);
  const isComplete =
    updateStrategy?.type === 'RollingUpdate' &&
    [updatedReplicas, ready.length, pods.length].every((number) => number === wanted);
  const { observedGeneration: _observed, ...before } = set.status ?? { replicas: 0 };
  return {
    ...before,
    observedGeneration: set.metadata.generation ?? 0,
    replicas: pods.length,
    readyReplicas: ready.length,
    availableReplicas: ready.filter((pod) => isAvailable(pod, minReadySeconds, nowMs)).length,
    currentReplicas: isComplete ? updatedReplicas : count(current),
    updatedReplicas,
    currentRevision: isComplete ? update : current,
    updateRevision: update,
    collisionCount: before.collisionCount ?? 0,
  };
}
