/** What a pod counts as for the controller that owns it, and which of its pods a controller deletes first. Pure. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { isOver } from '../../kube/references/claims.ts';
import { instantOf } from '../../kube/values/times.ts';

/** It runs, or may still come to run. */
export function isActive(pod: Pod): boolean {
  return !isOver(pod) && pod.metadata.deletionTimestamp === undefined;
}

/** It was deleted and has not ended. */
export function isTerminating(pod: Pod): boolean {
  return !isOver(pod) && pod.metadata.deletionTimestamp !== undefined;
}

export function isReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True';
}

/** Ready for at least that long. */
export function isAvailable(pod: Pod, minReadySeconds: number, nowMs: number): boolean {
  return (availableAtMs(pod, minReadySeconds) ?? Infinity) <= nowMs;
}

/** When it becomes available if it stays ready; undefined while it is not ready. */
function availableAtMs(pod: Pod, minReadySeconds: number): number | undefined {
  if (!isReady(pod)) return undefined;
  if (minReadySeconds === 0) return 0;
  const since = Date.parse(readyCondition(pod)?.lastTransitionTime ?? '');
  return Number.isNaN(since) ? undefined : since + minReadySeconds * 1000;
}

/** The first moment at which one more of these pods becomes available. */
export function nextAvailableAtMs(pods: readonly Pod[], minReadySeconds: number, nowMs: number): number | undefined {
  const times = pods.flatMap((pod) => availableAtMs(pod, minReadySeconds) ?? []).filter((at) => at > nowMs);
  return times.length === 0 ? undefined : Math.min(...times);
}

function readyCondition({
  status,
}: Pod): { readonly status: string; readonly lastTransitionTime?: string } | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}

/** The pods to delete, the cheapest first. `related`: all active pods whose number on a node makes one of these superfluous there. */
export function cheapestPods(
  pods: readonly Pod[],
  count: number,
  related: readonly Pod[],
  nowMs: number,
): readonly Pod[] {
  if (count >= pods.length) return pods;
  const onNode = new Map<string, number>();
  for (const { spec } of related.filter(isActive)) {
    onNode.set(spec.nodeName ?? '', (onNode.get(spec.nodeName ?? '') ?? 0) + 1);
  }
  const rank = (pod: Pod): number => onNode.get(pod.spec.nodeName ?? '') ?? 0;
  return pods.toSorted((a, b) => compareCost(a, b, rank, nowMs)).slice(0, count);
}

const phases = ['Pending', 'Unknown', 'Running'];

function compareCost(a: Pod, b: Pod, rank: (pod: Pod) => number, nowMs: number): number {
  const byNumber = (number: (pod: Pod) => number): number => number(a) - number(b);
  return (
    byNumber(({ spec }) => ((spec.nodeName ?? '') === '' ? 0 : 1)) ||
    byNumber(({ status }) => phases.indexOf(status?.phase ?? '')) ||
    byNumber((pod) => (isReady(pod) ? 1 : 0)) ||
    byNumber(deletionCost) ||
    -byNumber(rank) ||
    (isReady(a) ? compareAge(a, b, (pod) => readyCondition(pod)?.lastTransitionTime, nowMs) : 0) ||
    -byNumber((pod) => restarts(pod).regular) ||
    -byNumber((pod) => restarts(pod).sidecars) ||
    compareAge(a, b, ({ metadata }) => metadata.creationTimestamp, nowMs)
  );
}

const costAnnotation = 'controller.kubernetes.io/pod-deletion-cost';
const costMax = 2 ** 31;

/** What the user says that a pod is worth; 0 where they say nothing that can be read. */
function deletionCost({ metadata: { annotations = {} } }: Pod): number {
  const text = annotations[costAnnotation] ?? '0';
  const cost = /^(0|-?[1-9]\d*)$/.test(text) ? Number(text) : 0;
  return cost >= -costMax && cost < costMax ? cost : 0;
}

/**
 * The younger first, by the order of magnitude of their ages alone: so that of pods of about one age it is not always the newest
 * that goes, which would leave all the others on the oldest nodes.
 */
function compareAge(a: Pod, b: Pod, timeOf: (pod: Pod) => string | undefined, nowMs: number): number {
  const [left, right] = [instantOf(timeOf(a) ?? ''), instantOf(timeOf(b) ?? '')];
  if (left === right) return 0;
  if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
  const magnitude = (time: bigint): number => {
    const age = nowMs * 1e6 - Number(time);
    return age > 0 ? Math.floor(Math.log2(age)) : -1;
  };
  const difference = magnitude(left) - magnitude(right);
  if (difference !== 0) return difference;
  return (a.metadata.uid ?? '') < (b.metadata.uid ?? '') ? -1 : 1;
}

function restarts({ spec, status }: Pod): { readonly regular: number; readonly sidecars: number } {
  const most = (list: readonly { readonly restartCount?: number }[]): number =>
    Math.max(0, ...list.map(({ restartCount = 0 }) => restartCount));
  const sidecars = new Set(
    (spec.initContainers ?? []).flatMap(({ name, restartPolicy }) => (restartPolicy === 'Always' ? [name] : [])),
  );
  return {
    regular: most(status?.containerStatuses ?? []),
    sidecars: most((status?.initContainerStatuses ?? []).filter(({ name }) => sidecars.has(name))),
  };
}
