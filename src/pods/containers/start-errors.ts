/** Why containers do not run. */
import { MountletError, messageOf } from '../../base/errors.ts';

/** Reason and message are those of the container's waiting state. Of all containers at once where a pod cannot have any yet. */
export class ContainerStartError extends MountletError {
  readonly reason: string;
  /** Undefined: after the usual time. */
  readonly retryAtMs: number | undefined;

  constructor(
    reason: string,
    message: string,
    options: ErrorOptions & { readonly retryAtMs?: number | undefined } = {},
  ) {
    super(message, options);
    this.reason = reason;
    this.retryAtMs = options.retryAtMs;
  }
}

/** An Event of the pod has said it already. */
export class ReportedError extends MountletError {
  readonly reason = 'PodStepFailed';

  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
  }
}

/** A pull was tried and failed just now, so pull secrets that are missing may be the reason. */
export function isFailedPull(error: unknown): boolean {
  return error instanceof ContainerStartError && error.reason === 'ErrImagePull';
}

export interface StartError {
  readonly reason: string;
  readonly message: string;
}

/** As the kubelet's. What a node with many broken pods drops here is recorded again at their next try. */
const entriesMax = 1000;

/** The last error of each container, until it starts: its status shows it for as long as the container waits. */
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
