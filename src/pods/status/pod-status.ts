/**
 * The status of a pod, computed each time from what runs, the status before, and why containers could not be started. The status
 * manager sends what has changed.
 */
import { bareContainerId } from '../../kube/kinds/pod/pod-identity.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import { type ContainerStatus, type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { qualityOfService } from '../../kube/references/pod-resources.ts';
import { type IdleContainers, idleConditionOf } from '../containers/idle-containers.ts';
import { newestInSandbox } from '../containers/runtime-containers.ts';
import { type ContainersInput, containerStatuses } from './container-statuses.ts';
import { type PodCondition, disruptionTarget, ownedConditions, podConditions, podPhase } from './pod-conditions.ts';

/** Why the node ends a pod. */
export interface Eviction {
  readonly reason: string;
  readonly message: string;
  /** The node needs the room: why, as the condition DisruptionTarget tells the pod's owner. */
  readonly disruption?: string | undefined;
}

interface StatusProbes {
  /** Its startup probe has succeeded, or it has none; undefined before the first result. */
  hasStarted(podUid: string, container: string, containerId: string): boolean | undefined;
  /** Its readiness probe succeeds, or it has none; undefined before the first result. */
  isReady(podUid: string, container: string, containerId: string): boolean | undefined;
}

interface PodStatusInput extends ContainersInput {
  /** The status before; that of the API server if there is none. */
  readonly previous: PodStatus;
  readonly probes: StatusProbes;
  readonly isTerminating: boolean;
  readonly hostIPs: readonly string[];
  readonly eviction: Eviction | undefined;
  readonly environment: PodCondition | undefined;
  readonly idle: IdleContainers;
  /** Whether a container that only idles counts as ready: not where other people's pods come. */
  readonly idleIsReady: boolean;
}

export function podStatus(input: PodStatusInput): PodStatus {
  const { pod, runtimePod, previous, eviction } = input;
  const { spec, metadata } = pod;
  const init = containerStatuses(input, 'init', spec.initContainers ?? [], previous.initContainerStatuses ?? []).map(
    (status) =>
      withProbes(
        input,
        status,
        (spec.initContainers ?? []).some((one) => one.name === status.name && isSidecar(one)),
      ),
  );
  const regular = containerStatuses(input, 'regular', spec.containers, previous.containerStatuses ?? []).map((status) =>
    withProbes(input, status, true),
  );
  const { ephemeralContainers = [] } = spec;
  const ephemeral = containerStatuses(
    input,
    'ephemeral',
    ephemeralContainers,
    previous.ephemeralContainerStatuses ?? [],
  );
  const statuses = [...init, ...regular];
  const wasInitialized = spec.containers.some(({ name }) => newestInSandbox(runtimePod, name) !== undefined);
  const computed = podPhase({ pod, statuses, isTerminating: input.isTerminating, wasInitialized });
  const phase = eviction === undefined ? monotonicPhase(computed, [pod.status?.phase, previous.phase]) : 'Failed';
  const isReplaced = (type: string): boolean => type === disruptionTarget && eviction?.disruption !== undefined;
  const foreign = (pod.status?.conditions ?? []).filter(
    ({ type }) => !ownedConditions.includes(type) && !isReplaced(type),
  );
  const conditions = podConditions({ pod, runtimePod, statuses, phase, foreign, idle: idleUnready(input) });
  const disruption = disruptionOf(input, foreign);
  const { generation } = metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  return {
    ...observed,
    phase,
    ...reasonOf(input, phase),
    conditions: [
      ...foreign,
      ...[...conditions, input.environment, idleConditionOf(input.idle), disruption].flatMap((condition) =>
        condition === undefined ? [] : [{ ...condition, ...observed }],
      ),
    ],
    ...addresses(input),
    ...(previous.startTime === undefined ? {} : { startTime: previous.startTime }),
    ...(init.length === 0 ? {} : { initContainerStatuses: init }),
    containerStatuses: regular,
    ...(ephemeral.length === 0 ? {} : { ephemeralContainerStatuses: ephemeral }),
    qosClass: qualityOfService(spec),
  };
}

/** Once the node has decided to end the pod it stays decided; what others said of it before is replaced. */
function disruptionOf(
  { eviction, previous }: PodStatusInput,
  foreign: readonly PodCondition[],
): PodCondition | undefined {
  const type = disruptionTarget;
  if (eviction?.disruption !== undefined) {
    return { type, status: 'True', reason: 'TerminationByKubelet', message: eviction.disruption };
  }
  return foreign.some((one) => one.type === type) ? undefined : previous.conditions?.find((one) => one.type === type);
}

/** A pod that has ended stays so, whatever a restart of this program or a late container shows. */
function monotonicPhase(
  computed: ReturnType<typeof podPhase>,
  before: readonly (string | undefined)[],
): ReturnType<typeof podPhase> {
  if (isTerminalPhase(computed)) return computed;
  const end = before.find(isTerminalPhase);
  return end === 'Succeeded' || end === 'Failed' ? end : computed;
}

function reasonOf({ pod, previous, eviction }: PodStatusInput, phase: string): Pick<PodStatus, 'reason' | 'message'> {
  if (eviction !== undefined) return { reason: eviction.reason, message: eviction.message };
  const kept = [previous, pod.status ?? {}].find(
    (one) => one.phase === phase && (one.reason ?? one.message) !== undefined,
  );
  return {
    ...(kept?.reason === undefined ? {} : { reason: kept.reason }),
    ...(kept?.message === undefined ? {} : { message: kept.message }),
  };
}

function idleUnready({ idle, idleIsReady }: PodStatusInput): readonly string[] {
  return idleIsReady ? [] : idle.idle;
}

/** For a container that was adopted, the status from before the restart of this program holds until its probes have run. */
function withProbes(input: PodStatusInput, status: ContainerStatus, isProbed: boolean): ContainerStatus {
  const { pod, probes, previous } = input;
  const uid = pod.metadata.uid ?? '';
  const { name, state, containerID = '' } = status;
  const isRunning = state?.running !== undefined;
  if (!isProbed) {
    return { ...status, started: isRunning, ready: state?.terminated?.exitCode === 0 };
  }
  const id = bareContainerId(containerID);
  const { initContainerStatuses = [], containerStatuses: regular = [] } = previous;
  const before = [...initContainerStatuses, ...regular].find(
    (one) => one.name === name && one.containerID === containerID,
  );
  const started = isRunning && (probes.hasStarted(uid, name, id) ?? before?.started ?? false);
  const mayBeReady = started && !idleUnready(input).includes(name);
  return { ...status, started, ready: mayBeReady && (probes.isReady(uid, name, id) ?? before?.ready ?? false) };
}

function addresses({ pod, runtimePod, previous, hostIPs }: PodStatusInput): PodStatus {
  const [hostIP] = hostIPs;
  const before = previous.podIPs ?? (previous.podIP === undefined ? [] : [{ ip: previous.podIP }]);
  const { state, ips = [], hostNetwork = false } = runtimePod ?? {};
  const own = pod.spec.hostNetwork === true || (state === 'ready' && hostNetwork) ? hostIPs : ips;
  // The addresses of a pod that has ended stay in its status.
  const podIPs = own.length > 0 ? own.map((ip) => ({ ip })) : before;
  const [first] = podIPs;
  return {
    ...(hostIP === undefined ? {} : { hostIP, hostIPs: hostIPs.map((ip) => ({ ip })) }),
    ...(first === undefined ? {} : { podIP: first.ip, podIPs }),
  };
}

export const deadlineExceeded: Eviction = {
  reason: 'DeadlineExceeded',
  message: 'Pod was active on the node longer than the specified deadline',
};

/** When a pod with `activeDeadlineSeconds` has to end. */
export function activeDeadlineMs({ spec }: Pod, { startTime }: PodStatus = {}): number | undefined {
  const { activeDeadlineSeconds: seconds } = spec;
  return seconds === undefined || startTime === undefined ? undefined : Date.parse(startTime) + seconds * 1000;
}
