/**
 * Watches the disks of this node and the limits of its pods, and makes room: pods above their own limits end at once; when a disk
 * is short, first what no pod needs is removed, and if that was not enough, one pod is evicted, and then it looks again.
 */
import type { Clock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import { isCriticalPod, podUid } from '../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type DiskPressure, type Filesystems, resourceOf } from './disk-pressure.ts';
import { type PodEviction, hasLocalLimits, limitEviction, pressureEviction } from './evictions.ts';
import type { NodeEvents } from './image-collector.ts';
import { type PodUsage, rankForEviction, usageOf } from './pod-usage.ts';
import type { Signal } from './thresholds.ts';

interface EvictionDeps {
  readonly clock: Clock;
  readonly pressure: DiskPressure;
  readonly filesystems: (signal: AbortSignal) => Promise<Filesystems>;
  /** Expensive: asked only when it decides something. */
  readonly usage: (signal: AbortSignal) => Promise<readonly PodUsage[]>;
  readonly pods: {
    activePods(): readonly Pod[];
    evict(pod: Pod, eviction: PodEviction): void;
    /** Nothing of it is left on the disk. */
    isFinished(podUid: string): boolean;
  };
  /** Containers that have ended, also of pods that are finished but not deleted. */
  readonly removeDeadContainers: (signal: AbortSignal) => Promise<void>;
  /** Undefined where containers need no images. */
  readonly removeUnusedImages: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly events: NodeEvents;
  /** The pressure began or ended. */
  readonly changed: () => void;
  readonly notify: (notice: ReclaimFailed) => void;
}

export interface EvictionSettings {
  /** Of pods that end for a soft threshold. */
  readonly podGraceSecondsMax: number;
  /** Pods above the limits of their ephemeral storage end. */
  readonly enforcesLimits: boolean;
}

export interface ReclaimFailed {
  readonly kind: 'ReclaimFailed';
  readonly message: string;
}

const periodMs = 10_000;
/** How long the next look waits for an evicted pod to be gone, since its room counts. */
const cleanUpMsMax = 30_000;
const cleanUpPollMs = 1_000;

export class EvictionLoop {
  readonly #deps: EvictionDeps;
  readonly #settings: EvictionSettings;
  /** Of this look, and of the one before. */
  #problems = new Set<string>();
  #problemsBefore: ReadonlySet<string> = new Set();

  constructor(deps: EvictionDeps, settings: EvictionSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    while (!signal.aborted) {
      try {
        const evicted = await this.look(signal);
        if (evicted.length > 0) await this.#waitForCleanUp(evicted, signal);
        else await clock.sleep(periodMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#report(error);
        await clock.sleep(periodMs, signal).catch(() => {});
      }
    }
  }

  /** Returns the pods that it ends. */
  async look(signal: AbortSignal): Promise<readonly Pod[]> {
    const { clock, pods, pressure, events, changed } = this.#deps;
    const { podGraceSecondsMax, enforcesLimits } = this.#settings;
    this.#problemsBefore = this.#problems;
    this.#problems = new Set();
    const active = pods.activePods();
    const limited = enforcesLimits ? active.filter(hasLocalLimits) : [];
    if (!pressure.isWatched && limited.length === 0) return [];
    const filesystems = await this.#deps.filesystems(signal);
    const was = pressure.isUnderPressure;
    const [first, ...others] = pressure.look(filesystems, clock.now());
    if (pressure.isUnderPressure !== was) changed();
    const overLimit = await this.#evictAboveLimits(limited, filesystems, signal);
    if (overLimit.length > 0 || first === undefined) return overLimit;

    const resource = resourceOf(first.signal);
    events.record({ type: 'Warning', reason: 'EvictionThresholdMet', message: `Attempting to reclaim ${resource}` });
    if (await this.#reclaimed(first.signal, filesystems, signal)) return [];
    const usage = usageOf(await this.#deps.usage(signal));
    const ranked = rankForEviction(active, usage, first.signal, resource, filesystems.isImageDedicated);
    const victim = ranked.find((pod) => !isCriticalPod(pod));
    if (victim === undefined) return [];
    pods.evict(victim, pressureEviction(victim, usage(victim), [first, ...others], filesystems, podGraceSecondsMax));
    return [victim];
  }

  async #evictAboveLimits(
    limited: readonly Pod[],
    { isImageDedicated }: Filesystems,
    signal: AbortSignal,
  ): Promise<readonly Pod[]> {
    const candidates = limited.filter((pod) => !isCriticalPod(pod));
    if (candidates.length === 0) return [];
    const usage = usageOf(await this.#deps.usage(signal));
    return candidates.filter((pod) => {
      const known = usage(pod);
      const eviction = known && limitEviction(pod, known, isImageDedicated);
      if (eviction !== undefined) this.#deps.pods.evict(pod, eviction);
      return eviction !== undefined;
    });
  }

  /** Removes what no pod needs from the disk that is short. Returns whether that was enough. */
  async #reclaimed(short: Signal, { isImageDedicated }: Filesystems, signal: AbortSignal): Promise<boolean> {
    const { pressure, removeDeadContainers, removeUnusedImages, filesystems } = this.#deps;
    // Nothing but logs and volumes of pods is on the node's disk then.
    if (isImageDedicated && short.startsWith('nodefs.')) return false;
    for (const reclaim of [removeDeadContainers, removeUnusedImages]) {
      try {
        await reclaim?.(signal);
      } catch (error) {
        signal.throwIfAborted();
        this.#report(error);
      }
    }
    return pressure.isResolved(await filesystems(signal));
  }

  /** A runtime that is away is away for many looks: what the look before has reported is known. */
  #report(error: unknown): void {
    const message = messageOf(error);
    this.#problems.add(message);
    if (!this.#problemsBefore.has(message)) this.#deps.notify({ kind: 'ReclaimFailed', message });
  }

  async #waitForCleanUp(evicted: readonly Pod[], signal: AbortSignal): Promise<void> {
    const { clock, pods } = this.#deps;
    const until = clock.now() + cleanUpMsMax;
    do await clock.sleep(cleanUpPollMs, signal);
    while (clock.now() < until && !evicted.every((pod) => pods.isFinished(podUid(pod))));
  }
}
