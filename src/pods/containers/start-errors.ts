import { MountletError } from '../../base/errors.ts';

/** Why containers could not be started, until they are: a status shows it for as long as the container waits. */
export interface StartError {
  readonly reason: string;
  readonly message: string;
}

/** As the kubelet's: what a node with many broken pods forgets here, it learns again at their next try. */
const entriesMax = 1000;

export class StartErrors {
  readonly #entries = new Map<string, StartError>();

  set(podUid: string, container: string, error: StartError): void {
    const key = keyOf(podUid, container);
    this.#entries.delete(key);
    this.#entries.set(key, error);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > entriesMax && oldest !== undefined) this.#entries.delete(oldest);
  }

  get(podUid: string, container: string): StartError | undefined {
    return this.#entries.get(keyOf(podUid, container));
  }

  clear(podUid: string, container: string): void {
    this.#entries.delete(keyOf(podUid, container));
  }
}

function keyOf(podUid: string, container: string): string {
  return `${podUid}_${container}`;
}

/** Why a container does not run: reason and message are those of its waiting state. */
export class ContainerStartError extends MountletError {
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Not now, but at a known time: a container in its back-off. */
export class RetryAtError extends MountletError {
  readonly reason: string;
  readonly retryAtMs: number;

  constructor(reason: string, message: string, retryAtMs: number) {
    super(message);
    this.reason = reason;
    this.retryAtMs = retryAtMs;
  }
}
