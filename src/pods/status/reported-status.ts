/**
 * From the status that was computed to the one that is sent: times and bounds, the merge with what others own at the API server,
 * the patch, and the last status of a pod.
 */
import { isDeepStrictEqual } from 'node:util';
import { isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import { containerNamed, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import { type ContainerStatus, type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../kube/values/times.ts';
import { restartsAfter } from '../containers/plan-containers.ts';
import { unknownExit } from './container-statuses.ts';
import { type PodCondition, disruptionTarget, ownedConditions, terminalReadiness } from './pod-conditions.ts';

/** The node's status over that of the API server. What others own there stays. */
export function mergeStatus(api: PodStatus, own: PodStatus, couldHaveRunningContainers: boolean): PodStatus {
  const foreign = (api.conditions ?? []).filter(({ type }) => !ownedConditions.includes(type));
  const owned = (own.conditions ?? []).filter(({ type }) => ownedConditions.includes(type));
  const ends = isTerminalPhase(own.phase) && !isTerminalPhase(api.phase);
  // Sent with the phase, and not before.
  const disruption = (own.conditions ?? []).find(({ type }) => type === disruptionTarget);
  const shared = disruption !== undefined && ends && !couldHaveRunningContainers ? [disruption] : [];
  const { resourceClaimStatuses, nominatedNodeName } = api;
  const merged: PodStatus = {
    ...own,
    ...(resourceClaimStatuses === undefined ? {} : { resourceClaimStatuses }),
    ...(nominatedNodeName === undefined ? {} : { nominatedNodeName }),
    conditions: [...foreign.filter(({ type }) => !shared.some((one) => one.type === type)), ...owned, ...shared],
  };
  // A controller may start a successor when it sees that a pod has ended, so that is not sent while something still runs.
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

/** A strategic merge patch from one status to another; undefined when they are equal. */
export function statusPatch(before: PodStatus, after: PodStatus): Readonly<Record<string, unknown>> | undefined {
  const patch: Record<string, unknown> = {};
  const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>];
  for (const key of new Set([...Object.keys(old), ...Object.keys(now)])) {
    if (isDeepStrictEqual(old[key], now[key])) continue;
    if (key === 'conditions') {
      const conditions = conditionsPatch(before.conditions ?? [], after.conditions ?? []);
      if (conditions.length > 0) patch[key] = conditions;
    } else if (key === 'podIPs' || key === 'hostIPs') patch[key] = addressesPatch(before[key], after[key]);
    else patch[key] = now[key] ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Merged by address, the old ones would stay. Servers before 1.28 take a directive for an address where there were none. */
function addressesPatch(before: readonly object[] | undefined, after: readonly object[] = []): readonly object[] {
  return before === undefined ? after : [...after, { $patch: 'replace' }];
}

/** Conditions are merged by their type, so only those that differ are sent. */
function conditionsPatch(before: readonly PodCondition[], after: readonly PodCondition[]): readonly object[] {
  const changed = after.flatMap((condition) => {
    const old = before.find(({ type }) => type === condition.type);
    if (old !== undefined && isDeepStrictEqual({ ...old }, { ...condition })) return [];
    const { reason = null, message = null, ...rest } = condition;
    // A field that is gone is sent as null.
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

/** Of all termination messages of a pod together. */
const messageBytesMax = 12 * 1024;

/** Keeps the time a condition last changed, and the time the pod started, from the status before. */
export function withTimes(status: PodStatus, before: PodStatus | undefined, nowMs: number): PodStatus {
  const now = timestamp(nowMs);
  const conditions = (status.conditions ?? []).map((condition) => {
    if (![...ownedConditions, disruptionTarget].includes(condition.type)) return condition;
    const old = before?.conditions?.find(({ type }) => type === condition.type);
    const isSame = old?.status === condition.status && old.lastTransitionTime !== undefined;
    return { ...condition, lastTransitionTime: isSame ? old.lastTransitionTime : now };
  });
  return { ...status, conditions, startTime: before?.startTime ?? status.startTime ?? now };
}

/** Cuts termination messages to the bounds of the API. */
export function withinBounds(status: PodStatus): PodStatus {
  const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] } = status;
  const count = initContainerStatuses.length + containerStatuses.length + ephemeralContainerStatuses.length;
  const bytesMax = Math.floor(messageBytesMax / Math.max(count, 1));
  const cut = (one: ContainerStatus): ContainerStatus => ({
    ...one,
    ...(one.state === undefined ? {} : { state: cutMessage(one.state, bytesMax) }),
    ...(one.lastState === undefined ? {} : { lastState: cutMessage(one.lastState, bytesMax) }),
  });
  return {
    ...status,
    ...(initContainerStatuses.length === 0 ? {} : { initContainerStatuses: initContainerStatuses.map(cut) }),
    containerStatuses: containerStatuses.map(cut),
    ...(ephemeralContainerStatuses.length === 0
      ? {}
      : { ephemeralContainerStatuses: ephemeralContainerStatuses.map(cut) }),
  };
}

function cutMessage(
  state: NonNullable<ContainerStatus['state']>,
  bytesMax: number,
): NonNullable<ContainerStatus['state']> {
  const { terminated } = state;
  if (terminated?.message === undefined) return state;
  const bytes = Buffer.from(terminated.message);
  if (bytes.length <= bytesMax) return state;
  // Leaves out a character that was cut in two.
  const message = bytes
    .subarray(0, bytesMax)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  return { ...state, terminated: { ...terminated, message } };
}

/** Why a status cannot follow the one before: a container that has ended for good does not run again. */
export function illegalTransition(pod: Pod, before: PodStatus, after: PodStatus): string | undefined {
  if ((pod.spec.restartPolicy ?? 'Always') === 'Always') return undefined;
  const pairs = [
    [before.containerStatuses, after.containerStatuses],
    [before.initContainerStatuses, after.initContainerStatuses],
  ] as const;
  for (const [old = [], now = []] of pairs) {
    for (const { name, state } of old) {
      const container = containerNamed(pod, name);
      if (state?.terminated === undefined || container === undefined) continue;
      if (restartsAfter(container, pod, state.terminated.exitCode)) continue;
      const next = now.find((one) => one.name === name);
      if (next === undefined || next.state?.terminated !== undefined) continue;
      return `terminated container ${name} attempted illegal transition to non-terminated state`;
    }
  }
  return undefined;
}

/** The last status of a pod: nothing of it runs any more, so nothing in it may look as if it did. */
export function finalStatus(pod: Pod, status: PodStatus): PodStatus {
  const { initContainerStatuses = [], containerStatuses = [], phase } = status;
  const started = startedCount(initContainerStatuses);
  const init = initContainerStatuses.map((one, index) => (index < started ? ended(one) : one));
  const regular = wasInitialized(pod, status) ? containerStatuses.map(ended) : containerStatuses;
  return {
    ...status,
    // Whether it would have succeeded is unknown.
    ...(isTerminalPhase(phase) || isStaticPod(pod) ? {} : { phase: 'Failed' }),
    ...(init.length === 0 ? {} : { initContainerStatuses: init }),
    containerStatuses: regular,
  };
}

function ended(status: ContainerStatus): ContainerStatus {
  if (status.state?.terminated !== undefined) return status;
  const message = 'The container could not be located when the pod was terminated';
  return { ...status, state: { terminated: { ...unknownExit, message } } };
}

/** All but those at the end that never started. If all wait, the first one was tried. */
function startedCount(statuses: readonly ContainerStatus[]): number {
  const last = statuses.findLastIndex(
    ({ state, lastState }) => state?.waiting === undefined || lastState?.terminated !== undefined,
  );
  return Math.max(last + 1, Math.min(statuses.length, 1));
}

function wasInitialized({ spec }: Pod, { containerStatuses = [], initContainerStatuses = [] }: PodStatus): boolean {
  const last = spec.initContainers?.at(-1);
  if (last === undefined) return true;
  if (
    containerStatuses.some(
      ({ state, lastState }) => lastState?.terminated !== undefined || state?.waiting === undefined,
    )
  ) {
    return true;
  }
  const status = initContainerStatuses.find(({ name }) => name === last.name);
  if (isSidecar(last)) return status?.started === true;
  return status?.state?.terminated?.exitCode === 0 || status?.lastState?.terminated?.exitCode === 0;
}
