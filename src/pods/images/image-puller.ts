/**
 * Makes sure that an image is on this machine, as its pull policy says. Pulls wait for their turn, there are not too many of them
 * in a second, and one that failed is not tried again before the end of its back-off.
 */
import { FailureBackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { MountletError, aggregated, messageOf } from '../../base/errors.ts';
import { Semaphore } from '../../base/semaphore.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Login } from '../../kube/references/pull-credentials.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { parseImageReference } from '../../kube/values/image-reference.ts';
import { showDuration } from '../../kube/values/times.ts';
import type { ImageStatus, PodRequest, Runtime, RuntimeImages } from '../../runtimes/runtime.ts';
import { type ImagePullSecrets, pullCredentials } from './image-pull-secrets.ts';

export interface PullSettings {
  /** 1: one after another; Infinity: as many as there are. */
  readonly pullsAtOnceMax: number;
  /** Infinity: as many as there are. */
  readonly pullsPerSecond: number;
  readonly pullsBurst: number;
}

/** What the node itself can log in with, for pods of every namespace. */
export interface NodeLogins {
  /** `repository` has no tag: `docker.io/library/nginx`. Never rejects but with the reason of the signal. */
  loginsFor(repository: string, signal: AbortSignal): Promise<readonly Login[]>;
}

interface ImagePullerDeps {
  readonly runtime: Pick<Runtime, 'images'>;
  readonly events: EventSink;
  readonly clock: Clock;
  /** In the order in which they are tried, after the pod's own. */
  readonly nodeLogins: readonly NodeLogins[];
}

interface ImageRequest {
  readonly pod: Pod;
  /** Whose image it is; undefined: a volume's. */
  readonly container: string | undefined;
  /** As the pod has it. */
  readonly image: string;
  readonly policy: string;
  readonly secrets: ImagePullSecrets;
  readonly podRequest: PodRequest;
}

/** Reason and message are those of the waiting state of the containers that need the image. */
export class ImageError extends MountletError {
  readonly reason: string;
  /** Set while it waits for the end of a back-off. */
  readonly retryAtMs: number | undefined;

  constructor(reason: string, message: string, retryAtMs?: number) {
    super(message);
    this.reason = reason;
    this.retryAtMs = retryAtMs;
  }
}

type Record = (type: 'Normal' | 'Warning', reason: string, message: string) => void;

/** The kubelet's. */
const backOffMs = { first: 10_000, max: 300_000 };
/** After this long a pull may go on, but others need not wait for it: nobody sees whether its registry still sends. */
const turnMsMax = 120_000;
/** It ends up in the pod's status. */
const messageCharactersMax = 8192;

export class ImagePuller {
  readonly #deps: ImagePullerDeps;
  readonly #turns: Semaphore;
  readonly #rate: TokenBucket;
  readonly #backOff: FailureBackOff;
  readonly #failures = new Map<string, { readonly atMs: number; readonly error: ImageError }>();

  constructor(deps: ImagePullerDeps, { pullsAtOnceMax, pullsPerSecond, pullsBurst }: PullSettings) {
    this.#deps = deps;
    this.#turns = new Semaphore(pullsAtOnceMax);
    this.#rate = new TokenBucket(deps.clock, { perSecond: pullsPerSecond, burst: pullsBurst });
    this.#backOff = new FailureBackOff(backOffMs.first, backOffMs.max, deps.clock);
  }

  /** Rejects with an ImageError, also while it waits for the end of a back-off. */
  async ensure(request: ImageRequest, signal: AbortSignal): Promise<ImageStatus> {
    const { pod, container, image, policy } = request;
    const { events, runtime } = this.#deps;
    const record: Record = (type, reason, message) => events.record({ pod, container, type, reason, message });
    const name = tagged(image, record);
    const { images } = runtime;
    if (images === undefined) return { id: '', sizeBytes: 0 };
    if (policy !== 'Always') {
      const present = await images.status(name, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        const message = `Failed to inspect image ${goQuote(image)}: ${messageOf(error)}`;
        record('Warning', 'InspectFailed', message);
        throw new ImageError('ImageInspectError', message);
      });
      if (present !== undefined) {
        record('Normal', 'Pulled', `Container image ${goQuote(image)} already present on machine`);
        return present;
      }
      if (policy === 'Never') {
        const message = `Container image ${goQuote(image)} is not present with pull policy of Never`;
        record('Warning', 'ErrImageNeverPull', message);
        throw new ImageError('ErrImageNeverPull', message);
      }
    }
    return await this.#pull(images, name, request, record, signal);
  }

  collectGarbage(): void {
    this.#backOff.collectGarbage();
    for (const key of this.#failures.keys()) if (this.#backOff.delayMsOf(key) === 0) this.#failures.delete(key);
  }

  async #pull(
    images: RuntimeImages,
    name: string,
    request: ImageRequest,
    record: Record,
    signal: AbortSignal,
  ): Promise<ImageStatus> {
    const { clock } = this.#deps;
    const { image, podRequest } = request;
    const key = `${podRequest.uid}_${image}`;
    this.#holdBack(key, image, record);
    record('Normal', 'Pulling', `Pulling image ${goQuote(image)}`);
    const askedAtMs = clock.now();
    let credentials: readonly Login[] = [];
    try {
      credentials = await this.#credentials(name, request, signal);
      const { status, tookMs } = await this.#inTurn(
        () => pullWithOneOf(credentials, (one) => images.pull(name, one, podRequest, signal), signal),
        (message) => record('Warning', 'PullIsSlow', `Image ${goQuote(image)} ${message}`),
        signal,
      );
      const took = `${showDuration(tookMs)} (${showDuration(clock.now() - askedAtMs)} including waiting)`;
      const size = `Image size: ${status.sizeBytes} bytes.`;
      record('Normal', 'Pulled', `Successfully pulled image ${goQuote(image)} in ${took}. ${size}`);
      this.#failures.delete(key);
      return status;
    } catch (thrown) {
      signal.throwIfAborted();
      // Masked before it is cut: half a password is not found any more.
      const text = withoutSecrets(messageOf(thrown), credentials).slice(0, messageCharactersMax);
      record('Warning', 'Failed', `Failed to pull image ${goQuote(image)}: ${text}`);
      const error = pullError(image, text);
      this.#backOff.next(key, clock.now());
      this.#failures.set(key, { atMs: clock.now(), error });
      throw error;
    }
  }

  #holdBack(key: string, image: string, record: Record): void {
    const failure = this.#failures.get(key);
    const waitUntilMs = failure && this.#backOff.until(key, failure.atMs);
    if (failure === undefined || waitUntilMs === undefined) return;
    const message = `Back-off pulling image ${goQuote(image)}`;
    record('Normal', 'BackOff', message);
    const { reason, message: detail } = failure.error;
    throw new ImageError('ImagePullBackOff', `${message}: ${reason}: ${detail}`, waitUntilMs);
  }

  /** In the order in which they are tried; none: without a login. */
  async #credentials(name: string, { secrets }: ImageRequest, signal: AbortSignal): Promise<readonly Login[]> {
    const { repository } = parseImageReference(name);
    const logins: Login[] = [...pullCredentials(secrets, name)];
    for (const source of this.#deps.nodeLogins) logins.push(...(await source.loginsFor(repository, signal)));
    return logins.map(({ username, password }) => ({ username, password }));
  }

  /** `slow` is called when others no longer wait for it. */
  async #inTurn(
    pull: () => Promise<ImageStatus>,
    slow: (message: string) => void,
    signal: AbortSignal,
  ): Promise<{ readonly status: ImageStatus; readonly tookMs: number }> {
    const { clock } = this.#deps;
    const release = await this.#turns.acquire(signal);
    const ended = new AbortController();
    const tooLong = async (): Promise<void> => {
      await clock.sleep(turnMsMax, ended.signal);
      release();
      slow(`is still being pulled after ${showDuration(turnMsMax)}: its registry may be slow, or not answer`);
    };
    const watching = tooLong().catch(() => {});
    try {
      if (!this.#rate.tryTake()) throw new ImageError('ErrImagePull', 'pull QPS exceeded');
      const startedAtMs = clock.now();
      return { status: await pull(), tookMs: clock.now() - startedAtMs };
    } finally {
      ended.abort();
      await watching;
      release();
    }
  }
}

/** A wrong login is not followed by a try without one: the registry might give another image to strangers. */
async function pullWithOneOf(
  credentials: readonly Login[],
  pull: (credential: Login | undefined) => Promise<ImageStatus>,
  signal: AbortSignal,
): Promise<ImageStatus> {
  if (credentials.length === 0) return await pull(undefined);
  const messages: string[] = [];
  for (const credential of credentials) {
    try {
      return await pull(credential);
    } catch (error) {
      signal.throwIfAborted();
      messages.push(messageOf(error));
    }
  }
  throw new ImageError('ErrImagePull', aggregated(messages));
}

/** What the runtime is asked for. Without a registry, which the runtime adds as it is configured to. */
function tagged(image: string, record: Record): string {
  try {
    const { tag, digest } = parseImageReference(image);
    return digest === '' && !image.endsWith(`:${tag}`) ? `${image}:${tag}` : image;
  } catch (error) {
    const message = `Failed to apply default image tag ${goQuote(image)}: ${messageOf(error)}`;
    record('Warning', 'InspectFailed', message);
    throw new ImageError('InvalidImageName', message);
  }
}

/** Words with which CRI has runtimes begin a message, and what they mean. */
const reservedWords = {
  RegistryUnavailable: 'the registry is unavailable',
  SignatureValidationFailed: 'the signature validation failed',
};

function pullError(image: string, text: string): ImageError {
  for (const [word, meaning] of Object.entries(reservedWords)) {
    if (text.startsWith(word))
      return new ImageError(word, `image pull failed for ${image} because ${meaning}${text.slice(word.length)}`);
  }
  return new ImageError('ErrImagePull', text);
}

/** Shorter ones are in every text, and no secret. */
const secretCharactersMin = 4;

/** A registry may repeat what it was sent, and Events are for everyone. */
function withoutSecrets(text: string, credentials: readonly Login[]): string {
  const secrets = credentials.flatMap(({ username, password }) => [
    Buffer.from(`${username}:${password}`).toString('base64'),
    new URLSearchParams([['', password]]).toString().slice(1),
    password,
  ]);
  return secrets
    .filter(({ length }) => length >= secretCharactersMin)
    .toSorted((a, b) => b.length - a.length)
    .reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
}
