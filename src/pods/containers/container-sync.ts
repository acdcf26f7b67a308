/** Carries out what plan-containers.ts decided: ends, creates and starts containers. */
import { messageOf } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { containerNamed, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type PodRequest, type Runtime, RuntimeError, type RuntimePod } from '../../runtimes/runtime.ts';
import { podHostname } from '../view/hosts-file.ts';
import type { ImagePullSecrets } from '../view/image-pull-secrets.ts';
import type { ContainerKiller } from './container-killer.ts';
import { type ContainerFiles, podResources } from './container-request.ts';
import type { ContainerStarter } from './container-starter.ts';
import { isFailedPull } from './image-puller.ts';
import { type ContainerPlan, type ProbeVerdicts, planContainers } from './plan-containers.ts';
import { podNameLabel, podNamespaceLabel, podUidLabel } from './runtime-containers.ts';
import { ContainerStartError, type StartErrors } from './start-errors.ts';

interface ContainerSyncDeps {
  readonly runtime: Runtime;
  readonly events: EventSink;
  readonly files: ContainerFiles;
  readonly probes: ProbeVerdicts;
  readonly startErrors: StartErrors;
  readonly killer: ContainerKiller;
  readonly starter: ContainerStarter;
  /** Undefined: there is no such RuntimeClass. */
  readonly runtimeHandler: (runtimeClass: string, signal: AbortSignal) => Promise<string | undefined>;
}

export interface ContainerSyncResult {
  /** Containers that could not be started. */
  readonly errors: readonly unknown[];
  readonly pullFailed: boolean;
  /** Something was ended or started. */
  readonly changed: boolean;
}

/** How many ended containers of one name are kept, so that the log of the last one can still be read. */
const deadContainersKept = 1;

export class ContainerSync {
  readonly #deps: ContainerSyncDeps;
  readonly #clusterDomain: string;

  constructor(deps: ContainerSyncDeps, clusterDomain: string) {
    this.#deps = deps;
    this.#clusterDomain = clusterDomain;
  }

  async sync(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    pullSecrets: ImagePullSecrets,
    signal: AbortSignal,
  ): Promise<ContainerSyncResult> {
    const { killer } = this.#deps;
    const plan = planContainers(pod, runtimePod, this.#deps.probes);
    if (plan.killPod && runtimePod !== undefined) {
      if (plan.createSandbox) this.#recordSandboxChanged(pod, runtimePod);
      await killer.killPod(pod, runtimePod, undefined, signal);
    }
    if (plan.killPod && !plan.createSandbox) return { errors: [], pullFailed: false, changed: true };
    for (const { id, message, reason } of plan.kill) {
      const container = runtimePod?.containers.find((one) => one.id === id);
      if (runtimePod === undefined || container === undefined) continue;
      await killer.kill(pod, runtimePod, container, { message, reason }, signal);
    }
    const request = this.#podRequest(pod);
    const current = plan.createSandbox
      ? await this.#createSandbox(pod, request, signal)
      : await this.#runtimePod(pod, runtimePod, plan, signal);
    if (current === undefined) return { errors: [], pullFailed: false, changed: true };
    this.#deps.starter.followRunning(pod, current);
    const result = await this.#start(plan, { pod, runtimePod: current, podRequest: request, pullSecrets }, signal);
    await this.#removeDead(current, signal);
    return result;
  }

  /** From the last status, for containers that the runtime no longer has. */
  #restartsBefore({ status }: Pod, name: string): number | undefined {
    const { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] } = status ?? {};
    const all = [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses];
    const last = all.find((one) => one.name === name);
    return last?.containerID === undefined ? undefined : last.restartCount;
  }

  #recordSandboxChanged(pod: Pod, { containers }: RuntimePod): void {
    if (containers.length === 0) return;
    const message = 'Pod sandbox changed, it will be killed and re-created.';
    this.#deps.events.record({ pod, type: 'Normal', reason: 'SandboxChanged', message });
  }

  async #createSandbox(pod: Pod, request: PodRequest, signal: AbortSignal): Promise<RuntimePod> {
    try {
      await this.#requireHandler(pod.spec.runtimeClassName ?? '', signal);
      return await this.#deps.runtime.runPod(request, signal);
    } catch (error) {
      signal.throwIfAborted();
      const message = `Failed to create pod sandbox: ${messageOf(error)}`;
      this.#deps.events.record({ pod, type: 'Warning', reason: 'FailedCreatePodSandBox', message });
      throw error;
    }
  }

  /** A runtime has one handler, named like the runtime. */
  async #requireHandler(runtimeClass: string, signal: AbortSignal): Promise<void> {
    if (runtimeClass === '') return;
    const { runtime, runtimeHandler } = this.#deps;
    const handler = await runtimeHandler(runtimeClass, signal);
    if (handler === undefined) throw new RuntimeError(`runtimeclass.node.k8s.io ${goQuote(runtimeClass)} not found`);
    if (handler !== runtime.name) throw new RuntimeError(`no runtime for ${goQuote(handler)} is configured`);
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
    request: {
      readonly pod: Pod;
      readonly runtimePod: RuntimePod;
      readonly podRequest: PodRequest;
      readonly pullSecrets: ImagePullSecrets;
    },
    signal: AbortSignal,
  ): Promise<ContainerSyncResult> {
    const errors: unknown[] = [];
    const start = async (name: string): Promise<boolean> => {
      const container = containerNamed(request.pod, name);
      if (container === undefined) return true;
      const error = await this.#startOne({ ...request, container }, signal);
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
    const { killPod, kill, startEphemeral, startInit, start: regular } = plan;
    const changed = killPod || kill.length + startEphemeral.length + startInit.length + regular.length > 0;
    return { errors, pullFailed, changed };
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

  async #removeDead({ containers }: RuntimePod, signal: AbortSignal): Promise<void> {
    const seen = new Map<string, number>();
    for (const { id, name, state, logPath } of containers) {
      if (state.kind === 'running') continue;
      const count = (seen.get(name) ?? 0) + 1;
      seen.set(name, count);
      if (count <= deadContainersKept) continue;
      await this.#deps.runtime.removeContainer(id, signal);
      await this.#deps.files.removeLog(logPath, signal);
    }
  }

  #podRequest(pod: Pod): PodRequest {
    const { metadata, spec } = pod;
    const { name, domain } = podHostname(pod, this.#clusterDomain);
    return {
      uid: podUid(pod),
      namespace: podNamespace(pod),
      name: metadata.name,
      hostname: spec.setHostnameAsFQDN === true && domain !== '' ? `${name}.${domain}` : name,
      hostNetwork: spec.hostNetwork ?? false,
      hostPid: spec.hostPID ?? false,
      hostIpc: spec.hostIPC ?? false,
      shareProcessNamespace: spec.shareProcessNamespace ?? false,
      hostUsers: spec.hostUsers ?? true,
      sysctls: Object.fromEntries((spec.securityContext?.sysctls ?? []).map(({ name: key, value }) => [key, value])),
      directory: this.#deps.files.podDirectory(podUid(pod)),
      logDirectory: this.#deps.files.logDirectory(pod),
      labels: {
        ...metadata.labels,
        [podNameLabel]: metadata.name,
        [podNamespaceLabel]: podNamespace(pod),
        [podUidLabel]: podUid(pod),
      },
      resources: podResources(pod),
    };
  }
}
