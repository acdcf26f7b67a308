/**
 * The pods of this node: passes what the sources want to the workers, and answers questions of the rest of the node about pods.
 * Nothing here polls: sources, runtime, probes and deadlines wake the workers that they concern.
 */
import { setMaxListeners } from 'node:events';
import { onAbort } from '../../base/abort.ts';
import { runTask } from '../../base/run-task.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import {
  type PodSource,
  isMirrorPod,
  isStaticPod,
  podFullName,
  podNamespace,
  podUid,
} from '../../kube/kinds/pod/pod-identity.ts';
import { type PodStatus, isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { namesOf, referencesOf } from '../../kube/references/pod-references.ts';
import { qualityOfService } from '../../kube/references/pod-resources.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { DesiredPods } from '../sources/desired-pods.ts';
import { PodSources, type PodUpdate } from '../sources/pod-sources.ts';
import type { EnvironmentKind } from '../status/stale-environment.ts';
import type { PodProgress } from '../workers/pod-progress.ts';
import type { PodState } from '../workers/pod-worker.ts';
import { collectGarbage, keepHouse } from './housekeeping.ts';
import { type LoopParts, type PodLoopDeps, type PodLoopSettings, assembleParts } from './loop-parts.ts';

/** Why a pod ends early, for a node that needs what it uses. */
interface PodEviction {
  readonly message: string;
  readonly graceSeconds: number;
  /** Of the Event. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Its owner may start it elsewhere: it did nothing wrong. */
  readonly isDisruption: boolean;
}

const preemption = {
  reason: 'Preempting',
  message: 'Preempted in order to admit critical pod',
  disruption: 'Pod was preempted by Kubelet to accommodate a critical pod.',
};

const housekeepingRetryMs = 2000;
/** Housekeeping also runs when nothing happened, in case a change was missed. */
const housekeepingPeriodMs = 60_000;

export class PodLoop {
  readonly #deps: PodLoopDeps;
  readonly #pods = new DesiredPods();
  readonly #config: PodSources;
  readonly #stop = new AbortController();
  readonly #parts: LoopParts;
  /** Wakes housekeeping when it may have something to do. */
  readonly #housekeeping = new WakeSignal();

  constructor(deps: PodLoopDeps, settings: PodLoopSettings) {
    const { clock, events, sources } = deps;
    this.#deps = deps;
    // Every pod and every probe listens to this signal, which Node would report as a leak.
    setMaxListeners(0, this.#stop.signal);
    this.#config = new PodSources(Object.keys(sources) as PodSource[], clock, events);
    this.#parts = assembleParts(deps, settings, this.#pods, (uid, state) => this.#moved(uid, state), this.#stop.signal);
  }

  /** Runs until the signal aborts. Containers keep running; the next start adopts them. */
  async run(signal: AbortSignal): Promise<void> {
    const { signal: stopped } = this.#stop;
    const stop = (): void => this.#stop.abort(signal.reason);
    if (signal.aborted) stop();
    const stopListening = onAbort(signal, stop);
    const owned = (task: string, body: (ended: AbortSignal) => Promise<void>): Promise<void> =>
      runTask(task, body, this.#deps, stopped);
    const tasks = [
      ...Object.entries(this.#deps.sources).map(([name, lists]) =>
        owned(`the pods of source ${name}`, (ended) => this.#follow(name as PodSource, lists(ended))),
      ),
      owned('changes of the runtime', (ended) => this.#followRuntime(ended)),
      owned('housekeeping', (ended) => this.#keepHouse(ended)),
      owned('statuses of pods', (ended) => this.#parts.statuses.run(ended)),
    ];
    try {
      await Promise.all(tasks);
    } finally {
      stop();
      stopListening();
      await this.#parts.workers.settled();
      await this.#parts.probes.settled();
    }
  }

  /** Ends every container, after `run` has resolved: for a node that does not come back soon. */
  async endContainers(graceSeconds: number | undefined, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#deps;
    const ends = (await runtime.list(signal)).map(async (runtimePod) => {
      const { uid, namespace, name } = runtimePod;
      const pod = this.pod(uid) ?? { metadata: { uid, namespace, name }, spec: { containers: [] } };
      await this.#parts.killer.killPod(pod, runtimePod, graceSeconds, signal);
    });
    await Promise.all(ends);
  }

  /** The pods that should be on this node, without mirrors. */
  pods(): readonly Pod[] {
    return this.#pods.pods();
  }

  /** Pods that use resources of this node: all but those that were refused or have ended. */
  activePods(): readonly Pod[] {
    const { progress } = this;
    return this.#pods.pods().filter((pod) => {
      const state = progress.stateOf(podUid(pod));
      if (state === 'terminated' || state === 'finished') return false;
      const phases = [pod.status?.phase, this.statusOf(podUid(pod))?.phase];
      // A pod that is terminating may still have containers.
      return state === 'terminating' || !phases.some(isTerminalPhase);
    });
  }

  /** Also one that is no longer wanted but has not finished. */
  pod(uid: string): Pod | undefined {
    return this.#pods.get(uid) ?? this.progress.podOf(uid);
  }

  /** With its newest status. */
  podNamed(namespace: string, name: string): Pod | undefined {
    const pod = this.#pods.getByFullName(`${name}_${namespace}`);
    const status = pod && this.statusOf(podUid(pod));
    return pod === undefined || status === undefined ? pod : { ...pod, status };
  }

  /** The newest status, sent to the API server or not. */
  statusOf(uid: string): PodStatus | undefined {
    return this.#parts.statuses.get(uid);
  }

  /** What its status was computed from: containers, their IDs and logs. */
  runtimePodOf(uid: string): RuntimePod | undefined {
    return this.progress.get(uid)?.seen;
  }

  /** How far each pod has got, for those who must not act too early. */
  get progress(): PodProgress {
    return this.#parts.workers.progress;
  }

  areSourcesReady(): boolean {
    return this.#config.isComplete();
  }

  /**
   * `resourceVersion` is undefined for an object that was deleted. Pods whose variables are stale now report it in their status,
   * and containers that wait for the object are started.
   */
  objectChanged(kind: EnvironmentKind, namespace: string, name: string, resourceVersion: string | undefined): void {
    const { environment, workers } = this.#parts;
    for (const uid of environment.objectChanged(kind, namespace, name, resourceVersion)) workers.sync(uid);
    for (const pod of this.#pods.pods()) {
      if (podNamespace(pod) !== namespace || !this.#waitsForObject(pod)) continue;
      if (namesOf(referencesOf(pod), kind).has(name)) workers.sync(podUid(pod));
    }
  }

  /** The API server knows the node now, so mirrors of static pods can be created. */
  nodeRegistered(): void {
    for (const pod of this.#pods.pods()) if (isStaticPod(pod)) this.#parts.workers.sync(podUid(pod));
  }

  /** Ends a pod for good, whatever its restart policy. */
  evict(pod: Pod, { message, graceSeconds, annotations, isDisruption }: PodEviction): void {
    const reason = 'Evicted';
    this.#deps.events.record({ pod, type: 'Warning', reason, message, annotations });
    const eviction = { reason, message, ...(isDisruption && { disruption: message }) };
    this.#parts.workers.update({ kind: 'kill', pod, graceSeconds, eviction });
  }

  /** Removes all that is left of pods that have ended, of those that are not deleted too: a disk is short. */
  async removeFinished(signal: AbortSignal): Promise<void> {
    if (!this.#config.isComplete()) return;
    await collectGarbage({ ...this.#deps, ...this.#parts, pods: this.#pods }, { removesFinished: true }, signal);
  }

  #moved(uid: string, state: PodState | undefined): void {
    this.#deps.volumes.podChanged(uid);
    // Nothing of it runs any more, so a terminal phase can be sent.
    if (state === 'terminated' || state === 'finished') this.#parts.statuses.resend(uid);
    if (state === 'finished') this.#housekeeping.wake();
  }

  #waitsForObject(pod: Pod): boolean {
    const { initContainerStatuses = [], containerStatuses = [] } = this.statusOf(podUid(pod)) ?? {};
    return [...initContainerStatuses, ...containerStatuses].some(
      ({ state }) => state?.waiting?.reason === 'CreateContainerConfigError',
    );
  }

  async #follow(source: PodSource, lists: AsyncIterable<readonly Pod[]>): Promise<void> {
    for await (const list of lists) {
      const wasComplete = this.#config.isComplete();
      for (const update of this.#config.replace(source, list)) this.#dispatch(update);
      if (wasComplete) continue;
      this.#deps.volumes.sourcesChanged();
      if (this.#config.isComplete()) this.#housekeeping.wake();
    }
  }

  #dispatch({ kind, pods }: PodUpdate): void {
    const ordered = kind === 'add' ? pods.toSorted(byCreation) : pods;
    for (const pod of ordered) {
      if (kind === 'remove') this.#pods.remove(pod);
      else this.#pods.put(pod);
      this.#deps.volumes.podChanged(podUid(pod));
      try {
        // A mirror whose status changed only shows what was sent.
        if (isMirrorPod(pod) && kind !== 'reconcile') this.#updateStaticPod(pod);
        else if (!isMirrorPod(pod)) this.#updateWorker(kind, pod);
      } catch (error) {
        // The other pods of the list are not held up. Housekeeping retries this one.
        const task = `${kind} of pod ${podFullName(pod)}`;
        this.#deps.notify({ kind: 'TaskFailed', task, error, retryMs: housekeepingRetryMs });
        this.#housekeeping.wake();
      }
    }
    if (kind === 'remove') this.#housekeeping.wake();
  }

  #updateWorker(kind: PodUpdate['kind'], pod: Pod): void {
    switch (kind) {
      case 'add':
        if (this.#refuses(pod)) return;
        // Before its worker runs: what an earlier program left mounted is refreshed at once and needs its objects.
        this.#deps.registrations.registerPod(pod);
        this.#parts.workers.update({ kind: 'create', pod });
        return;
      case 'update':
      case 'delete':
        this.#parts.workers.update({ kind: 'update', pod });
        return;
      case 'remove':
        // A source that was not read yet may want it; housekeeping ends it if not. What was deleted from the API server is
        // killed at once: its successor may need the same port of the host.
        if (this.#config.isComplete())
          this.#parts.workers.update({ kind: 'kill', pod, graceSeconds: isStaticPod(pod) ? undefined : 0 });
        return;
      case 'reconcile':
        if ((pod.spec.readinessGates ?? []).length > 0) this.#parts.workers.sync(podUid(pod));
        return;
    }
  }

  /** A mirror that was created, changed or deleted may have to be replaced. */
  #updateStaticPod(mirror: Pod): void {
    const pod = this.#pods.staticPodOf(mirror);
    if (pod === undefined) return;
    this.#parts.workers.update({ kind: 'update', pod });
    this.#parts.statuses.resend(podUid(pod));
  }

  #refuses(pod: Pod): boolean {
    const { workers, statuses } = this.#parts;
    const { events, admit } = this.#deps;
    const uid = podUid(pod);
    const isEnding = pod.metadata.deletionTimestamp !== undefined || isTerminalPhase(pod.status?.phase);
    if (isEnding || this.progress.isTerminationRequested(uid)) return false;
    const others = this.activePods().filter((other) => podUid(other) !== uid);
    const { refusal, preempted = [] } = admit(pod, others);
    for (const victim of preempted) {
      const { reason, message } = preemption;
      events.record({ pod: victim, type: 'Warning', reason, message });
      workers.update({ kind: 'kill', pod: victim, eviction: preemption });
    }
    if (refusal === undefined) return false;
    const { reason, message } = refusal;
    events.record({ pod, type: 'Warning', reason, message });
    const qosClass = qualityOfService(pod.spec);
    statuses.set(pod, { qosClass, phase: 'Failed', reason, message: `Pod was rejected: ${message}` });
    return true;
  }

  async #followRuntime(signal: AbortSignal): Promise<void> {
    const changes = this.#deps.runtime.changes(signal);
    // It may have missed changes before a restart.
    for (const pod of this.#pods.pods()) this.#parts.workers.sync(podUid(pod));
    for await (const uid of changes) {
      // The pod is gone: housekeeping ends what started too late.
      if (!this.#parts.workers.containersChanged(uid)) this.#housekeeping.wake();
    }
  }

  async #keepHouse(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    let delayMs = housekeepingPeriodMs;
    let isFirst = true;
    while (!signal.aborted) {
      await this.#housekeeping.sleep(delayMs, clock, signal);
      if (signal.aborted || !this.#config.isComplete()) continue;
      const { progress } = this;
      const before = [...progress.workers()].map(({ uid }) => uid);
      const isDone = await keepHouse(
        {
          ...this.#deps,
          ...this.#parts,
          pods: this.#pods,
          forgetPulls: () => this.#parts.starter.collectGarbage(),
        },
        signal,
      );
      // The directories of forgotten pods can be removed.
      for (const uid of before) if (progress.stateOf(uid) === undefined) this.#deps.volumes.podChanged(uid);
      // From now on a UID without a worker is known to be unused: its volumes and directories may be removed. It has no
      // containers either, so the terminal phase of a pod that was refused can be sent.
      if (isFirst) {
        this.#deps.volumes.sourcesChanged();
        for (const pod of this.#pods.pods()) this.#parts.statuses.resend(podUid(pod));
      }
      isFirst = false;
      delayMs = isDone ? housekeepingPeriodMs : housekeepingRetryMs;
    }
  }
}

function byCreation(a: Pod, b: Pod): number {
  const [first, second] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return first === second ? 0 : first < second ? -1 : 1;
}
