/** Makes sure that a container's image is there, as its pull policy says, and not too often when it cannot be had. */
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { parseImageReference } from '../../kube/values/image-reference.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { ImageStatus, PullCredential, Runtime, RuntimeImages } from '../../runtimes/runtime.ts';
import { type ImagePullSecrets, pullCredentials } from '../view/image-pull-secrets.ts';
import { ContainerStartError } from './start-errors.ts';

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
    const tell = (type: 'Normal' | 'Warning', reason: string, message: string): void =>
      events.record({ pod, container: name, type, reason, message });
    checkReference(image, (message) => tell('Warning', 'InspectFailed', message));
    if (images === undefined) return { id: image, sizeBytes: 0 };
    if (imagePullPolicy !== 'Always') {
      const present = await images.status(image, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        const message = `Failed to inspect image ${goQuote(image)}: ${messageOf(error)}`;
        tell('Warning', 'InspectFailed', message);
        throw new ContainerStartError('ImageInspectError', message);
      });
      if (present !== undefined) {
        tell('Normal', 'Pulled', `Container image ${goQuote(image)} already present on machine`);
        return present;
      }
      if (imagePullPolicy === 'Never') {
        const message = `Container image ${goQuote(image)} is not present with pull policy of Never`;
        tell('Warning', 'ErrImageNeverPull', message);
        throw new ContainerStartError('ErrImageNeverPull', message);
      }
    }
    return await this.#pull(images, `${podUid(pod)}_${image}`, image, secrets, tell, signal);
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
    tell: (type: 'Normal' | 'Warning', reason: string, message: string) => void,
    signal: AbortSignal,
  ): Promise<ImageStatus> {
    const { clock } = this.#deps;
    const failure = this.#failures.get(key);
    const waitUntilMs = failure && this.#backOff.until(key, failure.atMs);
    if (failure !== undefined && waitUntilMs !== undefined) {
      const message = `Back-off pulling image ${goQuote(image)}`;
      tell('Normal', 'BackOff', message);
      const { reason, message: detail } = failure.error;
      throw new ContainerStartError('ImagePullBackOff', `${message}: ${reason}: ${detail}`, { retryAtMs: waitUntilMs });
    }
    tell('Normal', 'Pulling', `Pulling image ${goQuote(image)}`);
    const startMs = clock.now();
    try {
      const status = await images.pull(image, credentialsFor(secrets, image), signal);
      const took = showDuration(clock.now() - startMs);
      tell(
        'Normal',
        'Pulled',
        `Successfully pulled image ${goQuote(image)} in ${took} (${took} including waiting). Image size: ${status.sizeBytes} bytes.`,
      );
      this.#backOff.forget(key);
      this.#failures.delete(key);
      return status;
    } catch (thrown) {
      signal.throwIfAborted();
      tell('Warning', 'Failed', `Failed to pull image ${goQuote(image)}: ${messageOf(thrown)}`);
      const error = new ContainerStartError(failedPull, messageOf(thrown), { cause: thrown });
      this.#backOff.next(key, clock.now());
      this.#failures.set(key, { atMs: clock.now(), error });
      throw error;
    }
  }
}

function checkReference(image: string, tell: (message: string) => void): void {
  try {
    parseImageReference(image);
  } catch (error) {
    const message = `Failed to apply default image tag ${goQuote(image)}: ${messageOf(error)}`;
    tell(message);
    throw new ContainerStartError('InvalidImageName', message);
  }
}

function credentialsFor(secrets: ImagePullSecrets, image: string): readonly PullCredential[] {
  return pullCredentials(secrets, image).map(({ registry, username, password }) => ({
    username,
    password,
    auth: '',
    serverAddress: registry,
    identityToken: '',
    registryToken: '',
  }));
}

/** Delays that double with every failure of the same thing and are forgotten when it has been well for long. */
interface Entry {
  readonly backOff: BackOff;
  readonly updatedAtMs: number;
}

export class FailureBackOff {
  readonly #initialMs: number;
  readonly #delayMsMax: number;
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();

  constructor(initialMs: number, delayMsMax: number, clock: Clock) {
    this.#initialMs = initialMs;
    this.#delayMsMax = delayMsMax;
    this.#clock = clock;
  }

  /** When the wait ends for what failed at `failedAtMs`; undefined if there is nothing to wait for. */
  until(key: string, failedAtMs: number): number | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || this.#isStale(entry, failedAtMs)) return undefined;
    const untilMs = failedAtMs + entry.backOff.lastMs;
    return this.#clock.now() < untilMs ? untilMs : undefined;
  }

  delayMsOf(key: string): number {
    return this.#entries.get(key)?.backOff.lastMs ?? 0;
  }

  /** Counts a try, so that the next failure waits longer. The first one has nothing to wait for yet. */
  next(key: string, failedAtMs: number): void {
    const before = this.#entries.get(key);
    const isNew = before === undefined || this.#isStale(before, failedAtMs);
    const backOff = isNew ? new BackOff({ firstMs: this.#initialMs, msMax: this.#delayMsMax }) : before.backOff;
    backOff.next();
    this.#entries.set(key, { backOff, updatedAtMs: this.#clock.now() });
  }

  forget(key: string): void {
    this.#entries.delete(key);
  }

  /** Drops what can have no effect any more; called by housekeeping, so the number of entries has a bound. */
  collectGarbage(): void {
    const now = this.#clock.now();
    for (const [key, entry] of this.#entries) if (this.#isStale(entry, now)) this.#entries.delete(key);
  }

  #isStale({ updatedAtMs }: Entry, atMs: number): boolean {
    return atMs - updatedAtMs > 2 * this.#delayMsMax;
  }
}
