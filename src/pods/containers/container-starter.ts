/** Starts one container: its back-off, its image, its configuration, the container itself, and its postStart hook. */
import { messageOf } from '../../base/errors.ts';
import { FailureBackOff } from '../../base/back-off.ts';
import { nextTurn } from '../../base/turns.ts';
import { describePod, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { type AnyContainer, containerNamed } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { ImageStatus, PodRequest, Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import type { ImagePullSecrets } from '../images/image-pull-secrets.ts';
import { ImageError, type ImagePuller } from '../images/image-puller.ts';
import { ContainerConfigError } from '../view/variables.ts';
import { type ContainerKiller, type HookDeps, runHook } from './container-killer.ts';
import {
  type BuiltContainer,
  type ContainerRequestDeps,
  type NodeSettings,
  buildContainerRequest,
  runCleanUps,
} from './container-request.ts';
import { imageEvent, initRefusal } from './idle-containers.ts';
import { addressesOf, hasEnded, newest } from './runtime-containers.ts';
import { ContainerStartError } from './start-errors.ts';

interface ContainerStarterDeps extends ContainerRequestDeps, HookDeps {
  readonly runtime: Runtime;
  readonly killer: ContainerKiller;
  readonly images: ImagePuller;
  /** The addresses of pods that have the host's network. */
  readonly hostIPs: () => readonly string[];
}

/** Of the volumes that are images, by name: what the runtime has for them, or why it does not. */
type ImageVolumes = ReadonlyMap<string, ImageStatus | ImageError>;

interface StartRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  /** As it was before this start; the newest container of this name decides about the back-off. */
  readonly runtimePod: RuntimePod;
  readonly podRequest: PodRequest;
  readonly pullSecrets: ImagePullSecrets;
  readonly imageVolumes: ImageVolumes;
  /** From the last status: containers may have been removed since. */
  readonly restartsBefore: number | undefined;
}

/** After the first failure; then twice as long each time. */
const restartMs = 10_000;

export class ContainerStarter {
  readonly #deps: ContainerStarterDeps;
  readonly #settings: NodeSettings;
  readonly #backOff: FailureBackOff;

  constructor(deps: ContainerStarterDeps, settings: NodeSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#backOff = new FailureBackOff(
      Math.min(restartMs, settings.restartBackOffMsMax),
      settings.restartBackOffMsMax,
      deps.clock,
    );
  }

  collectGarbage(): void {
    this.#backOff.collectGarbage();
    this.#deps.images.collectGarbage();
  }

  /** Rejects with a ContainerStartError: what the container's waiting state says. */
  async start(request: StartRequest, signal: AbortSignal): Promise<void> {
    this.#holdBack(request);
    this.#requireCommand(request, signal);
    const imageVolumes = this.#requireVolumes(request);
    const image = await this.#image(request, signal);
    const built = await this.#build(request, image, imageVolumes, signal);
    const { pod, container } = request;
    const { runtime } = this.#deps;
    let id: string;
    await nextTurn(); // ten thousand variables take long, here and in the runtime
    try {
      id = await runtime.createContainer(built.request, request.podRequest, signal);
    } catch (error) {
      await runCleanUps(built.cleanUps);
      throw this.#failure(request, 'CreateContainerError', error, signal);
    }
    this.#explainImage(request);
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

  #requireCommand(request: StartRequest, signal: AbortSignal): void {
    const refusal = initRefusal(request.pod, request.container, this.#deps.runtime);
    if (refusal === undefined) return;
    throw this.#failure(request, 'ImageRequired', new ContainerConfigError(refusal), signal);
  }

  /** Where images are not used, this stands in the place of the Events about them. */
  #explainImage(request: StartRequest): void {
    const { container, runtimePod, restartsBefore } = request;
    const event = imageEvent(container, this.#deps.runtime);
    const isFirst = newest(runtimePod, container.name) === undefined && restartsBefore === undefined;
    if (event !== undefined && isFirst) this.#record(request, event.type, event.reason, event.message);
  }

  /** Before the first container of a pod starts. One that fails concerns only the containers that mount it. */
  async pullVolumes(
    { pod, pullSecrets: secrets, podRequest }: Pick<StartRequest, 'pod' | 'pullSecrets' | 'podRequest'>,
    signal: AbortSignal,
  ): Promise<ImageVolumes> {
    const pulled = new Map<string, ImageStatus | ImageError>();
    for (const { name, image: source } of pod.spec.volumes ?? []) {
      if (source === undefined || this.#deps.runtime.images === undefined) continue;
      const { reference: image = '', pullPolicy: policy = 'IfNotPresent' } = source;
      const request = { pod, container: undefined, image, policy, secrets, podRequest };
      pulled.set(name, await this.#deps.images.ensure(request, signal).catch(imageError));
    }
    return pulled;
  }

  /** Those that the container mounts. */
  #requireVolumes(request: StartRequest): ReadonlyMap<string, ImageStatus> {
    const present = new Map<string, ImageStatus>();
    const failures: ContainerStartError[] = [];
    for (const { name } of request.container.volumeMounts ?? []) {
      const volume = request.imageVolumes.get(name);
      if (volume instanceof ImageError) failures.push(this.#withoutImage(request, volume));
      else if (volume !== undefined) present.set(name, volume);
    }
    const last = failures.at(-1);
    if (last !== undefined) throw last;
    return present;
  }

  async #image(request: StartRequest, signal: AbortSignal): Promise<ImageStatus> {
    const { pod, container, pullSecrets: secrets, podRequest } = request;
    const { name, image = '', imagePullPolicy: policy = 'IfNotPresent' } = container;
    try {
      return await this.#deps.images.ensure({ pod, container: name, image, policy, secrets, podRequest }, signal);
    } catch (error) {
      throw this.#withoutImage(request, imageError(error));
    }
  }

  #withoutImage(request: StartRequest, { reason, message, retryAtMs }: ImageError): ContainerStartError {
    this.#record(request, 'Warning', 'Failed', `Error: ${reason}`);
    return new ContainerStartError(reason, message, { retryAtMs });
  }

  async #build(
    request: StartRequest,
    image: ImageStatus,
    imageVolumes: ReadonlyMap<string, ImageStatus>,
    signal: AbortSignal,
  ): Promise<BuiltContainer> {
    const { pod, container, runtimePod, podRequest, restartsBefore } = request;
    const last = newest(runtimePod, container.name);
    // Counted on: the log of an earlier one must not be continued by another.
    const before =
      last?.attempt ?? restartsBefore ?? (await this.#deps.files.lastLogAttempt(pod, container.name, signal)) ?? -1;
    const attempt = Math.max(before, restartsBefore ?? -1) + 1;
    const podIPs = addressesOf(runtimePod, this.#deps.hostIPs());
    try {
      const runtimeSupportsRecursiveReadOnly = this.#deps.runtime.supports(
        'recursiveReadOnly',
        podRequest.runtimeHandler,
      );
      const input = {
        pod,
        container,
        attempt,
        podIPs,
        image,
        imageVolumes,
        runtimePod,
        runtimeSupportsRecursiveReadOnly,
      };
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
    const [podIp = ''] = runtimePod === undefined ? [] : addressesOf(runtimePod, this.#deps.hostIPs());
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

function imageError(thrown: unknown): ImageError {
  if (thrown instanceof ImageError) return thrown;
  throw thrown;
}

/** With another image or other resources a container may work now, so its back-off starts over. */
function backOffKey(pod: Pod, container: AnyContainer): string {
  return [describePod(pod), container.name, container.image, JSON.stringify(container.resources ?? {})].join('\0');
}
