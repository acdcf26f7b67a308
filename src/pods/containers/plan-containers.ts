/**
 * What has to be done so that the containers of a pod are as they should be. Computed from the desired and the actual state, never
 * from events; carried out repeatedly, it leaves nothing to do.
 */
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import { containerHash, hashLabel, newest, newestInSandbox } from './runtime-containers.ts';

export type KillReason = 'livenessProbe' | 'startupProbe' | 'changed' | 'postStartHook' | 'podEnds';

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

const nothing: ContainerPlan = {
  killPod: false,
  createSandbox: false,
  kill: [],
  startInit: [],
  startEphemeral: [],
  start: [],
};

export function planContainers(pod: Pod, runtimePod: RuntimePod | undefined, probes: ProbeVerdicts): ContainerPlan {
  if (runtimePod?.state !== 'ready') return planFromScratch(pod, runtimePod);
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

function planInitContainer(container: AnyContainer, pod: Pod, { state }: RuntimeContainer): InitStep | 'failed' {
  switch (state.kind) {
    case 'created':
      return { done: false, start: true };
    case 'running':
      return { done: false, start: false };
    case 'exited':
      if (state.exitCode === 0) return { done: true, start: false };
      return restartsAfter(container, pod, state.exitCode) ? { done: false, start: true } : 'failed';
  }
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
      if (shouldStart(container, pod, latest)) start.push(name);
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
function hasChanged(container: AnyContainer, { labels }: RuntimeContainer): boolean {
  const made = labels[hashLabel];
  return made !== undefined && made !== containerHash(container);
}

/** Whether a container that is not running should run. */
export function shouldStart(container: AnyContainer, pod: Pod, latest: RuntimeContainer | undefined): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (latest === undefined) return true;
  switch (latest.state.kind) {
    case 'running':
      return false;
    case 'created':
      // Its start failed.
      return true;
    case 'exited':
      return restartsAfter(container, pod, latest.state.exitCode);
  }
}

export function restartsAfter(container: AnyContainer, { spec }: Pod, exitCode: number): boolean {
  if (container.restartPolicy === undefined) return policyAllows(spec.restartPolicy ?? 'Always', exitCode);
  const rule = (container.restartPolicyRules ?? []).find(({ exitCodes }) => {
    const listed = exitCodes?.values?.includes(exitCode) ?? false;
    return exitCodes?.operator === 'NotIn' ? !listed : exitCodes?.operator === 'In' && listed;
  });
  return rule?.action === 'Restart' || policyAllows(container.restartPolicy, exitCode);
}

/** Whether a container that the node ends because a probe failed is started again. */
function restartsOnFailure(container: AnyContainer, { spec }: Pod): boolean {
  return isSidecar(container) || (container.restartPolicy ?? spec.restartPolicy ?? 'Always') !== 'Never';
}

function policyAllows(policy: string, exitCode: number): boolean {
  return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
}
