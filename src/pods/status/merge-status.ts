/** The node's status of a pod put over the API server's: what others own there stays. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import { type PodCondition, ownedConditions, terminalReadiness } from './pod-conditions.ts';

export function mergeStatus(api: PodStatus, own: PodStatus, couldHaveRunningContainers: boolean): PodStatus {
  const foreign = (api.conditions ?? []).filter(({ type }) => !ownedConditions.includes(type));
  const owned = (own.conditions ?? []).filter(({ type }) => ownedConditions.includes(type));
  const { resourceClaimStatuses, nominatedNodeName } = api;
  const merged: PodStatus = {
    ...own,
    ...(resourceClaimStatuses === undefined ? {} : { resourceClaimStatuses }),
    ...(nominatedNodeName === undefined ? {} : { nominatedNodeName }),
    conditions: [...foreign, ...owned],
  };
  const ends = isTerminalPhase(own.phase) && !isTerminalPhase(api.phase);
  // Whoever sees a pod ended may start its successor: not while something of it runs.
  const withheld = ends && couldHaveRunningContainers ? withPhaseOf(merged, api) : merged;
  if (!isTerminalPhase(withheld.phase)) return withheld;
  return { ...withheld, conditions: (withheld.conditions ?? []).map((one) => notReady(one, withheld.phase ?? '')) };
}

function withPhaseOf({ reason: _reason, message: _message, ...status }: PodStatus, api: PodStatus): PodStatus {
  const { phase, reason, message } = api;
  return {
    ...status,
    ...(phase === undefined ? { phase: 'Pending' } : { phase }),
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
  };
}

function notReady(condition: PodCondition, phase: string): PodCondition {
  const { type, status, lastTransitionTime } = condition;
  if ((type !== 'Ready' && type !== 'ContainersReady') || status !== 'True') return condition;
  return { ...terminalReadiness(type, phase), ...(lastTransitionTime === undefined ? {} : { lastTransitionTime }) };
}

/** A strategic merge patch from one status to another; undefined when there is nothing to say. */
export function statusPatch(before: PodStatus, after: PodStatus): Readonly<Record<string, unknown>> | undefined {
  const patch: Record<string, unknown> = {};
  const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>];
  for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
    if (isDeepStrictEqual(old[key], now[key])) continue;
    if (key === 'conditions') {
      const conditions = conditionsPatch(before.conditions ?? [], after.conditions ?? []);
      if (conditions.length > 0) patch[key] = conditions;
    } else if (key === 'podIPs') patch[key] = [...(after.podIPs ?? []), { $patch: 'replace' }];
    else patch[key] = now[key] ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Conditions are merged by their type, so only those that differ are sent. */
function conditionsPatch(before: readonly PodCondition[], after: readonly PodCondition[]): readonly object[] {
  const changed = after.flatMap((condition) => {
    const old = before.find(({ type }) => type === condition.type);
    if (old !== undefined && isDeepStrictEqual({ ...old }, { ...condition })) return [];
    const { reason = null, message = null, ...rest } = condition;
    // A reason that is gone has to be said to be gone.
    return [
      {
        ...rest,
        ...(old?.reason !== undefined || reason ? { reason } : {}),
        ...(old?.message !== undefined || message ? { message } : {}),
      },
    ];
  });
  const gone = before
    .filter(({ type }) => !after.some((one) => one.type === type))
    .map(({ type }) => ({ type, $patch: 'delete' }));
  return [...changed, ...gone];
}
