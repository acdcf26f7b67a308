/**
 * One probe of one container: runs periodically, counts equal results, and reports a verdict when enough of them agree. It
 * follows the container through its restarts.
 */
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { TaskFailed } from '../../base/run-task.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import { bareContainerId, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import { type ContainerStatus, type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ProbeOutcome, ProbeTarget } from './probe-handlers.ts';

export interface ProbeWorkerDeps {
  readonly run: (target: ProbeTarget, signal: AbortSignal) => Promise<ProbeOutcome>;
  /** The probe failed only because its container has ended meanwhile. */
  readonly hasEnded: (target: ProbeTarget, problem: unknown, signal: AbortSignal) => Promise<boolean>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly events: EventSink;
  readonly notify: (notice: TaskFailed) => void;
  readonly results: ProbeResults;
  /** The last status: a probe runs against the container that users see. */
  readonly statusOf: (podUid: string) => PodStatus | undefined;
  /** A verdict changed, so the pod has to be synced. */
  readonly changed: (podUid: string, kind: ProbeKind, result: boolean) => void;
}

/** How often a probe that cannot be run is tried at once. */
const triesMax = 3;
const titles: Readonly<Record<ProbeKind, string>> = {
  liveness: 'Liveness',
  readiness: 'Readiness',
  startup: 'Startup',
};

export class ProbeWorker {
  readonly kind: ProbeKind;
  readonly #pod: Pod;
  readonly #container: AnyContainer;
  readonly #probe: Probe;
  readonly #deps: ProbeWorkerDeps;
  readonly #stop = new AbortController();
  #containerId: string | undefined;
  #isOnHold = false;
  #hasProbed = false;
  #lastResult: boolean | undefined;
  #equalResults = 0;
  readonly #wake = new WakeSignal();

  constructor(kind: ProbeKind, pod: Pod, container: AnyContainer, probe: Probe, deps: ProbeWorkerDeps) {
    this.kind = kind;
    this.#pod = pod;
    this.#container = container;
    this.#probe = probe;
    this.#deps = deps;
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Probes a container that was not probed yet without waiting for the next period. */
  probeNow(containerId: string): void {
    if (containerId !== this.#containerId || !this.#hasProbed) this.#wake.wake();
  }

  /** `delayMs`: before the first time, so that the probes of a node do not all run at the same moment. */
  async run(delayMs: number, signal: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([signal, this.#stop.signal]);
    const periodMs = (this.#probe.periodSeconds ?? 10) * 1000;
    try {
      if (delayMs > 0) await this.#deps.clock.sleep(delayMs, ended);
      while (!ended.aborted && (await this.#once(ended))) await this.#wake.sleep(periodMs, this.#deps.clock, ended);
    } catch (error) {
      if (!ended.aborted) throw error;
    } finally {
      if (this.#containerId !== undefined) this.#deps.results.remove(this.kind, this.#containerId);
    }
  }

  /** False when there is nothing left to probe. */
  async #once(signal: AbortSignal): Promise<boolean> {
    const { clock, statusOf } = this.#deps;
    const uid = podUid(this.#pod);
    const status = statusOf(uid);
    if (status === undefined) return true;
    if (isTerminalPhase(status.phase)) return false;
    const container = this.#statusIn(status);
    const id = idOf(container);
    if (container === undefined || id === undefined) return true;
    if (id !== this.#containerId) this.#follow(id);
    if (this.#isOnHold) return true;
    if (container.state?.running === undefined) {
      this.#set(false);
      return container.state?.terminated === undefined || this.#pod.spec.restartPolicy !== 'Never';
    }
    const startedAtMs = Date.parse(container.state.running.startedAt ?? '');
    if (clock.now() - startedAtMs < (this.#probe.initialDelaySeconds ?? 0) * 1000) return true;
    // Until a container has started only its startup probe runs, and after that all others.
    if ((container.started === true) === (this.kind === 'startup')) return true;
    const result = await this.#probeOnce({ id, podIp: status.podIP ?? '' }, signal);
    if (result !== undefined) this.#count(result);
    return true;
  }

  #statusIn({ containerStatuses = [], initContainerStatuses = [] }: PodStatus): ContainerStatus | undefined {
    return [...containerStatuses, ...initContainerStatuses].find(({ name }) => name === this.#container.name);
  }

  #follow(id: string): void {
    const { results } = this.#deps;
    if (this.#containerId !== undefined) results.remove(this.kind, this.#containerId);
    this.#containerId = id;
    this.#isOnHold = false;
    this.#hasProbed = false;
    this.#lastResult = undefined;
    this.#equalResults = 0;
  }

  /** Undefined when the probe could not be run, or its container ended meanwhile. */
  async #probeOnce(
    { id: containerId, podIp }: { readonly id: string; readonly podIp: string },
    signal: AbortSignal,
  ): Promise<boolean | undefined> {
    const target = { pod: this.#pod, container: this.#container, containerId, podIp, probe: this.#probe };
    let problem: unknown;
    for (let tries = 0; tries < triesMax; tries += 1) {
      try {
        const { result, output } = await this.#deps.run(target, signal);
        if (result === 'failure' && (await this.#deps.hasEnded(target, undefined, signal))) return undefined;
        if (result === 'failure') this.#warn('Unhealthy', `${titles[this.kind]} probe failed: ${output}`);
        if (result === 'warning') this.#warn('ProbeWarning', `${titles[this.kind]} probe warning: ${output}`);
        return result !== 'failure';
      } catch (error) {
        signal.throwIfAborted();
        if (await this.#deps.hasEnded(target, error, signal)) return undefined;
        problem = error;
      }
    }
    this.#warn('Unhealthy', `${titles[this.kind]} probe errored and resulted in unknown state: ${messageOf(problem)}`);
    return undefined;
  }

  #count(result: boolean): void {
    this.#hasProbed = true;
    this.#equalResults = this.#lastResult === result ? this.#equalResults + 1 : 1;
    this.#lastResult = result;
    const { failureThreshold = 3, successThreshold = 1 } = this.#probe;
    if (this.#equalResults < (result ? successThreshold : failureThreshold)) return;
    this.#set(result);
    if (result || this.kind === 'readiness') return;
    // It will be restarted: the next result belongs to the next container.
    this.#isOnHold = true;
    this.#equalResults = 0;
  }

  #set(result: boolean): void {
    if (this.#containerId === undefined || !this.#deps.results.set(this.kind, this.#containerId, result)) return;
    this.#deps.changed(podUid(this.#pod), this.kind, result);
  }

  #warn(reason: string, message: string): void {
    const { name: container } = this.#container;
    this.#deps.events.record({ pod: this.#pod, container, type: 'Warning', reason, message });
  }
}

function idOf(status: ContainerStatus | undefined): string | undefined {
  const { containerID = '' } = status ?? {};
  return containerID === '' ? undefined : bareContainerId(containerID);
}

/** The last verdicts of probes, by container ID. */
export type ProbeKind = 'liveness' | 'readiness' | 'startup';

export class ProbeResults {
  readonly #results = new Map<string, boolean>();

  get(kind: ProbeKind, containerId: string): boolean | undefined {
    return this.#results.get(`${kind} ${containerId}`);
  }

  /** Returns whether it is new. */
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
