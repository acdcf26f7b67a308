/** The probes of all pods: starts and stops their workers, and reports their results to the status. */
import { runTask } from '../../base/run-task.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import { podFullName, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type ProbeKind, ProbeWorker, type ProbeWorkerDeps } from './probe-worker.ts';

export class ProbeManager {
  readonly #deps: ProbeWorkerDeps;
  readonly #signal: AbortSignal;
  readonly #startedAtMs: number;
  /** By pod UID, then by kind and container. */
  readonly #workers = new Map<string, Map<string, ProbeWorker>>();
  readonly #running = new Set<Promise<void>>();

  constructor(deps: ProbeWorkerDeps, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
    this.#startedAtMs = deps.clock.now();
  }

  /** Has no effect on probes that run already. */
  add(pod: Pod): void {
    const { initContainers = [], containers } = pod.spec;
    const uid = podUid(pod);
    for (const container of [...initContainers.filter(isSidecar), ...containers]) {
      const probes: readonly (readonly [ProbeKind, Probe | undefined])[] = [
        ['startup', container.startupProbe],
        ['readiness', container.readinessProbe],
        ['liveness', container.livenessProbe],
      ];
      for (const [kind, probe] of probes) {
        const workers = this.#workers.get(uid) ?? new Map<string, ProbeWorker>();
        const key = `${kind} ${container.name}`;
        if (probe === undefined || workers.has(key)) continue;
        const worker = new ProbeWorker(kind, pod, container, probe, this.#deps);
        workers.set(key, worker);
        this.#workers.set(uid, workers);
        const probing = (ended: AbortSignal): Promise<void> => worker.run(this.#delayMs(probe), ended);
        const running = runTask(`${key} probe of pod ${podFullName(pod)}`, probing, this.#deps, this.#signal).finally(
          () => {
            this.#running.delete(running);
            if (workers.get(key) === worker) workers.delete(key);
          },
        );
        this.#running.add(running);
      }
    }
  }

  /** The readiness of a pod that ends still counts, but its containers are not restarted. */
  stopLivenessAndStartup(uid: string): void {
    for (const worker of this.#workers.get(uid)?.values() ?? []) if (worker.kind !== 'readiness') worker.stop();
  }

  remove(uid: string): void {
    for (const worker of this.#workers.get(uid)?.values() ?? []) worker.stop();
    this.#workers.delete(uid);
  }

  retain(uids: ReadonlySet<string>): void {
    for (const uid of this.#workers.keys()) if (!uids.has(uid)) this.remove(uid);
  }

  hasStarted(uid: string, container: string, containerId: string): boolean | undefined {
    return this.#result('startup', uid, container, containerId);
  }

  isReady(uid: string, container: string, containerId: string): boolean | undefined {
    return this.#result('readiness', uid, container, containerId);
  }

  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  #result(kind: ProbeKind, uid: string, container: string, containerId: string): boolean | undefined {
    const worker = this.#workers.get(uid)?.get(`${kind} ${container}`);
    const result = this.#deps.results.get(kind, containerId);
    if (result === undefined) worker?.probeNow(containerId);
    return worker === undefined ? (result ?? true) : result;
  }

  /** Right after the start of this program the probes of all pods would begin at the same moment. */
  #delayMs({ periodSeconds = 10 }: Probe): number {
    const { clock, random } = this.#deps;
    const periodMs = periodSeconds * 1000;
    return clock.now() - this.#startedAtMs < periodMs ? random() * periodMs : 0;
  }
}
