/**
 * What has to be done so that the containers of a pod are as they should be. Computed from the desired and the actual state, never
 * from events; carried out repeatedly, it leaves nothing to do.
 */
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import { containerHash, hashAnnotation, newest, newestInSandbox } from './runtime-containers.ts';

export type KillReason =
  | 'livenessProbe'
  | 'startupProbe'
  | 'changed'
  | 'unknown'
  | 'postStartHook'
  | 'restartAll'
  | 'podEnds';

interface ContainerKill {
  readonly id: string;
  readonly name: string;
  readonly message: string;
  readonly reason: KillReason;
}

export interface ContainerPlan {
  /** All containers are ended first. Without `createSandbox` nothing follows: the pod is done. */
  readonly killPod: boolean;
  readonly createSandbox: boolean;
  /** IDs of containers that go, in this order, before anything else is planned: all containers start over in the same sandbox. */
  readonly reset: readonly string[];
  readonly kill: readonly ContainerKill[];
  /** Names, in the order in which they start. */
  readonly startInit: readonly string[];
  readonly startEphemeral: readonly string[];
  readonly start: readonly string[];
}

export interface ProbeVerdicts {
  /** Undefined before the first verdict, and for a container without such a probe. */
  get(kind: 'liveness' | 'readiness' | 'startup', containerId: string): boolean | undefined;
}

type RestartRule = NonNullable<AnyContainer['restartPolicyRules']>[number];

const nothing: ContainerPlan = {
  killPod: false,
  createSandbox: false,
  reset: [],
  kill: [],
  startInit: [],
  startEphemeral: [],
  start: [],
};

export function planContainers(pod: Pod, runtimePod: RuntimePod | undefined, probes: ProbeVerdicts): ContainerPlan {
  if (runtimePod?.state !== 'ready') return planFromScratch(pod, runtimePod);
  const reset = planReset(pod, runtimePod);
  if (reset.length > 0) return { ...nothing, reset };
  const startEphemeral = (pod.spec.ephemeralContainers ?? [])
    .map(({ name }) => name)
    .filter((name) => newest(runtimePod, name) === undefined);
  const init = planInit(pod, runtimePod, probes);
  if (init.outcome === 'failed') return { ...nothing, killPod: true, startEphemeral };
  const { startInit } = init;
  if (init.outcome === 'waiting') return { ...nothing, kill: init.kill, startInit, startEphemeral };
  const { kill, start, kept } = planRegular(pod, runtimePod, probes);
  // Sidecars alone do not keep a pod alive.
  if (kept === 0 && start.length === 0) return { ...nothing, killPod: true, startEphemeral };
  return { ...nothing, kill: [...init.kill, ...kill], startInit, startEphemeral, start };
}

/** Whether a container ended in a way for which its pod wants all containers to start over. */
export function restartsAll(pod: Pod, runtimePod: RuntimePod | undefined): boolean {
  const { containers, initContainers = [] } = pod.spec;
  return [...initContainers, ...containers].some((container) => {
    const state = newest(runtimePod, container.name)?.state;
    return state?.kind === 'exited' && restartRule(container, state.exitCode)?.action === 'RestartAllContainers';
  });
}

export function canRestartAll({ spec }: Pod): boolean {
  return [...(spec.initContainers ?? []), ...spec.containers].some(({ restartPolicyRules = [] }) =>
    restartPolicyRules.some(({ action }) => action === 'RestartAllContainers'),
  );
}

/** What ended so goes last: a program that starts again in between still sees that all have to go. */
function planReset(pod: Pod, runtimePod: RuntimePod): readonly string[] {
  if (!restartsAll(pod, runtimePod)) return [];
  const targets: string[] = [];
  const sources: string[] = [];
  for (const container of [...pod.spec.containers, ...(pod.spec.initContainers ?? [])]) {
    for (const { id, name, state } of runtimePod.containers) {
      if (name !== container.name) continue;
      const isSource =
        state.kind === 'exited' && restartRule(container, state.exitCode)?.action === 'RestartAllContainers';
      (isSource ? sources : targets).push(id);
    }
  }
  return [...targets, ...sources];
}

/** The sandbox that containers share is gone or not ready: everything starts over, unless the pod is done. */
function planFromScratch(pod: Pod, runtimePod: RuntimePod | undefined): ContainerPlan {
  const { containers, initContainers = [], restartPolicy = 'Always' } = pod.spec;
  const hadContainers = (runtimePod?.containers.length ?? 0) > 0;
  if (restartPolicy === 'Never' && hadContainers) return { ...nothing, killPod: true };
  const start = containers
    .filter((container) => !(runsOnce(container, restartPolicy) && hasSucceeded(newest(runtimePod, container.name))))
    .map(({ name }) => name);
  const wasInitialized = containers.some(({ name }) => newest(runtimePod, name) !== undefined);
  if (start.length === 0 && wasInitialized) return { ...nothing, killPod: true };
  const [firstInit] = initContainers;
  const begin = { ...nothing, killPod: true, createSandbox: true };
  return firstInit === undefined ? { ...begin, start } : { ...begin, startInit: [firstInit.name] };
}

function runsOnce({ restartPolicy }: AnyContainer, ofPod: string): boolean {
  return (restartPolicy ?? ofPod) === 'OnFailure';
}

function hasSucceeded(container: RuntimeContainer | undefined): boolean {
  return container?.state.kind === 'exited' && container.state.exitCode === 0;
}

interface InitPlan {
  readonly outcome: 'initialized' | 'waiting' | 'failed';
  readonly kill: readonly ContainerKill[];
  readonly startInit: readonly string[];
}

/**
 * Goes from the last init container to the first: the latest that was ever started shows how far the pod came, since earlier
 * ones may have been removed. Those before it are done, but sidecars among them have to run.
 */
function planInit(pod: Pod, runtimePod: RuntimePod, probes: ProbeVerdicts): InitPlan {
  const { initContainers = [], containers } = pod.spec;
  if (initContainers.length === 0) return { outcome: 'initialized', kill: [], startInit: [] };
  let initialized = containers.some(({ name }) => newestInSandbox(runtimePod, name) !== undefined);
  let isPast = initialized;
  const kill: ContainerKill[] = [];
  const start = new Set<number>();
  for (let index = initContainers.length - 1; index >= 0; index -= 1) {
    const container = initContainers[index];
    if (container === undefined) continue;
    const latest = newestInSandbox(runtimePod, container.name);
    if (latest === undefined) {
      if (isPast && isSidecar(container)) start.add(index);
      continue;
    }
    if (isPast && !isSidecar(container)) continue;
    const step = isSidecar(container)
      ? planSidecar(container, latest, probes)
      : planInitContainer(container, pod, latest);
    if (step === 'failed') return { outcome: 'failed', kill: [], startInit: [] };
    if (step.kill !== undefined) kill.push(step.kill);
    if (step.start) start.add(index);
    if (step.done && index === initContainers.length - 1) initialized = true;
    else if (step.done && !isPast) start.add(index + 1);
    isPast = true;
  }
  if (!isPast) start.add(0);
  const startInit = initContainers.filter((_, index) => start.has(index)).map(({ name }) => name);
  return { outcome: initialized ? 'initialized' : 'waiting', kill: kill.toReversed(), startInit };
}

interface InitStep {
  /** The next one may start. */
  readonly done: boolean;
  readonly start: boolean;
  readonly kill?: ContainerKill;
}

function planSidecar(container: AnyContainer, latest: RuntimeContainer, probes: ProbeVerdicts): InitStep {
  const { name } = container;
  const { id, state } = latest;
  if (state.kind === 'unknown') return { done: false, start: true, kill: unknownKill('Init container', latest) };
  if (state.kind !== 'running') return { done: false, start: true };
  const restart = (done: boolean, message: string, reason: KillReason): InitStep => ({
    done,
    start: true,
    kill: { id, name, message: `Init container ${name} ${message}`, reason },
  });
  if (container.startupProbe !== undefined) {
    const isUp = probes.get('startup', id);
    if (isUp === false) return restart(false, 'failed startup probe', 'startupProbe');
    if (isUp === undefined) return { done: false, start: false };
  }
  if (hasChanged(container, latest)) return restart(true, 'definition changed', 'changed');
  if (container.livenessProbe !== undefined && probes.get('liveness', id) === false) {
    return restart(true, 'failed liveness probe', 'livenessProbe');
  }
  return { done: true, start: false };
}

function planInitContainer(container: AnyContainer, pod: Pod, latest: RuntimeContainer): InitStep | 'failed' {
  const { state } = latest;
  switch (state.kind) {
    case 'created':
      return { done: false, start: true };
    case 'unknown':
      if (!restartsOnFailure(container, pod)) return 'failed';
      return { done: false, start: true, kill: unknownKill('Init container', latest) };
    case 'running':
      return { done: false, start: false };
    case 'exited':
      // One that lost a process for want of memory may not have done its work, whatever it says.
      if (state.exitCode === 0 && state.reason !== 'OOMKilled') return { done: true, start: false };
      return restartsAfter(container, pod, state.exitCode) ? { done: false, start: true } : 'failed';
  }
}

/** It may still run, and two of a name must not. */
function unknownKill(what: string, { id, name }: RuntimeContainer): ContainerKill {
  return { id, name, message: `${what} is in "unknown" state, try killing it before restart`, reason: 'unknown' };
}

function planRegular(
  pod: Pod,
  runtimePod: RuntimePod,
  probes: ProbeVerdicts,
): { readonly kill: readonly ContainerKill[]; readonly start: readonly string[]; readonly kept: number } {
  const kill: ContainerKill[] = [];
  const start: string[] = [];
  let kept = 0;
  for (const container of pod.spec.containers) {
    const { name } = container;
    const latest = newest(runtimePod, name);
    if (latest?.state.kind !== 'running') {
      if (!shouldStart(container, pod, latest)) continue;
      if (latest?.state.kind === 'unknown') kill.push(unknownKill('Container', latest));
      start.push(name);
      continue;
    }
    const fault = faultOf(container, latest, probes);
    if (fault === undefined) {
      kept += 1;
      continue;
    }
    const restart = fault.reason === 'changed' || restartsOnFailure(container, pod);
    const message = `Container ${name} ${fault.message}${restart ? ', will be restarted' : ''}`;
    kill.push({ id: latest.id, name, message, reason: fault.reason });
    if (restart) start.push(name);
  }
  return { kill, start, kept };
}

function faultOf(
  container: AnyContainer,
  latest: RuntimeContainer,
  probes: ProbeVerdicts,
): { readonly message: string; readonly reason: KillReason } | undefined {
  if (hasChanged(container, latest)) return { message: 'definition changed', reason: 'changed' };
  if (probes.get('liveness', latest.id) === false) return { message: 'failed liveness probe', reason: 'livenessProbe' };
  if (probes.get('startup', latest.id) === false) return { message: 'failed startup probe', reason: 'startupProbe' };
  return undefined;
}

/** A container that another program created has no hash and is left as it is. */
function hasChanged(container: AnyContainer, { annotations }: RuntimeContainer): boolean {
  const made = annotations[hashAnnotation];
  return made !== undefined && made !== containerHash(container);
}

/** Whether a container that is not running should run. */
export function shouldStart(container: AnyContainer, pod: Pod, latest: RuntimeContainer | undefined): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (latest === undefined) return true;
  switch (latest.state.kind) {
    case 'running':
      return false;
    case 'unknown':
    case 'created':
      // Its start failed.
      return true;
    case 'exited':
      return restartsAfter(container, pod, latest.state.exitCode);
  }
}

export function restartsAfter(container: AnyContainer, { spec }: Pod, exitCode: number): boolean {
  if (container.restartPolicy === undefined) return policyAllows(spec.restartPolicy ?? 'Always', exitCode);
  return restartRule(container, exitCode) !== undefined || policyAllows(container.restartPolicy, exitCode);
}

/** The first that speaks of this exit code: to start the container again, or all of them. */
function restartRule(
  { restartPolicy, restartPolicyRules = [] }: AnyContainer,
  exitCode: number,
): RestartRule | undefined {
  if (restartPolicy === undefined) return undefined;
  return restartPolicyRules.find(({ action, exitCodes }) => {
    const listed = exitCodes?.values?.includes(exitCode) ?? false;
    const applies = exitCodes?.operator === 'NotIn' ? !listed : exitCodes?.operator === 'In' && listed;
    return applies && (action === 'Restart' || action === 'RestartAllContainers');
  });
}

/** Whether a container that the node ends because a probe failed is started again. */
function restartsOnFailure(container: AnyContainer, { spec }: Pod): boolean {
  return isSidecar(container) || (container.restartPolicy ?? spec.restartPolicy ?? 'Always') !== 'Never';
}

function policyAllows(policy: string, exitCode: number): boolean {
  return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
}
