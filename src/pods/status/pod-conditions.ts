/** The conditions of a pod that its node owns. Pure; when they last changed is the status manager's business. */
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { ContainerStatus, PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import type { PodPhase } from './pod-phase.ts';

export type PodCondition = NonNullable<PodStatus['conditions']>[number];

/** In the order in which they are listed, after those of others. */
export const ownedConditions: readonly string[] = [
  'PodReadyToStartContainers',
  'Initialized',
  'Ready',
  'ContainersReady',
  'PodScheduled',
  'mountlet.dev/EnvironmentCurrent',
];

interface ConditionsInput {
  readonly pod: Pod;
  readonly runtimePod: RuntimePod | undefined;
  readonly statuses: readonly ContainerStatus[];
  readonly phase: PodPhase;
  /** Conditions of others: a readiness gate asks for them. */
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
  ];
}

/** A pod that has ended is not ready, whatever its containers were last. */
export function terminalReadiness(type: string, phase: string): PodCondition {
  return { type, status: 'False', reason: phase === 'Succeeded' ? 'PodCompleted' : 'PodFailed' };
}

function sandboxCondition({ runtimePod }: ConditionsInput): PodCondition {
  const type = 'PodReadyToStartContainers';
  if (runtimePod?.state === 'ready') return { type, status: 'True' };
  const message = runtimePod === undefined ? 'no pod sandbox exists' : 'no pod sandbox is ready';
  return { type, status: 'False', reason: 'PodSandboxNotReady', message };
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

function containersReadyCondition({ pod, statuses, phase }: ConditionsInput): PodCondition {
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
  const message = [listed('unknown', unknown), listed('unready', unready)].flat().join(', ');
  return message === '' ? { type, status: 'True' } : { type, status: 'False', reason: 'ContainersNotReady', message };
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
