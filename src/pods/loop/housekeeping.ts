/**
 * Compares the desired pods with the workers, the runtime and the mirrors, and starts or ends what differs. Only runs when every
 * source was read: before that any pod may be wanted. Directories of pods that are gone are removed by the volume manager.
 */
import { messageOf } from '../../base/errors.ts';
import { podFullName, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import type { ContainerFiles } from '../containers/container-request.ts';
import type { NodeEvents } from '../containers/container-sync.ts';
import type { DeadContainers } from '../containers/dead-containers.ts';
import type { ProbeManager } from '../probes/probe-manager.ts';
import type { DesiredPods } from '../sources/desired-pods.ts';
import { type MirrorApi, deleteMirror } from '../sources/mirror-pods.ts';
import type { StatusManager } from '../status/status-manager.ts';
import { isOver } from '../workers/pod-worker.ts';
import type { PodWorkerState, PodWorkers } from '../workers/pod-workers.ts';

/** What is needed to remove what has ended. */
interface GarbageDeps {
  readonly runtime: Runtime;
  readonly files: Pick<ContainerFiles, 'podsWithLogs' | 'removePodLogs'>;
  readonly pods: DesiredPods;
  readonly workers: PodWorkers;
  readonly statuses: StatusManager;
  readonly dead: DeadContainers;
  readonly nodeEvents: NodeEvents;
  readonly notify: (notice: HousekeepingFailed) => void;
}

interface HousekeepingDeps extends GarbageDeps {
  readonly api: MirrorApi;
  readonly probes: ProbeManager;
  /** Of containers that are gone. */
  readonly forgetPulls: () => void;
}

export interface HousekeepingFailed {
  readonly kind: 'HousekeepingFailed';
  readonly what: string;
  readonly message: string;
}

/** As the kubelet's: a pod that only the runtime knows was deleted without grace. */
const orphanGraceSeconds = 1;

/** Returns whether everything could be done. */
export async function keepHouse(deps: HousekeepingDeps, signal: AbortSignal): Promise<boolean> {
  const { pods, workers, statuses, probes } = deps;
  const attempts = new Attempts(deps, signal);
  const wanted = new Map(pods.pods().map((pod) => [podUid(pod), pod]));
  const working = workers.retain(new Set(wanted.keys()));
  const known = new Set([...wanted.keys(), ...working.keys()]);
  probes.retain(known);
  statuses.retain(known);
  deps.forgetPulls();
  await attempts.make('mirror pods', () => removeOrphanMirrors(deps, working, signal));
  for (const pod of wanted.values())
    if (!working.has(podUid(pod)) && isActive(deps, pod)) workers.update({ kind: 'create', pod });
  return (await collectGarbage(deps, { removesFinished: false }, signal)) && attempts.haveSucceeded;
}

/** Work that goes on when a part of it fails. */
class Attempts {
  readonly #deps: Pick<HousekeepingDeps, 'notify'>;
  readonly #signal: AbortSignal;
  haveSucceeded = true;

  constructor(deps: Pick<HousekeepingDeps, 'notify'>, signal: AbortSignal) {
    this.#deps = deps;
    this.#signal = signal;
  }

  async make(what: string, act: () => Promise<void>, failed: (message: string) => void = () => {}): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#signal.throwIfAborted();
      this.haveSucceeded = false;
      this.#deps.notify({ kind: 'HousekeepingFailed', what, message: messageOf(error) });
      failed(messageOf(error));
    }
  }
}

/** A pod that was refused or has ended needs no worker. */
function isActive({ statuses }: HousekeepingDeps, pod: Pod): boolean {
  return !isTerminalPhase(pod.status?.phase) && !isTerminalPhase(statuses.get(podUid(pod))?.phase);
}

async function removeOrphanMirrors(
  { pods, api, workers }: HousekeepingDeps,
  working: ReadonlyMap<string, PodWorkerState>,
  signal: AbortSignal,
): Promise<void> {
  const busy = new Set([...working.keys()].flatMap((uid) => workers.progress.podOf(uid) ?? []).map(podFullName));
  for (const mirror of pods.orphanMirrors()) {
    // The last status of its static pod still has to be sent.
    if (!busy.has(podFullName(mirror))) await deleteMirror(api, mirror, signal);
  }
}

interface GarbageSettings {
  /** Also what is left of pods that have ended and are not deleted: a disk is short. */
  readonly removesFinished: boolean;
}

/** Ends what runs without being wanted, and removes what is left of what has ended. Returns whether everything could be done. */
export async function collectGarbage(
  deps: GarbageDeps,
  settings: GarbageSettings,
  signal: AbortSignal,
): Promise<boolean> {
  const { runtime, files, nodeEvents } = deps;
  const attempts = new Attempts(deps, signal);
  const failed = (message: string): void =>
    nodeEvents.record({ type: 'Warning', reason: 'ContainerGCFailed', message });
  const collect = async (): Promise<void> => {
    const left = new Set<string>();
    for (const runtimePod of await runtime.list(signal)) {
      const { uid, namespace, name } = runtimePod;
      left.add(uid);
      await attempts.make(`pod ${namespace}/${name}`, () => collectPod(deps, runtimePod, settings, signal));
    }
    await attempts.make('sandboxes', () => runtime.removeReplaced(signal));
    for (const uid of await files.podsWithLogs(signal)) {
      if (!left.has(uid) && !isKnown(deps, uid))
        await attempts.make(`logs of pod ${uid}`, () => files.removePodLogs(uid, signal));
    }
  };
  await attempts.make('runtime', collect, failed);
  return attempts.haveSucceeded;
}

async function collectPod(
  deps: GarbageDeps,
  runtimePod: RuntimePod,
  { removesFinished }: GarbageSettings,
  signal: AbortSignal,
): Promise<void> {
  const { runtime, workers, dead } = deps;
  const { uid } = runtimePod;
  const state = workers.progress.stateOf(uid);
  if (!isOver(runtimePod)) {
    if (state === 'finished') await runtime.stopPod(uid, signal);
    // A pod that was refused after a restart of this program is wanted, but has no worker.
    else if (state === undefined)
      workers.update({ kind: 'kill', pod: undefined, runtimePod, graceSeconds: orphanGraceSeconds });
  } else if (!isKnown(deps, uid)) await runtime.removePod(uid, signal);
  // Others remove their containers themselves, whenever one has ended.
  else if (state === 'finished' || state === undefined) {
    // What an evicted pod used is wanted back.
    if (removesFinished || isEvicted(deps, uid)) await runtime.removePod(uid, signal);
    else await dead.removeSurplus(runtimePod, signal);
  }
}

function isKnown({ pods, workers }: GarbageDeps, uid: string): boolean {
  return pods.get(uid) !== undefined || workers.progress.stateOf(uid) !== undefined;
}

function isEvicted({ pods, statuses }: GarbageDeps, uid: string): boolean {
  const status = statuses.get(uid) ?? pods.get(uid)?.status;
  return status?.phase === 'Failed' && status.reason === 'Evicted';
}
