/**
 * The pods of this node: takes what the sources want, hands it to the workers, and answers what others need to know of pods.
 * Nothing here polls: sources, runtime, probes and deadlines wake what they concern.
 */
import { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import type { Pod, PodStatus } from '../kube/objects/pod.ts';
import type { Runtime } from '../runtimes/runtime.ts';
import type { ContainerFiles } from './container-files.ts';
import { ContainerKiller } from './containers/container-killer.ts';
import type { NodeSettings } from './containers/container-request.ts';
import { ContainerStarter } from './containers/container-starter.ts';
import { ContainerSync } from './containers/container-sync.ts';
import { StartErrors } from './containers/start-errors.ts';
import type { ContainerViewDeps } from './container-view.ts';
import type { EventSink } from './event-sink.ts';
import { keepHouse } from './housekeeping.ts';
import type { HousekeepingFailed } from './housekeeping.ts';
import type { PodApi } from './pod-api.ts';
import { PodManager } from './pod-manager.ts';
import { podUid } from './pod-names.ts';
import type { PodNetwork } from './pod-network.ts';
import { PodSyncer } from './pod-syncer.ts';
import type { MirrorFailed, PodNode } from './pod-syncer.ts';
import type { ObjectRegistration, PodVolumes } from './pod-volumes.ts';
import { runProbe } from './probes/probe-handlers.ts';
import { ProbeManager } from './probes/probe-manager.ts';
import { ProbeResults } from './probes/probe-results.ts';
import type { PodUpdate } from './sources/merge-pods.ts';
import { isMirrorPod, isStaticPod } from './sources/pod-annotations.ts';
import type { PodSource } from './sources/pod-annotations.ts';
import { PodConfig } from './sources/pod-config.ts';
import { StaleEnvironment } from './stale-environment.ts';
import type { EnvironmentKind } from './stale-environment.ts';
import { StatusManager } from './status/status-manager.ts';
import type { StatusNotice } from './status/status-manager.ts';
import { TerminationMessages } from './status/termination-messages.ts';
import { isTerminalPhase } from './workers/pod-record.ts';
import type { PodState } from './workers/pod-record.ts';
import type { Eviction } from './workers/pod-steps.ts';
import { PodWorkers } from './workers/pod-workers.ts';
import type { PodStepFailed } from './workers/pod-workers.ts';

export type PodNotice = PodStepFailed | HousekeepingFailed | MirrorFailed | StatusNotice;

export interface PodLoopDeps {
  /** Each yields complete lists, the first one also when it is empty. */
  readonly sources: Readonly<Partial<Record<PodSource, (signal: AbortSignal) => AsyncIterable<readonly Pod[]>>>>;
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly random: () => number;
  readonly events: EventSink;
  readonly api: PodApi;
  readonly files: ContainerFiles;
  readonly volumes: PodVolumes;
  readonly registrations: ObjectRegistration;
  readonly network: PodNetwork;
  /** What a container sees, as the node is now. */
  readonly view: () => ContainerViewDeps;
  readonly node: () => PodNode;
  /** Why this node cannot take a pod; undefined when it can. */
  readonly refuse: (pod: Pod) => Eviction | undefined;
  readonly notify: (notice: PodNotice) => void;
}

export interface PodLoopSettings extends NodeSettings {
  /** `syncFrequency`: 60 s. */
  readonly resyncMs: number;
}

/** After an error a pod is tried again, and so is housekeeping. */
const retryMs = 10_000;
const housekeepingRetryMs = 2000;
/** A look at everything though nothing happened, for what others did behind our back. */
const housekeepingPeriodMs = 60_000;

export class PodLoop {
  readonly #deps: PodLoopDeps;
  readonly #pods = new PodManager();
  readonly #config: PodConfig;
  readonly #stop = new AbortController();
  readonly #workers: PodWorkers;
  readonly #statuses: StatusManager;
  readonly #probes: ProbeManager;
  readonly #killer: ContainerKiller;
  readonly #starter: ContainerStarter;
  readonly #environment: StaleEnvironment;
  /** Rings when housekeeping may have something to do. */
  readonly #housework = new Bell();

  constructor(deps: PodLoopDeps, settings: PodLoopSettings) {
    const { clock, random, events, runtime, api, volumes, network, notify } = deps;
    const { signal } = this.#stop;
    this.#deps = deps;
    this.#config = new PodConfig(Object.keys(deps.sources) as PodSource[], clock, events);
    const results = new ProbeResults();
    const startErrors = new StartErrors();
    this.#environment = new StaleEnvironment(events);
    this.#killer = new ContainerKiller({ runtime, network, clock, events });
    this.#starter = new ContainerStarter({ ...deps, killer: this.#killer }, settings);
    this.#statuses = new StatusManager({
      api,
      clock,
      notify,
      pods: this.#pods,
      couldHaveRunningContainers: (uid) => this.#workers.couldHaveRunningContainers(uid),
    });
    this.#probes = new ProbeManager(
      {
        clock,
        random,
        events,
        results,
        run: (target, ended) => runProbe(target, { runtime, network, clock }, ended),
        statusOf: (uid) => this.#statuses.get(uid),
        changed: (uid, kind, result) => {
          // That a container lives is no news.
          if (kind !== 'liveness' || !result) this.#workers.sync(uid);
        },
      },
      signal,
    );
    const containers = new ContainerSync(
      { ...deps, probes: results, startErrors, killer: this.#killer, starter: this.#starter },
      settings.clusterDomain,
    );
    const steps = new PodSyncer({
      ...deps,
      objects: deps.view,
      pods: this.#pods,
      statuses: this.#statuses,
      probes: this.#probes,
      containers,
      killer: this.#killer,
      startErrors,
      environment: this.#environment,
      messages: new TerminationMessages(deps.files),
      isTerminationRequested: (uid) => this.#workers.isTerminationRequested(uid),
    });
    const moved = (uid: string, state: PodState): void => {
      volumes.podChanged(uid);
      // Nothing of it runs any more, so a terminal phase need not be withheld.
      if (state === 'terminated') this.#statuses.resend(uid);
      if (state === 'finished') this.#housework.ring();
    };
    const newest = (uid: string): Pod | undefined => this.#pods.get(uid);
    const { resyncMs } = settings;
    this.#workers = new PodWorkers(
      { steps, runtime, newest, clock, random, events, notify, moved },
      { resyncMs, retryMs },
      signal,
    );
  }

  /** Lives until the signal aborts. Containers go on running; the next start adopts them. */
  async run(signal: AbortSignal): Promise<void> {
    const { signal: stopped } = this.#stop;
    const stop = (): void => this.#stop.abort(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    const tasks = [
      ...Object.entries(this.#deps.sources).map(([name, lists]) => this.#follow(name as PodSource, lists(stopped))),
      this.#hearRuntime(stopped),
      this.#keepHouse(stopped),
      this.#statuses.run(stopped),
    ];
    try {
      await Promise.all(tasks);
    } catch (error) {
      if (!stopped.aborted) throw error;
    } finally {
      stop();
      signal.removeEventListener('abort', stop);
      await Promise.allSettled(tasks);
      await this.#workers.settled();
      await this.#probes.settled();
    }
  }

  /** Ends every container, once `run` has resolved: for a node that does not come back soon. */
  async endContainers(graceSeconds: number | undefined, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#deps;
    const ends = (await runtime.list(signal)).map(async (runtimePod) => {
      const { uid, namespace, name } = runtimePod;
      const pod = this.pod(uid) ?? { metadata: { uid, namespace, name }, spec: { containers: [] } };
      await this.#killer.killPod(pod, runtimePod, graceSeconds, signal);
    });
    await Promise.all(ends);
  }

  /** The pods that should be on this node, without mirrors. */
  pods(): readonly Pod[] {
    return this.#pods.pods();
  }

  /** Also one that is no longer wanted but has not finished. */
  pod(uid: string): Pod | undefined {
    return this.#pods.get(uid) ?? this.#workers.podOf(uid);
  }

  podNamed(namespace: string, name: string): Pod | undefined {
    return this.#pods.getByFullName(`${name}_${namespace}`);
  }

  /** The newest status, also one that no API server has been told. */
  statusOf(uid: string): PodStatus | undefined {
    return this.#statuses.get(uid);
  }

  stateOf(uid: string): PodState | undefined {
    return this.#workers.stateOf(uid);
  }

  areSourcesReady(): boolean {
    return this.#config.isComplete();
  }

  shouldContainersBeTerminating(uid: string): boolean {
    return this.#workers.shouldContainersBeTerminating(uid);
  }

  shouldRuntimeBeRemoved(uid: string): boolean {
    return this.#workers.shouldRuntimeBeRemoved(uid);
  }

  /** Undefined: the object is gone. Pods whose variables are out of date now say so in their status. */
  objectChanged(kind: EnvironmentKind, namespace: string, name: string, resourceVersion: string | undefined): void {
    for (const uid of this.#environment.objectChanged(kind, namespace, name, resourceVersion)) this.#workers.sync(uid);
  }

  /** The API server knows the node now, so it can show the static pods. */
  nodeRegistered(): void {
    for (const pod of this.#pods.pods()) if (isStaticPod(pod)) this.#workers.sync(podUid(pod));
  }

  async #follow(source: PodSource, lists: AsyncIterable<readonly Pod[]>): Promise<void> {
    for await (const list of lists) {
      const wasComplete = this.#config.isComplete();
      for (const update of this.#config.replace(source, list)) this.#dispatch(update);
      if (wasComplete) continue;
      this.#deps.volumes.sourcesChanged();
      if (this.#config.isComplete()) this.#housework.ring();
    }
  }

  #dispatch({ kind, pods }: PodUpdate): void {
    const ordered = kind === 'add' ? pods.toSorted(byCreation) : pods;
    for (const pod of ordered) {
      if (kind === 'remove') this.#pods.remove(pod);
      else this.#pods.put(pod);
      this.#deps.volumes.podChanged(podUid(pod));
      // A mirror whose status changed shows what we told it.
      if (isMirrorPod(pod) && kind !== 'reconcile') this.#pokeStaticPod(pod);
      else if (!isMirrorPod(pod)) this.#handOver(kind, pod);
    }
    if (kind === 'remove') this.#housework.ring();
  }

  #handOver(kind: PodUpdate['kind'], pod: Pod): void {
    switch (kind) {
      case 'add':
        if (!this.#isRefused(pod)) this.#workers.update({ kind: 'create', pod });
        return;
      case 'update':
      case 'delete':
        this.#workers.update({ kind: 'update', pod });
        return;
      case 'remove':
        // Another source that was not read yet may want it; housekeeping ends it if not.
        if (this.#config.isComplete()) this.#workers.update({ kind: 'kill', pod });
        return;
      case 'reconcile':
        if ((pod.spec.readinessGates ?? []).length > 0) this.#workers.sync(podUid(pod));
        return;
    }
  }

  /** A mirror that came, changed or went may have to be made anew. */
  #pokeStaticPod(mirror: Pod): void {
    const pod = this.#pods.staticPodOf(mirror);
    if (pod === undefined) return;
    this.#workers.update({ kind: 'update', pod });
    this.#statuses.resend(podUid(pod));
  }

  #isRefused(pod: Pod): boolean {
    const isEnding = pod.metadata.deletionTimestamp !== undefined || isTerminalPhase(pod.status?.phase);
    const refusal = isEnding || this.#workers.isTerminationRequested(podUid(pod)) ? undefined : this.#deps.refuse(pod);
    if (refusal === undefined) return false;
    const { reason, message } = refusal;
    this.#deps.events.record({ pod, type: 'Warning', reason, message });
    this.#statuses.set(pod, { ...pod.status, phase: 'Failed', reason, message: `Pod was rejected: ${message}` });
    return true;
  }

  async #hearRuntime(signal: AbortSignal): Promise<void> {
    for await (const uid of this.#deps.runtime.changes(signal)) this.#workers.sync(uid);
  }

  async #keepHouse(signal: AbortSignal): Promise<void> {
    const { clock, volumes, files, runtime, api, notify } = this.#deps;
    let delayMs = housekeepingPeriodMs;
    while (!signal.aborted) {
      await this.#housework.sleep(delayMs, clock, signal);
      if (signal.aborted || !this.#config.isComplete()) continue;
      const isDone = await keepHouse(
        {
          runtime,
          api,
          files,
          volumes,
          notify,
          pods: this.#pods,
          workers: this.#workers,
          statuses: this.#statuses,
          probes: this.#probes,
          collectGarbage: () => this.#starter.collectGarbage(),
        },
        signal,
      );
      delayMs = isDone ? housekeepingPeriodMs : housekeepingRetryMs;
    }
  }
}

function byCreation(a: Pod, b: Pod): number {
  const [first, second] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return first === second ? 0 : first < second ? -1 : 1;
}
