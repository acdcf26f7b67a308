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
