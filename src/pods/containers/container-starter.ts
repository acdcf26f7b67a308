/** Starts one container: its back-off, its image, its configuration, the container itself, and its postStart hook. */
import { messageOf } from '../../base/errors.ts';
import { nextTurn } from '../../base/turns.ts';
import { describePod, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { type AnyContainer, containerNamed } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { ImageStatus, PodRequest, Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import type { ImagePullSecrets } from '../view/image-pull-secrets.ts';
import { ContainerConfigError } from '../view/variables.ts';
import { type ContainerKiller, type HookDeps, runHook } from './container-killer.ts';
import {
  type BuiltContainer,
  type ContainerRequestDeps,
  type NodeSettings,
  buildContainerRequest,
  runCleanUps,
} from './container-request.ts';
import { ImagePuller } from './image-puller.ts';
import { hasEnded, newest } from './runtime-containers.ts';
import { ContainerStartError, FailureBackOff } from './start-errors.ts';

interface ContainerStarterDeps extends ContainerRequestDeps, HookDeps {
  readonly runtime: Runtime;
  readonly killer: ContainerKiller;
  /** The addresses of pods that have the host's network. */
  readonly hostIPs: () => readonly string[];
}

interface StartRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  /** As it was before this start; the newest container of this name decides about the back-off. */
  readonly runtimePod: RuntimePod;
  readonly podRequest: PodRequest;
  readonly pullSecrets: ImagePullSecrets;
  /** From the last status: containers may have been removed since. */
  readonly restartsBefore: number | undefined;
}

export class ContainerStarter {
  readonly #deps: ContainerStarterDeps;
  readonly #settings: NodeSettings;
  readonly #images: ImagePuller;
  readonly #backOff: FailureBackOff;

  constructor(deps: ContainerStarterDeps, settings: NodeSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#images = new ImagePuller(deps);
    this.#backOff = new FailureBackOff(10_000, 300_000, deps.clock);
  }

  collectGarbage(): void {
    this.#backOff.collectGarbage();
    this.#images.collectGarbage();
  }

  /** Rejects with a ContainerStartError: what the container's waiting state says. */
  async start(request: StartRequest, signal: AbortSignal): Promise<void> {
    this.#holdBack(request);
    const image = await this.#image(request, signal);
    const built = await this.#build(request, image, signal);
    const { pod, container } = request;
    const { runtime } = this.#deps;
    let id: string;
    await nextTurn(); // ten thousand variables take long, here and in the runtime
    try {
      id = await runtime.createContainer(built.request, signal);
    } catch (error) {
      await runCleanUps(built.cleanUps);
      throw this.#failure(request, 'CreateContainerError', error, signal);
    }
    this.#record(request, 'Normal', 'Created', `Created container: ${container.name}`);
    try {
      await runtime.startContainer(id, signal);
    } catch (error) {
      throw this.#failure(request, 'RunContainerError', error, signal);
    }
    this.#record(request, 'Normal', 'Started', `Started container ${container.name}`);
    this.#follow(pod, container);
    await this.#postStart(pod, container, id, signal);
  }

  /** The subPaths of containers that run, perhaps since before this program started, show what their volumes have now. */
  followRunning(pod: Pod, { containers }: RuntimePod): void {
    for (const { name, state } of containers) {
      const container = state.kind === 'running' ? containerNamed(pod, name) : undefined;
      if (container !== undefined) this.#follow(pod, container);
    }
  }

  #follow(pod: Pod, { name, volumeMounts = [] }: AnyContainer): void {
    const hasSubPath = volumeMounts.some(({ subPath = '', subPathExpr = '' }) => `${subPath}${subPathExpr}` !== '');
    if (!hasSubPath) return;
    const podDirectory = this.#deps.files.podDirectory(podUid(pod));
    this.#deps.view().subPaths.started?.({ podDirectory, containerName: name });
  }

  #holdBack({ pod, container, runtimePod }: StartRequest): void {
    const last = newest(runtimePod, container.name);
    if (last?.state.kind !== 'exited') return;
    const { finishedAtMs } = last.state;
    const key = backOffKey(pod, container);
    const untilMs = this.#backOff.until(key, finishedAtMs);
    if (untilMs === undefined) return this.#backOff.next(key, finishedAtMs);
    const { name } = container;
    const message = `Back-off restarting failed container ${name} in pod ${describePod(pod)}`;
    this.#deps.events.record({ pod, container: name, type: 'Warning', reason: 'BackOff', message });
    const delay = showDuration(this.#backOff.delayMsOf(key));
    throw new ContainerStartError(
      'CrashLoopBackOff',
      `back-off ${delay} restarting failed container=${name} pod=${describePod(pod)}`,
      { retryAtMs: untilMs },
    );
  }

  async #image({ pod, container, pullSecrets }: StartRequest, signal: AbortSignal): Promise<ImageStatus> {
    try {
      return await this.#images.ensure(pod, container, pullSecrets, signal);
    } catch (error) {
      if (error instanceof ContainerStartError) {
        const message = `Error: ${error.reason}`;
        this.#deps.events.record({ pod, container: container.name, type: 'Warning', reason: 'Failed', message });
      }
      throw error;
    }
  }

  async #build(request: StartRequest, image: ImageStatus, signal: AbortSignal): Promise<BuiltContainer> {
    const { pod, container, runtimePod, podRequest, restartsBefore } = request;
    const last = newest(runtimePod, container.name);
    const attempt = Math.max((last?.attempt ?? -1) + 1, restartsBefore === undefined ? 0 : restartsBefore + 1);
    const podIPs = runtimePod.ips.length > 0 ? runtimePod.ips : this.#deps.hostIPs();
    try {
      const input = { pod, container, attempt, podIPs, image };
      const built = await buildContainerRequest(input, this.#deps, this.#settings, signal);
      const refusal = this.#deps.runtime.unsupported(podRequest, built.request);
      if (refusal === undefined) return built;
      await runCleanUps(built.cleanUps);
      throw new ContainerConfigError(refusal);
    } catch (error) {
      const reason = error instanceof ContainerStartError ? error.reason : 'CreateContainerConfigError';
      throw this.#failure(request, reason, error, signal);
    }
  }

  async #postStart(pod: Pod, container: AnyContainer, id: string, signal: AbortSignal): Promise<void> {
    const hook = container.lifecycle?.postStart;
    if (hook === undefined) return;
    const { runtime, events, killer } = this.#deps;
    const runtimePod = await runtime.get(podUid(pod), signal);
    const podIp = runtimePod?.ips[0] ?? '';
    try {
      await runHook({ pod, container, containerId: id, podIp, hook }, this.#deps, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (await hasEnded(runtime, { podUid: podUid(pod), containerId: id }, error, signal)) return;
      const message = 'PostStartHook failed';
      events.record({ pod, container: container.name, type: 'Warning', reason: 'FailedPostStartHook', message });
      const started = runtimePod?.containers.find((one) => one.id === id);
      if (runtimePod !== undefined && started !== undefined) {
        const reason = { reason: 'postStartHook', message: 'FailedPostStartHook' } as const;
        await killer.kill(pod, runtimePod, started, reason, signal);
      }
      // Without the cause: the answer of a hook may contain a secret.
      throw new ContainerStartError('PostStartHookError', message);
    }
  }

  #failure(request: StartRequest, reason: string, error: unknown, signal: AbortSignal): ContainerStartError {
    signal.throwIfAborted();
    this.#record(request, 'Warning', 'Failed', `Error: ${messageOf(error)}`);
    return new ContainerStartError(reason, messageOf(error), { cause: error });
  }

  #record({ pod, container }: StartRequest, type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#deps.events.record({ pod, container: container.name, type, reason, message });
  }
}

/** With another image or other resources a container may work now, so its back-off starts over. */
function backOffKey(pod: Pod, container: AnyContainer): string {
  return [describePod(pod), container.name, container.image, JSON.stringify(container.resources ?? {})].join('\0');
}
