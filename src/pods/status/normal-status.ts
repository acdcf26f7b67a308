/** A status as it is kept and compared: with the times of what did not change, and within the API's bounds. Pure. */
import { containerNamed } from '../../kube/kinds/pod/pod-spec.ts';
import type { ContainerStatus, PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../kube/values/times.ts';
import { restartsAfter } from '../containers/container-restart.ts';
import { ownedConditions } from './pod-conditions.ts';

/** Of all termination messages of a pod together. */
const messageBytesMax = 12 * 1024;

/** Keeps the time a condition last changed, and the time the pod started, from the status before. */
export function withTimes(status: PodStatus, before: PodStatus | undefined, nowMs: number): PodStatus {
  const now = timestamp(nowMs);
  const conditions = (status.conditions ?? []).map((condition) => {
    if (!ownedConditions.includes(condition.type)) return condition;
    const old = before?.conditions?.find(({ type }) => type === condition.type);
    const isSame = old?.status === condition.status && old.lastTransitionTime !== undefined;
    return { ...condition, lastTransitionTime: isSame ? old.lastTransitionTime : now };
  });
  return { ...status, conditions, startTime: before?.startTime ?? status.startTime ?? now };
}

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
  // A character that was cut in two is left out.
  const message = bytes
    .subarray(0, bytesMax)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
  return { ...state, terminated: { ...terminated, message } };
}

/** Why a status cannot follow the one before: what has ended for good does not run again. */
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
