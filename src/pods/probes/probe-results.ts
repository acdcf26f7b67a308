/** What the probes of containers said last, by container ID. */
import type { ProbeVerdicts } from '../containers/plan-containers.ts';

export type ProbeKind = 'liveness' | 'readiness' | 'startup';

export class ProbeResults implements ProbeVerdicts {
  readonly #results = new Map<string, boolean>();

  get(kind: ProbeKind, containerId: string): boolean | undefined {
    return this.#results.get(`${kind} ${containerId}`);
  }

  /** Answers whether it is new. */
  set(kind: ProbeKind, containerId: string, result: boolean): boolean {
    const key = `${kind} ${containerId}`;
    if (this.#results.get(key) === result) return false;
    this.#results.set(key, result);
    return true;
  }

  remove(kind: ProbeKind, containerId: string): void {
    this.#results.delete(`${kind} ${containerId}`);
  }
}
