/**
 * The steps of a pod's life on this node: sync (objects, directories, volumes, pull secrets, probes, containers), terminate (end
 * its containers), clean up (release what it used). Every step may be repeated.
 */
import type { Clock } from '../../base/clock.ts';
import { messageOf, OperatingError } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { isStaticPod, podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { environmentCondition } from '../../kube/references/environment.ts';
import type { Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import { AttachLimitError, isDeadlineExceeded } from '../../volumes/waits.ts';
import type { ContainerKiller } from '../containers/container-killer.ts';
import type { ContainerFiles, ContainerVolumes } from '../containers/container-request.ts';
import type { ContainerSync, RuntimeClasses } from '../containers/container-sync.ts';
import { idleContainers } from '../containers/idle-containers.ts';
import { ContainerStartError, ReportedError, type StartErrors } from '../containers/start-errors.ts';
import type { ProbeManager } from '../probes/probe-manager.ts';
import type { DesiredPods } from '../sources/desired-pods.ts';
import { type MirrorApi, type MirrorOwner, reconcileMirror } from '../sources/mirror-pods.ts';
import type { TerminationMessages } from '../status/container-statuses.ts';
import { type Eviction, activeDeadlineMs, deadlineExceeded, podStatus } from '../status/pod-status.ts';
import type { StaleEnvironment } from '../status/stale-environment.ts';
import type { StatusManager } from '../status/status-manager.ts';
import type { ObjectReaders } from '../view/environment-objects.ts';
import { type ImagePullSecrets, collectPullSecrets, missingPullSecretsEvent } from '../images/image-pull-secrets.ts';
import type { PodSteps } from '../workers/pod-worker.ts';

/** All that pod workers need of the volume manager. */
export interface PodVolumes extends ContainerVolumes {
  /**
   * Resolves when all volumes that the pod uses are mounted. Those that are mounted already are refreshed in the background.
   * Rejects in the kubelet's words when it takes too long.
   */
  waitForMounted(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Resolves when nothing of the pod's volumes is mounted any more. */
  waitForUnmounted(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Resolves when nothing of the pod's volumes may be mounted either. */
  waitForReleased(podUid: string, signal: AbortSignal): Promise<void>;
  /** Something of its volumes is still mounted, or may be. */
  podVolumesExist(podUid: string): boolean;
  /** A pod was added, changed or moved to another state, so other volumes may be wanted. */
  podChanged(podUid: string): void;
  /** A source of pods was read completely for the first time, or the runtime was compared with the desired pods. */
  sourcesChanged(): void;
}

/** The object managers, which keep the objects of registered pods. Neither call waits for the network. */
export interface ObjectRegistration {
  registerPod(pod: Pod): void;
  unregisterPod(pod: Pod): void;
}

/** What pods need to know of their node. */
export interface PodNode {
  /** Undefined until the API server knows the node. */
  readonly owner: MirrorOwner | undefined;
  readonly hostIPs: readonly string[];
}

interface PodLifecycleDeps {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly events: EventSink;
  readonly api: MirrorApi;
  readonly files: ContainerFiles;
  readonly volumes: PodVolumes;
  readonly registrations: ObjectRegistration;
  readonly objects: () => ObjectReaders;
  readonly runtimeClasses: RuntimeClasses;
  readonly node: () => PodNode;
  readonly pods: DesiredPods;
  readonly statuses: StatusManager;
  readonly probes: ProbeManager;
  readonly containers: ContainerSync;
  readonly killer: ContainerKiller;
  readonly startErrors: StartErrors;
  readonly environment: StaleEnvironment;
  readonly messages: TerminationMessages;
  readonly idleIsReady: boolean;
  readonly isTerminationRequested: (podUid: string) => boolean;
  /** Called with what a status was computed from. */
  readonly seen: (podUid: string, runtimePod: RuntimePod | undefined) => void;
  readonly notify: (notice: MirrorFailed) => void;
}

export interface MirrorFailed {
  readonly kind: 'MirrorFailed';
  /** `namespace/name` */
  readonly pod: string;
  readonly message: string;
}

/** A network is there within seconds of a node's start, and all its pods wait for it. */
const networkMs = 1000;

export class PodLifecycle implements PodSteps {
  readonly #deps: PodLifecycleDeps;

  constructor(deps: PodLifecycleDeps) {
    this.#deps = deps;
  }

  async sync(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<boolean> {
    const { probes, containers, events } = this.#deps;
    if (await this.#reportStatus(pod, runtimePod, signal)) return true;
    this.#requireNetwork(pod);
    try {
      await this.#prepare(pod, signal);
    } catch (error) {
      if (!(error instanceof AttachLimitError)) throw error;
      // The node will never have room for it: another node may.
      const { reason, message } = error;
      events.record({ pod, type: 'Warning', reason, message });
      const eviction = { reason, message: `Pod was rejected: ${message}` };
      return this.#reportStatus(pod, runtimePod, signal, { eviction });
    }
    const secrets = await this.#pullSecrets(pod, signal);
    probes.add(pod);
    const sandboxMade = (made: RuntimePod): Promise<unknown> => this.#reportStatus(pod, made, signal);
    const { errors, pullFailed, changed } = await containers.sync(pod, runtimePod, secrets, sandboxMade, signal);
    const missing = pullFailed ? missingPullSecretsEvent(secrets) : undefined;
    if (missing !== undefined) events.record({ pod, ...missing });
    const current = changed ? await this.#deps.runtime.get(podUid(pod), signal) : runtimePod;
    await this.#checkEnvironment(pod, current, signal);
    const isOver = await this.#reportStatus(pod, current, signal);
    if (errors.length > 0) throw new AggregateError(errors, errors.map(messageOf).join(', '));
    return isOver;
  }

  deadlineMs(pod: Pod): number | undefined {
    return activeDeadlineMs(pod, this.#deps.statuses.get(podUid(pod)));
  }

  async terminate(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    { graceSeconds, eviction }: { readonly graceSeconds: number; readonly eviction: Eviction | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const { probes, killer, runtime, events } = this.#deps;
    const uid = podUid(pod);
    await this.#reportStatus(pod, runtimePod, signal, { eviction });
    probes.stopLivenessAndStartup(uid);
    if (runtimePod !== undefined) {
      try {
        await killer.killPod(pod, runtimePod, graceSeconds, signal);
      } catch (error) {
        signal.throwIfAborted();
        const message = `error killing pod: ${messageOf(error)}`;
        events.record({ pod, type: 'Warning', reason: 'FailedKillPod', message });
        throw new ReportedError(error);
      }
    }
    probes.remove(uid);
    const left = await runtime.get(uid, signal);
    const running = (left?.containers ?? []).filter(({ state }) => state.kind === 'running').map(({ name }) => name);
    if (running.length > 0) {
      throw new OperatingError('FailedSync', `containers still run after they were ended: [${running.join(' ')}]`);
    }
    await this.#reportStatus(pod, left, signal, { eviction, isTerminating: true });
  }

  async terminateOrphan(runtimePod: RuntimePod, graceSeconds: number, signal: AbortSignal): Promise<void> {
    const { uid, namespace, name } = runtimePod;
    // As with the kubelet: a pod whose object went without waiting for its node was deleted without grace, so no hook is run.
    const pod: Pod = { metadata: { uid, namespace, name }, spec: { containers: [] } };
    await this.#deps.killer.killPod(pod, runtimePod, graceSeconds, signal);
    await this.#deps.runtime.removePod(uid, signal);
  }

  async cleanUp(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<void> {
    const { volumes, registrations, statuses, environment, messages } = this.#deps;
    const uid = podUid(pod);
    await this.#reportStatus(pod, runtimePod, signal, { isTerminating: true });
    await volumes.waitForUnmounted(pod, signal);
    await volumes.waitForReleased(uid, signal);
    // Something is mounted that the volume manager does not know of. The step is retried.
    if (volumes.podVolumesExist(uid)) throw new OperatingError('FailedSync', 'volumes of the pod are still mounted');
    registrations.unregisterPod(pod);
    environment.forgetPod(uid);
    messages.forgetPod(uid);
    statuses.finish(pod);
  }

  /** A pod that needs a network of its own waits until the runtime can give it one. */
  #requireNetwork(pod: Pod): void {
    const problem = pod.spec.hostNetwork === true ? undefined : this.#deps.runtime.networkProblem();
    if (problem === undefined) return;
    const message = `network is not ready: ${problem}`;
    this.#deps.events.record({ pod, type: 'Warning', reason: 'NetworkNotReady', message });
    throw new ContainerStartError('NetworkNotReady', message, { retryAtMs: this.#deps.clock.now() + networkMs });
  }

  /** Everything that the first container needs. */
  async #prepare(pod: Pod, signal: AbortSignal): Promise<void> {
    const { events, files, volumes, registrations, isTerminationRequested } = this.#deps;
    const warn = (reason: string, message: string): void => events.record({ pod, type: 'Warning', reason, message });
    // A pod that ends must not be registered again after it was released.
    if (!isTerminationRequested(podUid(pod))) registrations.registerPod(pod);
    if (isStaticPod(pod)) await this.#mirror(pod, signal);
    try {
      await files.makePodDirectories(pod, signal);
    } catch (error) {
      signal.throwIfAborted();
      warn('Failed', `error making pod data directories: ${messageOf(error)}`);
      throw new ReportedError(error);
    }
    try {
      await volumes.waitForMounted(pod, signal);
    } catch (error) {
      signal.throwIfAborted();
      // Why a volume takes long is in the Events of its own operations.
      if (isDeadlineExceeded(error) || error instanceof AttachLimitError) throw error;
      warn('FailedMount', `Unable to attach or mount volumes: ${messageOf(error)}`);
      throw new ReportedError(error);
    }
  }

  /** A static pod runs whether or not the API server can show it. */
  async #mirror(pod: Pod, signal: AbortSignal): Promise<void> {
    const { api, pods, node, notify } = this.#deps;
    try {
      await reconcileMirror(api, pod, pods.mirrorOf(pod), node().owner, signal);
    } catch (error) {
      signal.throwIfAborted();
      notify({ kind: 'MirrorFailed', pod: `${podNamespace(pod)}/${pod.metadata.name}`, message: messageOf(error) });
    }
  }

  async #pullSecrets(pod: Pod, signal: AbortSignal): Promise<ImagePullSecrets> {
    const { secrets } = this.#deps.objects();
    if (secrets !== undefined) return await collectPullSecrets(pod, secrets, signal);
    return { secrets: [], missing: (pod.spec.imagePullSecrets ?? []).map(({ name }) => name) };
  }

  /** Containers that ran before this program started may have old variables. */
  async #checkEnvironment(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<void> {
    const { environment, objects } = this.#deps;
    const { configMaps, secrets } = objects();
    const namespace = podNamespace(pod);
    environment.condition(pod, runtimePod, this.#lastCondition(pod));
    for (const { kind, name } of environment.unknownObjects(pod, runtimePod)) {
      const reader = kind === 'Secret' ? secrets : configMaps;
      try {
        const object = await reader?.get(namespace, name, signal);
        if (reader !== undefined) environment.objectChanged(kind, namespace, name, object?.metadata.resourceVersion);
      } catch {
        // Unknown whether it is stale; the next sync reads again.
        signal.throwIfAborted();
      }
    }
  }

  #lastCondition(pod: Pod): NonNullable<PodStatus['conditions']>[number] | undefined {
    return this.#lastStatus(pod).conditions?.find(({ type }) => type === environmentCondition);
  }

  #lastStatus(pod: Pod): PodStatus {
    return this.#deps.statuses.get(podUid(pod)) ?? pod.status ?? {};
  }

  #supportsRecursiveReadOnly({ spec: { runtimeClassName = '' } }: Pod): boolean {
    const { runtime, runtimeClasses } = this.#deps;
    const handler = runtimeClassName === '' ? '' : runtimeClasses.knownHandler(runtimeClassName);
    return handler !== undefined && runtime.supports('recursiveReadOnly', handler);
  }

  /** Returns whether the pod has ended for good. */
  async #reportStatus(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    signal: AbortSignal,
    {
      eviction,
      isTerminating = false,
    }: { readonly eviction?: Eviction | undefined; readonly isTerminating?: boolean } = {},
  ): Promise<boolean> {
    const { statuses, runtime, probes, startErrors, node, clock, environment, messages } = this.#deps;
    const previous = this.#lastStatus(pod);
    const isLate = (activeDeadlineMs(pod, previous) ?? Infinity) <= clock.now();
    const isEnded = isTerminalPhase(previous.phase);
    const isOverdue = previous.reason === deadlineExceeded.reason;
    // It stays what ended the pod, also when its containers then end well.
    const deadline = isLate && (isOverdue || !isEnded) ? deadlineExceeded : undefined;
    if (deadline !== undefined && !isOverdue) this.#deps.events.record({ pod, type: 'Normal', ...deadline });
    const status = podStatus({
      pod,
      runtimePod,
      runtimeName: runtime.name,
      supportsRecursiveReadOnly: this.#supportsRecursiveReadOnly(pod),
      previous,
      startError: (container) => startErrors.get(podUid(pod), container),
      terminationMessages: await messages.of(runtimePod, signal),
      probes,
      isTerminating,
      hostIPs: node().hostIPs,
      eviction: eviction ?? deadline,
      environment: environment.condition(pod, runtimePod, this.#lastCondition(pod)),
      idle: idleContainers(pod, runtime),
      idleIsReady: this.#deps.idleIsReady,
    });
    this.#deps.seen(podUid(pod), runtimePod);
    statuses.set(pod, status);
    return isTerminalPhase(status.phase);
  }
}
