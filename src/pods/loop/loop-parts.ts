/** The parts of the pod loop and how they are connected. */
import type { Pausing } from '../../base/clock.ts';
import type { TaskFailed } from '../../base/run-task.ts';
import type { EventSink } from '../../kube/kinds/event.ts';
import { type PodSource, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { ContainerKiller } from '../containers/container-killer.ts';
import type { ContainerFiles, NodeSettings } from '../containers/container-request.ts';
import { ContainerStarter } from '../containers/container-starter.ts';
import { ContainerSync, type NodeEvents, type RuntimeClasses } from '../containers/container-sync.ts';
import { DeadContainers } from '../containers/dead-containers.ts';
import { hasEnded } from '../containers/runtime-containers.ts';
import { StartErrors } from '../containers/start-errors.ts';
import type { CredentialProviderFailed } from '../images/credential-providers.ts';
import { ImagePuller, type NodeLogins, type PullSettings } from '../images/image-puller.ts';
import type { PodNetwork } from '../probes/http-exchange.ts';
import { runProbe } from '../probes/probe-handlers.ts';
import { ProbeManager } from '../probes/probe-manager.ts';
import { ProbeResults } from '../probes/probe-worker.ts';
import type { DesiredPods } from '../sources/desired-pods.ts';
import type { MirrorApi } from '../sources/mirror-pods.ts';
import { TerminationMessages } from '../status/container-statuses.ts';
import type { Eviction } from '../status/pod-status.ts';
import { StaleEnvironment } from '../status/stale-environment.ts';
import { type StatusApi, StatusManager, type StatusNotice } from '../status/status-manager.ts';
import type { ContainerViewDeps } from '../view/container-view.ts';
import type { DnsSettings } from '../view/dns.ts';
import { PodProgress } from '../workers/pod-progress.ts';
import type { PodState, PodStepFailed } from '../workers/pod-worker.ts';
import { PodWorkers } from '../workers/pod-workers.ts';
import type { HousekeepingFailed } from './housekeeping.ts';
import {
  type MirrorFailed,
  type ObjectRegistration,
  PodLifecycle,
  type PodNode,
  type PodVolumes,
} from './pod-lifecycle.ts';

export type PodNotice =
  | CredentialProviderFailed
  | PodStepFailed
  | HousekeepingFailed
  | MirrorFailed
  | StatusNotice
  | TaskFailed;

/** All that pods need of an API server. On a node without one every method does nothing and finds nothing. */
export type PodApi = MirrorApi & StatusApi;

/** Whether this node accepts a pod. */
export interface PodAdmission {
  /** Why the pod is refused. */
  readonly refusal?: Eviction | undefined;
  /** Pods that have to end to make room. */
  readonly preempted?: readonly Pod[];
}

export interface PodLoopDeps extends Pausing {
  /** Each yields complete lists. The first may be empty. */
  readonly sources: Readonly<Partial<Record<PodSource, (signal: AbortSignal) => AsyncIterable<readonly Pod[]>>>>;
  readonly runtime: Runtime;
  readonly random: () => number;
  readonly events: EventSink;
  /** Events about the node itself. */
  readonly nodeEvents: NodeEvents;
  readonly api: PodApi;
  readonly files: ContainerFiles;
  readonly volumes: PodVolumes;
  readonly registrations: ObjectRegistration;
  readonly network: PodNetwork;
  readonly nodeLogins: readonly NodeLogins[];
  /** Called at every start of a container: services and addresses of the node change. */
  readonly view: () => ContainerViewDeps;
  readonly node: () => PodNode;
  readonly dns: () => Promise<DnsSettings>;
  /** `others` are the active pods of this node. */
  readonly admit: (pod: Pod, others: readonly Pod[]) => PodAdmission;
  readonly runtimeClasses: RuntimeClasses;
  readonly notify: (notice: PodNotice) => void;
}

export interface PodLoopSettings extends NodeSettings, PullSettings {
  /** `syncFrequency`: 60 s. */
  readonly resyncMs: number;
  /** Whether a container that only idles, because the runtime has no images, counts as ready. */
  readonly idleIsReady: boolean;
}

export interface LoopParts {
  readonly workers: PodWorkers;
  readonly statuses: StatusManager;
  readonly probes: ProbeManager;
  readonly killer: ContainerKiller;
  readonly starter: ContainerStarter;
  readonly dead: DeadContainers;
  readonly environment: StaleEnvironment;
}

/** As the kubelet's. */
const retryMs = 10_000;

/** `moved` is called when a pod passes to another state or is forgotten. */
export function assembleParts(
  deps: PodLoopDeps,
  settings: PodLoopSettings,
  pods: DesiredPods,
  moved: (uid: string, state: PodState | undefined) => void,
  signal: AbortSignal,
): LoopParts {
  const { clock, random, events, runtime, api, network, notify } = deps;
  const progress = new PodProgress();
  const results = new ProbeResults();
  const startErrors = new StartErrors();
  const environment = new StaleEnvironment(events);
  const messages = new TerminationMessages(deps.files);
  const hostIPs = (): readonly string[] => deps.node().hostIPs;
  const killer = new ContainerKiller({ runtime, network, clock, events, hostIPs });
  const dead = new DeadContainers(deps);
  const images = new ImagePuller(deps, settings);
  const starter = new ContainerStarter({ ...deps, killer, images, hostIPs }, settings);
  const containers = new ContainerSync(
    { ...deps, probes: results, startErrors, killer, starter, dead },
    settings.clusterDomain,
  );
  const statuses = new StatusManager({
    api,
    clock,
    pause: deps.pause,
    notify,
    pods,
    couldHaveRunningContainers: (uid) => progress.couldHaveRunningContainers(uid),
  });
  const probes = new ProbeManager(
    {
      clock,
      random,
      events,
      notify,
      results,
      run: (target, ended) => runProbe(target, { runtime, network, clock }, ended),
      hasEnded: ({ pod, containerId }, problem, ended) =>
        hasEnded(runtime, { podUid: podUid(pod), containerId }, problem, ended),
      statusOf: (uid) => statuses.get(uid),
      changed: (uid, kind, result) => {
        // A liveness probe that succeeds changes nothing.
        if (kind !== 'liveness' || !result) progress.get(uid)?.sync();
      },
    },
    signal,
  );
  const steps = new PodLifecycle({
    ...deps,
    objects: deps.view,
    pods,
    statuses,
    probes,
    containers,
    killer,
    startErrors,
    environment,
    messages,
    idleIsReady: settings.idleIsReady,
    isTerminationRequested: (uid) => progress.isTerminationRequested(uid),
    seen: (uid, runtimePod) => progress.see(uid, runtimePod),
  });
  const newest = (uid: string): Pod | undefined => pods.get(uid);
  const workers = new PodWorkers(
    { progress, steps, runtime, newest, clock, random, events, notify, moved },
    { resyncMs: settings.resyncMs, retryMs },
    signal,
  );
  return { workers, statuses, probes, killer, starter, dead, environment };
}
