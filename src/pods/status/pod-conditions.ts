/** The phase of a pod, and the conditions that its node owns. The status manager adds when they last changed. */
import { isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import { type ContainerStatus, type PodStatus, idleCondition } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { canRestartAll, restartsAfter, restartsAll } from '../containers/plan-containers.ts';

export type PodCondition = NonNullable<PodStatus['conditions']>[number];

/** In the order in which they are listed, after those of others. */
export const ownedConditions: readonly string[] = [
  'PodReadyToStartContainers',
  'Initialized',
  'Ready',
  'ContainersReady',
  'PodScheduled',
  'AllContainersRestarting',
  'mountlet.dev/EnvironmentCurrent',
  idleCondition,
];

/** Says that the pod ends for the sake of others. Nodes set it as well as the control plane does. */
export const disruptionTarget = 'DisruptionTarget';

interface ConditionsInput {
  readonly pod: Pod;
  readonly runtimePod: RuntimePod | undefined;
  readonly statuses: readonly ContainerStatus[];
  readonly phase: PodPhase;
  /** Containers that only idle and for that reason are not ready. */
  readonly idle: readonly string[];
  /** Conditions of others, which readiness gates may require. */
  readonly foreign: readonly PodCondition[];
}

export function podConditions(input: ConditionsInput): readonly PodCondition[] {
  const containersReady = containersReadyCondition(input);
  return [
    sandboxCondition(input),
    initializedCondition(input),
    readyCondition(input, containersReady),
    containersReady,
    { type: 'PodScheduled', status: 'True' },
    ...(canRestartAll(input.pod) ? [restartingCondition(input)] : []),
  ];
}

/** A pod that has ended is not ready, whatever its containers were last. */
export function terminalReadiness(type: string, phase: string): PodCondition {
  return { type, status: 'False', reason: phase === 'Succeeded' ? 'PodCompleted' : 'PodFailed' };
}

function sandboxCondition({ runtimePod }: ConditionsInput): PodCondition {
  const type = 'PodReadyToStartContainers';
  if (runtimePod?.state === 'ready') return { type, status: 'True' };
  const message =
    runtimePod === undefined ? 'no pod sandbox exists' : (runtimePod.problem ?? 'pod sandbox is not ready');
  return { type, status: 'False', reason: 'PodSandboxNotReady', message };
}

function restartingCondition({ pod, runtimePod }: ConditionsInput): PodCondition {
  const type = 'AllContainersRestarting';
  if (!restartsAll(pod, runtimePod)) return { type, status: 'False' };
  const message = 'container exited with restart policy rule';
  return { type, status: 'True', reason: 'RestartAllContainersStarted', message };
}

function initializedCondition({ pod, statuses, phase }: ConditionsInput): PodCondition {
  const type = 'Initialized';
  const { initContainers = [], containers } = pod.spec;
  const unknown: string[] = [];
  const incomplete: string[] = [];
  for (const container of initContainers) {
    const status = statuses.find(({ name }) => name === container.name);
    if (status === undefined) unknown.push(container.name);
    else if (!(isSidecar(container) ? status.started : status.ready)) incomplete.push(container.name);
  }
  if (phase === 'Succeeded' && unknown.length === 0) return { type, status: 'True', reason: 'PodCompleted' };
  if (containers.some(({ name }) => hasStarted(statuses.find((one) => one.name === name))))
    return { type, status: 'True' };
  const message = [listed('unknown', unknown), listed('incomplete', incomplete)].flat().join(', ');
  return message === ''
    ? { type, status: 'True' }
    : { type, status: 'False', reason: 'ContainersNotInitialized', message };
}

function hasStarted(status: ContainerStatus | undefined): boolean {
  const { state, lastState } = status ?? {};
  return state?.running !== undefined || state?.terminated !== undefined || lastState?.terminated !== undefined;
}

function containersReadyCondition({ pod, statuses, phase, idle }: ConditionsInput): PodCondition {
  const type = 'ContainersReady';
  const counted = [...(pod.spec.initContainers ?? []).filter(isSidecar), ...pod.spec.containers];
  const unknown: string[] = [];
  const unready: string[] = [];
  for (const { name } of counted) {
    const status = statuses.find((one) => one.name === name);
    if (status === undefined) unknown.push(name);
    else if (!status.ready) unready.push(name);
  }
  if (phase === 'Failed' || (phase === 'Succeeded' && unknown.length === 0)) return terminalReadiness(type, phase);
  const parts = [...listed('unknown', unknown), ...listed('unready', unready)];
  if (parts.length === 0) return { type, status: 'True' };
  const why =
    idle.length === 0 ? [] : [`containers that only idle, since this runtime has no images: [${idle.join(' ')}]`];
  return { type, status: 'False', reason: 'ContainersNotReady', message: [...parts, ...why].join(', ') };
}

function readyCondition({ pod, foreign }: ConditionsInput, containersReady: PodCondition): PodCondition {
  const type = 'Ready';
  if (containersReady.status !== 'True') return { ...containersReady, type };
  const problems = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const condition = foreign.find((one) => one.type === conditionType);
    if (condition === undefined) {
      return [`corresponding condition of pod readiness gate "${conditionType}" does not exist.`];
    }
    if (condition.status === 'True') return [];
    return [`the status of pod readiness gate "${conditionType}" is not "True", but ${condition.status}`];
  });
  if (problems.length === 0) return { type, status: 'True' };
  return { type, status: 'False', reason: 'ReadinessGatesNotReady', message: problems.join(', ') };
}

/** As Go prints a list of strings. */
function listed(what: string, names: readonly string[]): readonly string[] {
  return names.length === 0 ? [] : [`containers with ${what} status: [${names.join(' ')}]`];
}

type PodPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

interface PhaseInput {
  readonly pod: Pod;
  readonly statuses: readonly ContainerStatus[];
  /** Its containers are not started again, whatever the restart policy. */
  readonly isTerminating: boolean;
  /** A regular container was created in the current sandbox. */
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
  // A sidecar that ended does not count. One that runs keeps the pod running.
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

/** One that waits but has run before counts as stopped: it will be restarted. */
function standingOf(status: ContainerStatus | undefined): Standing {
  const { running, terminated, waiting } = status?.state ?? {};
  if (running !== undefined) return status?.started === false ? 'starting' : 'running';
  if (terminated !== undefined) return 'stopped';
  if (waiting === undefined) return 'unknown';
  return status?.lastState?.terminated === undefined ? 'waiting' : 'stopped';
}
