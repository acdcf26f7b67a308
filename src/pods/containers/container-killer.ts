/** Ends containers as their pod specifies: the preStop hook, then the stop signal, then SIGKILL. Runs the hooks of containers. */
import type { Clock } from '../../base/clock.ts';
import { errorCode, messageOf } from '../../base/errors.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import type { Lifecycle } from '../../kube/kinds/pod/container.ts';
import { type AnyContainer, containerNamed, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Runtime, RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import { HandlerError, type PodNetwork, exchangeHttp, httpExchange } from '../probes/http-exchange.ts';
import type { KillReason } from './plan-containers.ts';
import { addressesOf, hasEnded } from './runtime-containers.ts';

interface KillDeps extends HookDeps {
  readonly runtime: Pick<Runtime, 'run' | 'get' | 'stopContainer' | 'stopPod'>;
  /** The addresses of pods that have the host's network. */
  readonly hostIPs: () => readonly string[];
}

interface KillRequest {
  readonly reason: KillReason;
  /** Empty: `Stopping container <name>`. */
  readonly message: string;
  /** Zero: at once, without a hook. */
  readonly graceSeconds?: number | undefined;
}

/** Less than this would kill programs that are about to end. */
const graceSecondsMin = 2;

export class ContainerKiller {
  readonly #deps: KillDeps;

  constructor(deps: KillDeps) {
    this.#deps = deps;
  }

  /** Ends all containers of a pod side by side. Rejects when the rest is done if some could not be ended. */
  async killPod(
    pod: Pod,
    runtimePod: RuntimePod,
    graceSeconds: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const running = runtimePod.containers.filter(({ state }) => state.kind === 'running' || state.kind === 'unknown');
    const order = new TerminationOrder(
      pod,
      running.map(({ name }) => name),
    );
    // One that is being launched needs no grace, and must not start while others have theirs.
    const created = runtimePod.containers.filter(({ state }) => state.kind === 'created');
    const cancels = created.map(({ id }) => this.#deps.runtime.stopContainer(id, 0, signal));
    const kills = running.map(async (container) => {
      try {
        await this.kill(pod, runtimePod, container, { reason: 'podEnds', message: '', graceSeconds }, signal, order);
      } finally {
        order.ended(container.name);
      }
    });
    const failures = (await Promise.allSettled([...cancels, ...kills])).flatMap((kill) =>
      kill.status === 'rejected' ? [kill] : [],
    );
    signal.throwIfAborted();
    if (failures.length > 0) {
      const errors = failures.map(({ reason }) => reason as unknown);
      throw new AggregateError(errors, errors.map(messageOf).join(', '));
    }
    await this.#deps.runtime.stopPod(runtimePod.uid, signal);
  }

  async kill(
    pod: Pod,
    runtimePod: RuntimePod,
    container: RuntimeContainer,
    { reason, message, graceSeconds: override }: KillRequest,
    signal: AbortSignal,
    order?: TerminationOrder,
  ): Promise<void> {
    const { clock, events, runtime } = this.#deps;
    const { name, id } = container;
    const spec = containerNamed(pod, name);
    const text = message === '' ? `Stopping container ${name}` : message;
    events.record({ pod, container: name, type: 'Normal', reason: 'Killing', message: text });
    let graceMs = (override ?? killGraceSeconds(pod, spec, reason)) * 1000;
    const stopped = new AbortController();
    try {
      if (spec !== undefined && graceMs > 0) {
        const hookEnds = AbortSignal.any([signal, stopped.signal]);
        graceMs -= await this.#preStop(pod, runtimePod, spec, id, graceMs, hookEnds);
        signal.throwIfAborted();
      }
      if (order !== undefined && graceMs > 0) graceMs -= await order.wait(name, graceMs, clock, signal);
      await runtime.stopContainer(id, override === 0 ? 0 : Math.max(graceMs, graceSecondsMin * 1000), signal);
    } finally {
      stopped.abort();
    }
  }

  /**
   * Returns how much of the grace it took. A hook that fails changes nothing, and one that does not end in time is no longer waited
   * for: it runs on beside the container, and ends with it.
   */
  async #preStop(
    pod: Pod,
    runtimePod: RuntimePod,
    container: AnyContainer,
    containerId: string,
    graceMs: number,
    signal: AbortSignal,
  ): Promise<number> {
    const hook = container.lifecycle?.preStop;
    if (hook === undefined) return 0;
    const { clock, events, runtime } = this.#deps;
    const { uid } = runtimePod;
    const [podIp = ''] = addressesOf(runtimePod, this.#deps.hostIPs());
    const startMs = clock.now();
    const waiting = new AbortController();
    const timeout = clock.sleep(graceMs, AbortSignal.any([signal, waiting.signal])).catch(() => {});
    const running = runHook({ pod, container, containerId, podIp, hook }, this.#deps, signal).catch(
      async (error: unknown) => {
        if (waiting.signal.aborted || signal.aborted) return;
        if (await hasEnded(runtime, { podUid: uid, containerId }, error, signal)) return;
        const message = 'PreStopHook failed';
        events.record({ pod, container: container.name, type: 'Warning', reason: 'FailedPreStopHook', message });
      },
    );
    await Promise.race([running, timeout]);
    waiting.abort();
    return clock.now() - startMs;
  }
}

/** The grace of the deletion, else that of the probe that failed, else that of the pod. */
function killGraceSeconds(pod: Pod, container: AnyContainer | undefined, reason: KillReason): number {
  const { deletionGracePeriodSeconds } = pod.metadata;
  if (deletionGracePeriodSeconds !== undefined) return deletionGracePeriodSeconds;
  const ofPod = pod.spec.terminationGracePeriodSeconds;
  if (ofPod === undefined) return graceSecondsMin;
  const probe =
    reason === 'livenessProbe'
      ? container?.livenessProbe
      : reason === 'startupProbe'
        ? container?.startupProbe
        : undefined;
  return probe?.terminationGracePeriodSeconds ?? ofPod;
}

interface Ended {
  readonly promise: Promise<void>;
  resolve: () => void;
}

/**
 * The order in which the containers of a pod end: containers and init containers at once, a sidecar when all of them and all
 * sidecars after it have ended, because they may need it until then.
 */
class TerminationOrder {
  readonly #ended = new Map<string, Ended>();
  readonly #predecessors = new Map<string, readonly string[]>();

  constructor({ spec }: Pod, running: Iterable<string>) {
    for (const name of running) {
      const entry: { promise: Promise<void>; resolve: () => void } = { promise: Promise.resolve(), resolve: () => {} };
      entry.promise = new Promise((resolve) => (entry.resolve = resolve));
      this.#ended.set(name, entry);
    }
    const { initContainers = [], containers } = spec;
    for (const [index, container] of initContainers.entries()) {
      if (!isSidecar(container)) continue;
      const later = initContainers.slice(index + 1).filter(isSidecar);
      this.#predecessors.set(
        container.name,
        [...containers, ...later].map(({ name }) => name),
      );
    }
  }

  ended(name: string): void {
    this.#ended.get(name)?.resolve();
  }

  /** Returns how long it took; gives up after `msMax`. */
  async wait(name: string, msMax: number, clock: Clock, signal: AbortSignal): Promise<number> {
    const waiting = (this.#predecessors.get(name) ?? []).flatMap((other) => this.#ended.get(other)?.promise ?? []);
    if (waiting.length === 0) return 0;
    const startMs = clock.now();
    const stop = new AbortController();
    const timeout = clock.sleep(msMax, AbortSignal.any([signal, stop.signal])).catch(() => {});
    await Promise.race([Promise.all(waiting), timeout]);
    stop.abort();
    signal.throwIfAborted();
    return clock.now() - startMs;
  }
}

type Hook = NonNullable<Lifecycle['postStart']>;

export interface HookDeps {
  readonly runtime: Pick<Runtime, 'run'>;
  readonly network: PodNetwork;
  readonly clock: Clock;
  readonly events: EventSink;
}

interface HookRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly containerId: string;
  readonly podIp: string;
  readonly hook: Hook;
}

/**
 * Runs a hook after the start or before the end of a container, and rejects when it failed. Nothing that a hook prints or answers
 * is passed on: it may contain secrets.
 */
export async function runHook(request: HookRequest, deps: HookDeps, signal: AbortSignal): Promise<void> {
  const { hook, containerId } = request;
  if (hook.exec !== undefined) {
    const command = { command: hook.exec.command ?? [], timeoutMs: undefined, bytesMax: 0 };
    const result = await deps.runtime.run(containerId, command, signal);
    if (result === 'timedOut') throw new HandlerError('command timed out');
    if (result.exitCode !== 0) throw new HandlerError(`command exited with ${result.exitCode}`);
    return;
  }
  if (hook.httpGet !== undefined) return await runHttpHook(request, hook.httpGet, deps, signal);
  if (hook.sleep !== undefined) return await deps.clock.sleep(hook.sleep.seconds * 1000, signal);
  throw new HandlerError('cannot run handler: it has neither exec, httpGet nor sleep');
}

/** Any answer is a success, whatever its status. */
async function runHttpHook(
  request: HookRequest,
  httpGet: NonNullable<Hook['httpGet']>,
  { network, events }: HookDeps,
  signal: AbortSignal,
): Promise<void> {
  const { pod, container } = request;
  const exchange = httpExchange(request, httpGet);
  try {
    await exchangeHttp(exchange, network, userAgent, signal);
  } catch (error) {
    if (exchange.scheme !== 'https' || !notTls.has(errorCode(error) ?? '')) throw error;
    // Old kubelets used HTTP for HTTPS hooks, so there are pods whose servers only speak HTTP.
    await exchangeHttp({ ...exchange, scheme: 'http' }, network, userAgent, signal);
    const message = `request to HTTPS lifecycle hook ${exchange.host}:${exchange.port} got HTTP response, retry with HTTP succeeded`;
    events.record({ pod, container: container.name, type: 'Warning', reason: 'LifecycleHTTPFallback', message });
  }
}

const userAgent = 'kube-lifecycle/1.33';
/** How OpenSSL reports an answer that is not TLS. */
const notTls: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);
