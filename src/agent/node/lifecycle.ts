/**
 * What runs on a node, and in which order it ends: pods first, then what they need, and last the recorder of Events about them.
 * Tasks of one stage live and end together: the first that fails ends the others, and all are awaited.
 */
import { untilAborted } from '../../base/abort.ts';
import { type Task, runTogether } from '../../base/run-task.ts';
import type { EventRecorder } from '../../node/event-recorder.ts';
import type { NodeServer } from '../../node-server/node-server.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import { asPodUid } from '../../volumes/volume-name.ts';
import type { Clock } from '../../base/clock.ts';
import { type NodeObjects, followChanges } from './node-objects.ts';
import type { NodeCsi } from './node-csi.ts';
import type { PodView } from './node-pods.ts';
import type { NodePresence } from './node-presence.ts';
import type { NodeReclaim } from './node-reclaim.ts';
import type { NodeServices } from './node-services.ts';
import type { NodeVolumes } from './node-volumes.ts';
import type { NotifyNode } from './notices.ts';

export interface NodeParts {
  readonly clock: Clock;
  readonly notify: NotifyNode;
  readonly runtime: Runtime;
  readonly services: NodeServices;
  readonly presence: NodePresence;
  readonly objects: NodeObjects;
  /** Undefined without a cluster, which all volumes of drivers come from. */
  readonly csi: NodeCsi | undefined;
  readonly volumes: NodeVolumes;
  readonly view: PodView;
  readonly pods: PodLoop;
  readonly reclaim: NodeReclaim;
  readonly server: NodeServer | undefined;
  /** Keeps the certificate of the server signed by the cluster; undefined where it does not ask for one. */
  readonly certificate: Task | undefined;
  readonly recorder: EventRecorder | undefined;
  /** Makes volumes of this node for claims; undefined where it was not asked for. */
  readonly localPath: Task | undefined;
}

/** Longer than any grace period a pod should need. A second Ctrl-C does not wait for it. */
const drainMsMax = 60_000;
const releaseMsMax = 10_000;

/** Resolves after the signal, when everything has ended; rejects if a part failed. */
export function runNode(parts: NodeParts, drains: boolean, signal: AbortSignal): Promise<void> {
  const { objects, csi, volumes, services, presence, pods, reclaim, server, recorder, localPath, certificate } = parts;
  const { manager } = volumes;
  const followers = [manager, pods] as const;
  return inOrder(
    [
      async (stop) => {
        await pods.run(stop);
        // A failure does not end pods: the next start adopts them.
        if (drains && signal.aborted) await drain(parts);
      },
    ],
    [
      (stop) => objects.run(stop),
      async (stop) => await csi?.run(() => manager.retryNow(), stop),
      (stop) => volumes.run(stop),
      (stop) => services.run(stop),
      (stop) => reclaim.run(stop),
      async (stop) => await localPath?.(stop),
      async (stop) => await certificate?.(stop),
      (stop) => presence.run({ port: server?.address.port ?? 0, ...volumesInUse(volumes) }, stop),
      (stop) => followChanges('ConfigMap', objects.configMaps, followers, parts, stop),
      (stop) => followChanges('Secret', objects.secrets, followers, parts, stop),
      async (stop) => {
        for await (const podUid of objects.tokens.due(stop)) manager.tokenDue(asPodUid(podUid));
      },
      async (stop) => {
        await untilAborted(stop);
        await server?.close();
      },
    ],
    async (stop) => await recorder?.run(stop),
    signal,
  );
}

function volumesInUse({ manager }: NodeVolumes): Omit<Parameters<NodePresence['run']>[0], 'port'> {
  return {
    volumesInUse: () => (manager.areStatesSynced() ? manager.queries.volumesInUse() : undefined),
    reportedInUse: (names) => manager.markReportedInUse(names),
  };
}

/** Ends all pods and unmounts their volumes. */
async function drain({ pods, runtime, volumes: { manager }, view }: NodeParts): Promise<void> {
  const limit = AbortSignal.timeout(drainMsMax);
  await pods.endContainers(undefined, limit);
  for (const { uid } of await runtime.list(limit)) await runtime.stopPod(uid, limit);
  view.drained();
  for (const { metadata } of pods.pods()) manager.podChanged(asPodUid(metadata.uid ?? ''));
  // Also of pods that were removed by force, and volumes that are just being written. What a silent server holds is left to it.
  await manager.waitForAllReleased(AbortSignal.any([limit, AbortSignal.timeout(releaseMsMax)]));
  await manager.waitForAllUnmounted(pods.pods(), limit);
}

/** Three stages that end one after the other, from the first to the last; whichever fails ends all. */
export async function inOrder(
  first: readonly Task[],
  then: readonly Task[],
  last: Task,
  signal: AbortSignal,
): Promise<void> {
  const [stopThen, stopLast, failed] = [new AbortController(), new AbortController(), new AbortController()];
  const until = (stop: AbortSignal): AbortSignal => AbortSignal.any([stop, failed.signal]);
  const guard = async (stage: Promise<void>): Promise<void> => {
    try {
      await stage;
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const stages = [
    guard(runTogether(first, until(signal))).finally(() => stopThen.abort()),
    guard(runTogether(then, until(stopThen.signal))).finally(() => stopLast.abort()),
    guard(last(until(stopLast.signal))),
  ];
  await Promise.allSettled(stages);
  await Promise.all(stages);
}
