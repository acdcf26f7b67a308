/** Makes sure that a container's image is present, as its pull policy says, with a back-off after a failed pull. */
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { parseImageReference } from '../../kube/values/image-reference.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { ImageStatus, PullCredential, Runtime, RuntimeImages } from '../../runtimes/runtime.ts';
import { type ImagePullSecrets, pullCredentials } from '../view/image-pull-secrets.ts';
import { ContainerStartError, FailureBackOff } from './start-errors.ts';

interface ImagePullerDeps {
  readonly runtime: Pick<Runtime, 'images'>;
  readonly events: EventSink;
  readonly clock: Clock;
}

/** A pull was tried and failed just now, so pull secrets that are missing may be the reason. */
export function isFailedPull(error: unknown): boolean {
  return error instanceof ContainerStartError && error.reason === failedPull;
}

const failedPull = 'ErrImagePull';

export class ImagePuller {
  readonly #deps: ImagePullerDeps;
  readonly #backOff: FailureBackOff;
  readonly #failures = new Map<string, { readonly atMs: number; readonly error: ContainerStartError }>();

  constructor(deps: ImagePullerDeps) {
    this.#deps = deps;
    this.#backOff = new FailureBackOff(10_000, 300_000, deps.clock);
  }

  /** Rejects with a ContainerStartError, also while it waits for the end of a back-off. */
  async ensure(
    pod: Pod,
    container: AnyContainer,
    secrets: ImagePullSecrets,
    signal: AbortSignal,
  ): Promise<ImageStatus> {
    const { image = '', imagePullPolicy = 'IfNotPresent', name } = container;
    const { events, runtime } = this.#deps;
    const { images } = runtime;
    const record = (type: 'Normal' | 'Warning', reason: string, message: string): void =>
      events.record({ pod, container: name, type, reason, message });
    checkReference(image, (message) => record('Warning', 'InspectFailed', message));
    if (images === undefined) return { id: image, sizeBytes: 0 };
    if (imagePullPolicy !== 'Always') {
      const present = await images.status(image, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        const message = `Failed to inspect image ${goQuote(image)}: ${messageOf(error)}`;
        record('Warning', 'InspectFailed', message);
        throw new ContainerStartError('ImageInspectError', message);
      });
      if (present !== undefined) {
        record('Normal', 'Pulled', `Container image ${goQuote(image)} already present on machine`);
        return present;
      }
      if (imagePullPolicy === 'Never') {
        const message = `Container image ${goQuote(image)} is not present with pull policy of Never`;
        record('Warning', 'ErrImageNeverPull', message);
        throw new ContainerStartError('ErrImageNeverPull', message);
      }
    }
    return await this.#pull(images, `${podUid(pod)}_${image}`, image, secrets, record, signal);
  }

  collectGarbage(): void {
    this.#backOff.collectGarbage();
    for (const key of this.#failures.keys()) if (this.#backOff.delayMsOf(key) === 0) this.#failures.delete(key);
  }

  async #pull(
    images: RuntimeImages,
    key: string,
    image: string,
    secrets: ImagePullSecrets,
    record: (type: 'Normal' | 'Warning', reason: string, message: string) => void,
    signal: AbortSignal,
  ): Promise<ImageStatus> {
    const { clock } = this.#deps;
    const failure = this.#failures.get(key);
    const waitUntilMs = failure && this.#backOff.until(key, failure.atMs);
    if (failure !== undefined && waitUntilMs !== undefined) {
      const message = `Back-off pulling image ${goQuote(image)}`;
      record('Normal', 'BackOff', message);
      const { reason, message: detail } = failure.error;
      throw new ContainerStartError('ImagePullBackOff', `${message}: ${reason}: ${detail}`, { retryAtMs: waitUntilMs });
    }
    record('Normal', 'Pulling', `Pulling image ${goQuote(image)}`);
    const startMs = clock.now();
    try {
      const status = await images.pull(image, credentialsFor(secrets, image), signal);
      const took = showDuration(clock.now() - startMs);
      record(
        'Normal',
        'Pulled',
        `Successfully pulled image ${goQuote(image)} in ${took} (${took} including waiting). Image size: ${status.sizeBytes} bytes.`,
      );
      this.#backOff.forget(key);
      this.#failures.delete(key);
      return status;
    } catch (thrown) {
      signal.throwIfAborted();
      record('Warning', 'Failed', `Failed to pull image ${goQuote(image)}: ${messageOf(thrown)}`);
      const error = new ContainerStartError(failedPull, messageOf(thrown), { cause: thrown });
      this.#backOff.next(key, clock.now());
      this.#failures.set(key, { atMs: clock.now(), error });
      throw error;
    }
  }
}

function checkReference(image: string, record: (message: string) => void): void {
  try {
    parseImageReference(image);
  } catch (error) {
    const message = `Failed to apply default image tag ${goQuote(image)}: ${messageOf(error)}`;
    record(message);
    throw new ContainerStartError('InvalidImageName', message);
  }
}

function credentialsFor(secrets: ImagePullSecrets, image: string): readonly PullCredential[] {
  return pullCredentials(secrets, image).map(({ registry, username, password }) => ({
    username,
    password,
    auth: '',
    serverAddress: registry,
  }));
}
