/** Room on this node's disks: images and containers that nobody needs are removed, and pods evicted where that is not enough. */
import { within } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { OperatingError } from '../../base/errors.ts';
import { type TaskFailed, runTask } from '../../base/run-task.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type { NodeSettings } from '../../node/node-status.ts';
import type { PodLoop } from '../../pods/loop/pod-loop.ts';
import { DiskPressure, type Filesystems } from '../../reclaim/disk-pressure.ts';
import { EvictionLoop } from '../../reclaim/eviction-loop.ts';
import { ImageCollector, type NodeEvents } from '../../reclaim/image-collector.ts';
import type { Runtime, RuntimeImages } from '../../runtimes/runtime.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NodeStats } from './node-stats.ts';
import type { NotifyNode } from './notices.ts';

interface NodeReclaimDeps {
  readonly clock: Clock;
  readonly runtime: Pick<Runtime, 'list' | 'images'>;
  readonly pressure: DiskPressure;
  readonly pods: Pick<PodLoop, 'activePods' | 'evict' | 'removeFinished' | 'progress'>;
  readonly stats: NodeStats;
  readonly events: NodeEvents;
  /** The pressure began or ended. */
  readonly changed: () => void;
  readonly notify: NotifyNode;
}

/** Walks and calls have limits of their own; this is for a disk that none of them counts on. */
const usageMsMax = 60_000;

export interface NodeReclaim {
  run(signal: AbortSignal): Promise<void>;
}

type Images = Pick<Runtime, 'images'>;

/** The kubelet's defaults hold where there are images: without them a pod takes little of a disk that its user fills in other ways. */
export function diskPressure({ eviction }: AgentSettings, { images }: Images): DiskPressure {
  const { defaults, given, transitionMs } = eviction;
  return new DiskPressure([...(images === undefined ? [] : defaults), ...given], transitionMs);
}

/** What pods do not get of the machine: what is reserved for others, and what would evict them. */
export function reservedOf({ eviction, reserved }: AgentSettings, { images }: Images): NodeSettings['reserved'] {
  const { given, defaults } = eviction.reserves;
  const thresholds = [...(images === undefined ? [] : defaults), ...given].map(({ resource, amount }) =>
    'part' in amount
      ? { resource, amount: Quantity.zero(), part: amount.part }
      : { resource, amount: amount.quantity, part: 0 },
  );
  return [...reserved.map(([resource, amount]) => ({ resource, amount, part: 0 })), ...thresholds];
}

export function nodeReclaim(deps: NodeReclaimDeps, settings: AgentSettings): NodeReclaim {
  const { clock, runtime, pods, stats, events, notify } = deps;
  const { rootDirectory, eviction, imageCollection } = settings;
  const { images } = runtime;
  const collector =
    images &&
    new ImageCollector(
      {
        images,
        pods: (signal) => runtime.list(signal),
        filesystem: async (signal) => await imageFilesystem(stats, images, signal),
        clock,
        events,
      },
      imageCollection,
    );
  const loop = new EvictionLoop(
    {
      ...deps,
      filesystems: (signal) => filesystems(stats, rootDirectory, images, signal),
      async usage(signal) {
        const summary = await within(clock, usageMsMax, stats.source.summary(signal));
        if (summary !== undefined) return summary.pods;
        const message = `Cannot tell which pods take the disk: they were not measured within ${usageMsMax / 1000} s`;
        throw new OperatingError('UsageUnknown', message);
      },
      pods: {
        activePods: () => pods.activePods(),
        evict: (pod, why) => pods.evict(pod, why),
        isFinished: (uid) => pods.progress.isFinished(uid),
      },
      removeDeadContainers: (signal) => pods.removeFinished(signal),
      removeUnusedImages: collector && ((signal) => collector.removeUnused(signal)),
    },
    { ...eviction, enforcesLimits: settings.localStorageCapacityIsolation },
  );
  return {
    async run(signal) {
      // Without images there is no such disk.
      const noDisk = images === undefined ? eviction.given.filter(({ signal: one }) => one.startsWith('imagefs.')) : [];
      const unwatched = [...eviction.unwatched, ...new Set(noDisk.map((one) => one.signal))];
      if (unwatched.length > 0) notify({ kind: 'ThresholdsUnwatched', signals: unwatched });
      const task = (name: string, body: (stop: AbortSignal) => Promise<void>): Promise<void> =>
        runTask(name, body, { clock, notify: (failed: TaskFailed) => notify(failed) }, signal);
      await Promise.all([
        task('the eviction of pods', (stop) => loop.run(stop)),
        ...(collector === undefined ? [] : [task('the removal of images', (stop) => collector.run(stop))]),
      ]);
    },
  };
}

async function filesystems(
  stats: NodeStats,
  root: string,
  images: RuntimeImages | undefined,
  signal: AbortSignal,
): Promise<Filesystems> {
  const node = await stats.directories.fileSystem(root);
  const image = images && (await imageFilesystem(stats, images, signal));
  return { node, image, isImageDedicated: image !== undefined && image.device !== node.device };
}

async function imageFilesystem(
  { directories }: NodeStats,
  images: RuntimeImages,
  signal: AbortSignal,
): ReturnType<NodeStats['directories']['fileSystem']> {
  return await directories.fileSystem((await images.filesystem(signal)).mountPoint);
}
