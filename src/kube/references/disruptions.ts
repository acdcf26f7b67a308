/**
 * What a PodDisruptionBudget means for its pods, as pure rules that two sides share: a controller counts, and the API server spends what
 * it has counted before it lets a pod be evicted.
 */
import type { BudgetStatus, PodDisruptionBudget } from '../kinds/policy/pod-disruption-budget.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import { LabelSelectorError, labelMatcher, requirementsOf } from '../values/labels.ts';
import { timestamp } from '../values/times.ts';

/** A pod that was given up this long ago and is still there will not be deleted any more. */
export const disruptionLastsMs = 2 * 60_000;
/** More evictions than that are not waited for: the controller does not keep up. */
const disruptedMax = 2_000;

/** No selector selects nothing, an empty one every pod of the namespace. */
export function podMatcher({ spec }: PodDisruptionBudget): (pod: Pick<Pod, 'metadata'>) => boolean {
  if (spec?.selector === undefined) return () => false;
  try {
    const matches = labelMatcher(requirementsOf(spec.selector));
    return ({ metadata }) => matches(metadata.labels ?? {});
  } catch (error) {
    if (error instanceof LabelSelectorError) return () => false;
    throw error;
  }
}

export function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}

/** Pods that serve nobody yet or any more: their end disrupts nothing. */
export function isBeyondBudgets({ metadata, status }: Pod): boolean {
  const phase = status?.phase ?? '';
  return metadata.deletionTimestamp !== undefined || ['Pending', 'Succeeded', 'Failed'].includes(phase);
}

/** A pod that is not ready may go where that makes nothing worse. It counts as no disruption. */
export function allowsUnhealthy({ spec, status }: PodDisruptionBudget): boolean {
  if (spec?.unhealthyPodEvictionPolicy === 'AlwaysAllow') return true;
  const { currentHealthy = 0, desiredHealthy = 0 } = status ?? {};
  return desiredHealthy > 0 && currentHealthy >= desiredHealthy;
}

type Refusal =
  | { readonly kind: 'notCounted' }
  | { readonly kind: 'tooMany' }
  | { readonly kind: 'violated'; readonly why: string };

/** Why no pod may go now; undefined when one may. */
export function disruptionRefusal({ metadata, status }: PodDisruptionBudget): Refusal | undefined {
  const { observedGeneration = 0, disruptionsAllowed = 0, disruptedPods = {} } = status ?? {};
  if (observedGeneration < (metadata.generation ?? 0)) return { kind: 'notCounted' };
  if (Object.keys(disruptedPods).length > disruptedMax) return { kind: 'tooMany' };
  if (disruptionsAllowed > 0) return undefined;
  const { currentHealthy = 0, desiredHealthy = 0, conditions = [] } = status ?? {};
  const budget = `The disruption budget ${metadata.name}`;
  const failed = conditions.find(({ type, status: is }) => type === conditionType && is === 'False');
  if (failed?.reason === 'SyncFailed' && failed.message !== '') {
    const why = `${budget} does not allow evicting pods currently because it failed sync: ${failed.message}`;
    return { kind: 'violated', why };
  }
  if (currentHealthy <= desiredHealthy) {
    const why = `${budget} needs ${desiredHealthy} healthy pods and has ${currentHealthy} currently`;
    return { kind: 'violated', why };
  }
  return { kind: 'violated', why: `${budget} does not allow evicting pods currently` };
}

/** One disruption less, and the pod noted as given up until the controller sees it go. */
export function withDisruption(budget: PodDisruptionBudget, podName: string, nowMs: number): PodDisruptionBudget {
  const status = budget.status ?? noPods;
  const disruptedPods = { ...status.disruptedPods, [podName]: timestamp(nowMs) };
  const disruptionsAllowed = status.disruptionsAllowed - 1;
  return { ...budget, status: withCondition({ ...status, disruptionsAllowed, disruptedPods }, nowMs) };
}

const noPods: BudgetStatus = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };

/** How many pods there should be, by what owns them. */
interface ExpectedPods {
  readonly expectedPods: number;
  readonly desiredHealthy: number;
}

/** Whether the bound is a part of how many there should be, so that their owners must be asked. */
export function needsScale({ spec }: PodDisruptionBudget): boolean {
  return spec?.maxUnavailable !== undefined || typeof spec?.minAvailable === 'string';
}

/** `scale` is what the owners of the pods ask for together. */
export function expectedPods({ spec }: PodDisruptionBudget, scale: number, podCount: number): ExpectedPods {
  const { minAvailable, maxUnavailable } = spec ?? {};
  if (maxUnavailable !== undefined) {
    return { expectedPods: scale, desiredHealthy: Math.max(0, scale - partOf(maxUnavailable, scale)) };
  }
  if (typeof minAvailable === 'string') return { expectedPods: scale, desiredHealthy: partOf(minAvailable, scale) };
  if (minAvailable === undefined) return { expectedPods: 0, desiredHealthy: 0 };
  return { expectedPods: podCount, desiredHealthy: minAvailable };
}

/** A percentage is rounded up. */
function partOf(value: number | string, whole: number): number {
  return typeof value === 'number' ? value : Math.ceil((Number.parseInt(value, 10) * whole) / 100);
}

/** The budget with what was counted; the same object when that is what it says already. */
export function counted(
  budget: PodDisruptionBudget,
  pods: readonly Pod[],
  expected: ExpectedPods,
  nowMs: number,
): PodDisruptionBudget {
  const before = budget.status ?? noPods;
  const living = pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const isAwaited = (name: string): boolean =>
    Date.parse(before.disruptedPods?.[name] ?? '') + disruptionLastsMs > nowMs;
  const awaited = living.map(({ metadata }) => metadata.name).filter(isAwaited);
  const currentHealthy = living.filter((pod) => isReady(pod) && !isAwaited(pod.metadata.name)).length;
  const isAllowed = expected.expectedPods > 0 && currentHealthy > expected.desiredHealthy;
  const { disruptedPods: _before, ...rest } = before;
  const status = withCondition(
    {
      ...rest,
      ...expected,
      currentHealthy,
      disruptionsAllowed: isAllowed ? currentHealthy - expected.desiredHealthy : 0,
      observedGeneration: budget.metadata.generation ?? 0,
      ...(awaited.length > 0 && {
        disruptedPods: Object.fromEntries(awaited.map((name) => [name, before.disruptedPods?.[name] ?? ''])),
      }),
    },
    nowMs,
  );
  return sameStatus(status, before) ? budget : { ...budget, status };
}

/** What could not be counted allows nothing. */
export function uncounted(budget: PodDisruptionBudget, message: string, nowMs: number): PodDisruptionBudget {
  const before = budget.status ?? noPods;
  const status = withCondition({ ...before, disruptionsAllowed: 0 }, nowMs, { reason: 'SyncFailed', message });
  return sameStatus(status, before) ? budget : { ...budget, status };
}

function sameStatus(one: BudgetStatus, other: BudgetStatus): boolean {
  const inOrder = (status: BudgetStatus): string =>
    JSON.stringify(Object.entries(status).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  return inOrder(one) === inOrder(other);
}

const conditionType = 'DisruptionAllowed';

function withCondition(
  status: BudgetStatus,
  nowMs: number,
  failure?: { readonly reason: string; readonly message: string },
): BudgetStatus {
  const { conditions = [], disruptionsAllowed, observedGeneration = 0 } = status;
  const isAllowed = disruptionsAllowed > 0;
  const before = conditions.find(({ type }) => type === conditionType);
  const is = isAllowed ? 'True' : 'False';
  const since = before?.status === is ? before.lastTransitionTime : undefined;
  const condition = {
    lastTransitionTime: since ?? timestamp(nowMs),
    message: failure?.message ?? '',
    ...(observedGeneration > 0 && { observedGeneration }),
    reason: failure?.reason ?? (isAllowed ? 'SufficientPods' : 'InsufficientPods'),
    status: is,
    type: conditionType,
  };
  return { ...status, conditions: [...conditions.filter(({ type }) => type !== conditionType), condition] };
}
