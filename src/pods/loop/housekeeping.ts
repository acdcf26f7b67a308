/**
 * Compares the desired pods with the workers, the runtime and the mirrors, and starts or ends what differs. Only runs when every
 * source was read: before that any pod may be wanted. Directories of pods that are gone are removed by the volume manager.
 */
import { messageOf } from '../../base/errors.ts';
import { podFullName, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import { isTerminalPhase } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Runtime, RuntimePod } from '../../runtimes/runtime.ts';
import type { ProbeManager } from '../probes/probe-manager.ts';
import type { DesiredPods } from '../sources/desired-pods.ts';
import { type MirrorApi, deleteMirror } from '../sources/mirror-pods.ts';
import type { StatusManager } from '../status/status-manager.ts';
import { isOver } from '../workers/pod-worker.ts';
import type { PodWorkerState, PodWorkers } from '../workers/pod-workers.ts';

interface HousekeepingDeps {
  readonly runtime: Runtime;
  readonly api: MirrorApi;
  readonly pods: DesiredPods;
  readonly workers: PodWorkers;
  readonly statuses: StatusManager;
  readonly probes: ProbeManager;
  readonly collectGarbage: () => void;
  readonly notify: (notice: HousekeepingFailed) => void;
}

export interface HousekeepingFailed {
  readonly kind: 'HousekeepingFailed';
  readonly what: string;
  readonly message: string;
}

/** A pod that only the runtime knows has no hooks and no grace of its own. */
const orphanGraceSeconds = 1;

/** Returns whether everything could be done. */
export async function keepHouse(deps: HousekeepingDeps, signal: AbortSignal): Promise<boolean> {
  const { pods, workers, statuses, probes } = deps;
  let isDone = true;
  const attempt = async (what: string, act: () => Promise<void>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      signal.throwIfAborted();
      isDone = false;
      deps.notify({ kind: 'HousekeepingFailed', what, message: messageOf(error) });
    }
  };
  const wanted = new Map(pods.pods().map((pod) => [podUid(pod), pod]));
  const working = workers.retain(new Set(wanted.keys()));
  const known = new Set([...wanted.keys(), ...working.keys()]);
  probes.retain(known);
  statuses.retain(known);
  deps.collectGarbage();
  await attempt('mirror pods', () => removeOrphanMirrors(deps, working, signal));
  for (const pod of wanted.values())
    if (!working.has(podUid(pod)) && isActive(deps, pod)) workers.update({ kind: 'create', pod });
  await attempt('runtime', () => endOrphans(deps, known, attempt, signal));
  return isDone;
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

type Attempt = (what: string, act: () => Promise<void>) => Promise<void>;

async function endOrphans(
  { runtime, workers }: HousekeepingDeps,
  known: ReadonlySet<string>,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<void> {
  for (const runtimePod of await runtime.list(signal)) {
    const { uid } = runtimePod;
    const state = workers.progress.stateOf(uid);
    const what = `pod ${nameOf(runtimePod)}`;
    if (isOver(runtimePod)) {
      if (!known.has(uid)) await attempt(what, () => runtime.removePod(uid, signal));
    } else if (state === 'finished') await attempt(what, () => runtime.stopPod(uid, signal));
    // A pod that was refused after a restart of this program is wanted, but has no worker.
    else if (state === undefined)
      workers.update({ kind: 'kill', pod: undefined, runtimePod, graceSeconds: orphanGraceSeconds });
  }
}

function nameOf({ namespace, name }: RuntimePod): string {
  return `${namespace}/${name}`;
}
