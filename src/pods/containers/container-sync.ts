/** Carries out what plan-containers.ts decided: ends, creates and starts containers. */
import { messageOf } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { containerNamed, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type PodRequest, type Runtime, RuntimeError, type RuntimePod } from '../../runtimes/runtime.ts';
import { type DnsSettings, podDns } from '../view/dns.ts';
import type { ImagePullSecrets } from '../images/image-pull-secrets.ts';
import type { ContainerKiller } from './container-killer.ts';
import type { ContainerFiles, ContainerVolumes } from './container-request.ts';
import type { ContainerStarter } from './container-starter.ts';
import type { DeadContainers } from './dead-containers.ts';
import { type ContainerPlan, type ProbeVerdicts, planContainers } from './plan-containers.ts';
import { podRequest } from './pod-request.ts';
import { ContainerStartError, type StartErrors, isFailedPull } from './start-errors.ts';

interface ContainerSyncDeps {
  readonly runtime: Runtime;
  readonly events: EventSink;
  readonly nodeEvents: NodeEvents;
  readonly files: ContainerFiles;
  readonly volumes: Pick<ContainerVolumes, 'groupsOf'>;
  /** As it is now: the machine's own DNS may change. */
  readonly dns: () => Promise<DnsSettings>;
  readonly probes: ProbeVerdicts;
  readonly startErrors: StartErrors;
  readonly killer: ContainerKiller;
  readonly starter: ContainerStarter;
  readonly dead: DeadContainers;
  readonly runtimeClasses: RuntimeClasses;
}

/** Where Events about the node go. */
export interface NodeEvents {
  record(event: { readonly type: 'Warning'; readonly reason: string; readonly message: string }): void;
}

/** The handlers of RuntimeClasses. */
export interface RuntimeClasses {
  /** Asks nobody. */
  knownHandler(runtimeClass: string): string | undefined;
  /** Undefined: there is no such class. */
  runtimeHandler(runtimeClass: string, signal: AbortSignal): Promise<string | undefined>;
}

export interface ContainerSyncResult {
  /** Containers that could not be started. */
  readonly errors: readonly unknown[];
  readonly pullFailed: boolean;
  /** Something was ended or started. */
  readonly changed: boolean;
}

/** Which Event says that a pod's sandbox could not be had, by the reason of the runtime's error. */
const sandboxFailure = { reason: 'FailedCreatePodSandBox', failed: 'Failed to create pod sandbox' };
const sandboxFailures: { readonly [reason in RuntimeError['reason']]?: typeof sandboxFailure } = {
  PodGroupFailed: { reason: 'FailedCreatePodContainer', failed: 'unable to ensure pod container exists' },
  SandboxStatusFailed: { reason: 'FailedPodSandBoxStatus', failed: 'Unable to get pod sandbox status' },
};

export class ContainerSync {
  readonly #deps: ContainerSyncDeps;
  readonly #clusterDomain: string;

  constructor(deps: ContainerSyncDeps, clusterDomain: string) {
    this.#deps = deps;
    this.#clusterDomain = clusterDomain;
  }

  /** `sandboxMade` is called before images are pulled, which may take long. */
  async sync(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    pullSecrets: ImagePullSecrets,
    sandboxMade: (runtimePod: RuntimePod) => Promise<unknown>,
    signal: AbortSignal,
  ): Promise<ContainerSyncResult> {
    const { killer } = this.#deps;
    const plan = planContainers(pod, runtimePod, this.#deps.probes);
    if (plan.killPod && runtimePod !== undefined) {
      const message = 'Pod sandbox changed, it will be killed and re-created.';
      if (plan.createSandbox) this.#deps.events.record({ pod, type: 'Normal', reason: 'SandboxChanged', message });
      await killer.killPod(pod, runtimePod, undefined, signal);
    }
    if (plan.reset.length > 0 && runtimePod !== undefined) {
      await this.#reset(pod, runtimePod, plan.reset, signal);
      const fresh = await this.#deps.runtime.get(podUid(pod), signal);
      return await this.sync(pod, fresh, pullSecrets, sandboxMade, signal);
    }
    if (plan.killPod && !plan.createSandbox) return { errors: [], pullFailed: false, changed: true };
    for (const { id, message, reason } of plan.kill) {
      const container = runtimePod?.containers.find((one) => one.id === id);
      if (runtimePod === undefined || container === undefined) continue;
      await killer.kill(pod, runtimePod, container, { message, reason }, signal);
    }
    const made = plan.createSandbox ? await this.#createSandbox(pod, signal) : undefined;
    if (made !== undefined) await sandboxMade(made.runtimePod);
    const current = made?.runtimePod ?? (await this.#runtimePod(pod, runtimePod, plan, signal));
    if (current === undefined) return { errors: [], pullFailed: false, changed: true };
    this.#deps.starter.followRunning(pod, current);
    const result = await this.#start(plan, { pod, runtimePod: current, made: made?.request, pullSecrets }, signal);
    await this.#deps.dead.removeSurplus(current, signal);
    return result;
  }

  /** Without grace, and their logs stay: the pod starts over as if it were new. */
  async #reset(pod: Pod, runtimePod: RuntimePod, ids: readonly string[], signal: AbortSignal): Promise<void> {
    const { runtime, killer } = this.#deps;
    for (const id of ids) {
      const container = runtimePod.containers.find((one) => one.id === id);
      if (container !== undefined && container.state.kind !== 'exited') {
        const kill = { reason: 'restartAll', message: 'killing', graceSeconds: 0 } as const;
        await killer.kill(pod, runtimePod, container, kill, signal);
      }
      await runtime.removeContainer(id, signal);
    }
  }

  /** From the last status, for containers that the runtime no longer has. */
  #restartsBefore({ status }: Pod, name: string): number | undefined {
    const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] } = status ?? {};
    const all = [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses];
    const last = all.find((one) => one.name === name);
    return last?.containerID === undefined ? undefined : last.restartCount;
  }

  async #createSandbox(
    pod: Pod,
    signal: AbortSignal,
  ): Promise<{ readonly request: PodRequest; readonly runtimePod: RuntimePod }> {
    try {
      const { request, warnings } = await this.#podRequest(pod, signal);
      for (const { reason, message, ofNode } of warnings) {
        if (ofNode !== undefined) this.#deps.nodeEvents.record({ type: 'Warning', reason, message: ofNode });
        this.#deps.events.record({ pod, type: 'Warning', reason, message });
      }
      return { request, runtimePod: await this.#deps.runtime.runPod(request, signal) };
    } catch (error) {
      signal.throwIfAborted();
      const { reason, failed } =
        sandboxFailures[error instanceof RuntimeError ? error.reason : 'RuntimeFailed'] ?? sandboxFailure;
      this.#deps.events.record({ pod, type: 'Warning', reason, message: `${failed}: ${messageOf(error)}` });
      throw error;
    }
  }

  async #podRequest(
    pod: Pod,
    signal: AbortSignal,
  ): Promise<{ readonly request: PodRequest; readonly warnings: ReturnType<typeof podDns>['warnings'] }> {
    const { files, volumes, dns } = this.#deps;
    const runtimeHandler = await this.#handler(pod.spec.runtimeClassName ?? '', signal);
    const { config, warnings } = podDns(pod, await dns());
    const clusterDomain = this.#clusterDomain;
    const volumeGroups = volumes.groupsOf(pod);
    return {
      request: podRequest(pod, { files, clusterDomain, dns: config, runtimeHandler, volumeGroups }),
      warnings,
    };
  }

  /** Whether the runtime has it is the runtime's to say. */
  async #handler(runtimeClass: string, signal: AbortSignal): Promise<string> {
    if (runtimeClass === '') return '';
    let handler: string | undefined;
    try {
      handler = await this.#deps.runtimeClasses.runtimeHandler(runtimeClass, signal);
    } catch (cause) {
      signal.throwIfAborted();
      throw new RuntimeError(`failed to lookup RuntimeClass ${runtimeClass}: ${messageOf(cause)}`, { cause });
    }
    if (handler === undefined) throw new RuntimeError(`runtimeclass.node.k8s.io ${goQuote(runtimeClass)} not found`);
    return handler;
  }

  /** Read again after kills, so that the state of the ended containers is known. */
  async #runtimePod(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    { kill }: ContainerPlan,
    signal: AbortSignal,
  ): Promise<RuntimePod | undefined> {
    return kill.length === 0 ? runtimePod : await this.#deps.runtime.get(podUid(pod), signal);
  }

  async #start(
    plan: ContainerPlan,
    given: {
      readonly pod: Pod;
      readonly runtimePod: RuntimePod;
      /** What the sandbox was made with just now. */
      readonly made: PodRequest | undefined;
      readonly pullSecrets: ImagePullSecrets;
    },
    signal: AbortSignal,
  ): Promise<ContainerSyncResult> {
    const errors: unknown[] = [];
    const { made, ...rest } = given;
    const starts = plan.startEphemeral.length + plan.startInit.length + plan.start.length;
    if (starts === 0) return { errors, pullFailed: false, changed: plan.killPod || plan.kill.length > 0 };
    const request = { ...rest, podRequest: made ?? (await this.#podRequest(given.pod, signal)).request };
    const imageVolumes = await this.#deps.starter.pullVolumes(request, signal);
    const start = async (name: string): Promise<boolean> => {
      const container = containerNamed(request.pod, name);
      if (container === undefined) return true;
      const error = await this.#startOne({ ...request, imageVolumes, container }, signal);
      if (error !== undefined) errors.push(error);
      return error === undefined;
    };
    for (const name of plan.startEphemeral) await start(name);
    for (const name of plan.startInit) {
      const isStarted = await start(name);
      const container = containerNamed(request.pod, name);
      // Those after it may need it. A sidecar is restarted later and holds up nothing.
      if (!isStarted && container !== undefined && !isSidecar(container)) break;
    }
    for (const name of plan.start) await start(name);
    const pullFailed = errors.some(isFailedPull);
    return { errors, pullFailed, changed: true };
  }

  async #startOne(
    request: Omit<Parameters<ContainerStarter['start']>[0], 'restartsBefore'>,
    signal: AbortSignal,
  ): Promise<unknown> {
    const { starter, startErrors } = this.#deps;
    const { pod, container } = request;
    const uid = podUid(pod);
    try {
      const restartsBefore = this.#restartsBefore(pod, container.name);
      await starter.start({ ...request, restartsBefore }, signal);
      startErrors.clear(uid, container.name);
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ContainerStartError)) throw error;
      startErrors.set(uid, container.name, { reason: error.reason, message: error.message });
      return error;
    }
  }
}
