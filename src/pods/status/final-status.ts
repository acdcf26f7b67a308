/** The last status of a pod: nothing of it runs any more, so nothing in it may look as if it did. Pure. */
import { isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import { type ContainerStatus, type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { unknownExit } from './container-statuses.ts';

export function finalStatus(pod: Pod, status: PodStatus): PodStatus {
  const { initContainerStatuses = [], containerStatuses = [], phase } = status;
  const started = startedCount(initContainerStatuses);
  const init = initContainerStatuses.map((one, index) => (index < started ? ended(one) : one));
  const regular = wasInitialized(pod, status) ? containerStatuses.map(ended) : containerStatuses;
  return {
    ...status,
    // Whether it would have succeeded nobody knows.
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

/** All but those at the end that never started; of containers that all wait, the first one was tried. */
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
