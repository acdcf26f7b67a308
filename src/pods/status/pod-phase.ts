/** The phase of a pod, from the states of its containers. Pure. */
import { isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { ContainerStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { restartsAfter } from '../containers/container-restart.ts';

export type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

interface PhaseInput {
  readonly pod: Pod;
  readonly statuses: readonly ContainerStatus[];
  /** Its containers are not started again, whatever the restart policy. */
  readonly isTerminating: boolean;
  /** A container that is no init container was made in the pod as it is now. */
  readonly wasInitialized: boolean;
}

type Standing = 'running' | 'starting' | 'stopped' | 'waiting' | 'unknown';

export function podPhase({ pod, statuses, isTerminating, wasInitialized }: PhaseInput): PodPhase {
  const { initContainers = [], containers } = pod.spec;
  const statusOf = (name: string): ContainerStatus | undefined => statuses.find((one) => one.name === name);
  const endOf = (name: string): number | undefined => exitCodeOf(statusOf(name));

  const ordinary = initContainers.filter((container) => !isSidecar(container));
  const hasFailedForGood = ordinary.some((container) => {
    const exitCode = endOf(container.name);
    return exitCode !== undefined && exitCode !== 0 && !restartsAfter(container, pod, exitCode);
  });
  if (hasFailedForGood) return 'Failed';
  if (ordinary.some(({ name }) => standingOf(statusOf(name)) !== 'stopped')) return 'Pending';

  const sidecars = initContainers.filter(isSidecar).map(({ name }) => standingOf(statusOf(name)));
  if (!wasInitialized && sidecars.some((one) => one !== 'running' && one !== 'stopped')) return 'Pending';

  const standings = containers.map(({ name }) => standingOf(statusOf(name)));
  // A sidecar that ended does not count; one that runs keeps the pod running.
  const all = [...standings, ...sidecars.filter((one) => one !== 'stopped')];
  if (all.includes('waiting')) return 'Pending';
  if (all.includes('unknown')) return 'Pending';
  if (all.some((one) => one === 'running' || one === 'starting')) return 'Running';
  if (!standings.includes('stopped')) return 'Pending';
  const exits = containers.map((container) => ({ container, exitCode: endOf(container.name) ?? 0 }));
  const allSucceeded = exits.every(({ exitCode }) => exitCode === 0);
  if (isTerminating && !isStaticPod(pod)) return allSucceeded ? 'Succeeded' : 'Failed';
  if (exits.some(({ container, exitCode }) => restartsAfter(container, pod, exitCode))) return 'Running';
  return allSucceeded ? 'Succeeded' : 'Failed';
}

function exitCodeOf(status: ContainerStatus | undefined): number | undefined {
  if (status?.state?.terminated !== undefined) return status.state.terminated.exitCode;
  return status?.state?.waiting === undefined ? undefined : status.lastState?.terminated?.exitCode;
}

/** One that waits but has run before counts as stopped: it will be started again. */
function standingOf(status: ContainerStatus | undefined): Standing {
  const { running, terminated, waiting } = status?.state ?? {};
  if (running !== undefined) return status?.started === false ? 'starting' : 'running';
  if (terminated !== undefined) return 'stopped';
  if (waiting === undefined) return 'unknown';
  return status?.lastState?.terminated === undefined ? 'waiting' : 'stopped';
}
