/**
 * Waiting for the volumes of a pod: what a pod worker does before it starts containers and after the last one ended. A wait
 * ends with the event it is for; nothing here polls.
 */
import { onAbort } from '../base/abort.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Timers } from '../base/timers.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { usedVolumes } from '../kube/references/pod-references.ts';
import { VolumeError } from '../plugins/plugin.ts';
import type { ActualState } from './actual-state.ts';
import type { DesiredMount, DesiredState } from './desired-state.ts';
import { type PodUid, podUidOf } from './volume-name.ts';

interface VolumeWaitsDeps {
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly populator: { reprocess(podUid: PodUid): void };
  readonly timers: Timers;
}

/** The kubelet's number: odd, to be recognised. */
const waitMsMax = 123_000;

interface Waiter {
  look(): void;
  end(): void;
}

export class VolumeWaits {
  readonly #deps: VolumeWaitsDeps;
  readonly #waiting = new Map<PodUid, Set<Waiter>>();

  constructor(deps: VolumeWaitsDeps) {
    this.#deps = deps;
  }

  /** Something about the pod's volumes has changed. */
  check(podUid: PodUid): void {
    const waiting = this.#waiting.get(podUid);
    if (waiting !== undefined) for (const waiter of waiting) waiter.look();
  }

  /** Nothing will change any more: ends every wait. */
  end(): void {
    for (const waiting of this.#waiting.values()) for (const waiter of waiting) waiter.end();
  }

  /**
   * Resolves when every volume that a container of the pod uses is mounted; one whose content is being refreshed is. Each call
   * also has the pod's volumes resolved again and their content written again.
   */
  async untilMounted(pod: Pod, signal: AbortSignal): Promise<void> {
    const { mounted, devices } = usedVolumes(pod);
    const expected = [...new Set([...mounted, ...devices])];
    if (expected.length === 0) return;
    const podUid = podUidOf(pod);
    this.#deps.populator.reprocess(podUid);
    const cause = await this.#until(podUid, () => this.#unmounted(podUid, expected).length === 0, signal);
    if (cause === undefined) return;
    const unmounted = this.#unmounted(podUid, expected);
    if (unmounted.length === 0) return;
    const known = this.#deps.desired.namesOf(podUid);
    const unattached = this.#unattached(podUid);
    const volumes: VolumeLists = {
      unmounted: unmounted.sort(),
      unattached: unattached.flatMap(({ podVolumeNames }) => podVolumeNames).sort(),
      unprocessed: expected.filter((name) => !known.has(name)).sort(),
    };
    if (await isLimitReached(unattached, signal)) throw new AttachLimitError(volumes, cause);
    throw new VolumesNotMountedError(volumes, cause);
  }

  /** Resolves when no volume of the pod is mounted. Those that only may be do not count: see `untilReleased`. */
  async untilUnmounted(pod: Pod, signal: AbortSignal): Promise<void> {
    const podUid = podUidOf(pod);
    const { actual, populator } = this.#deps;
    populator.reprocess(podUid);
    const cause = await this.#until(podUid, () => actual.mountedOf(podUid).length === 0, signal);
    if (cause === undefined) return;
    const mounted = actual.mountedOf(podUid).map(({ volume }) => volume);
    if (mounted.length === 0) return;
    const message = `mounted volumes=${goList(mounted.sort())}: ${messageOf(cause)}`;
    throw new VolumeError('VolumesStillMounted', message, { cause });
  }

  /** Tells of every pod that is stuck, not only of the first. */
  async untilAllUnmounted(pods: readonly Pod[], signal: AbortSignal): Promise<void> {
    const outcomes = await Promise.allSettled(pods.map((pod) => this.untilUnmounted(pod, signal)));
    const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []));
    if (errors.length > 0) throw new PodsStillMountedError(errors);
  }

  /** Resolves when nothing of the pod is or may be mounted. Without a time limit: a pod is not over before that. */
  async untilReleased(podUid: PodUid, signal: AbortSignal): Promise<void> {
    const { actual } = this.#deps;
    await this.#wait(podUid, () => (actual.possiblyMountedOf(podUid).length === 0 ? 'done' : undefined), signal);
  }

  /** Of every pod that has something here, also of those that no source names any more. Resolves as well when it is given up. */
  async untilAllReleased(signal: AbortSignal): Promise<void> {
    const pods = this.#deps.actual.podsWithMounts();
    await Promise.allSettled(pods.map((podUid) => this.untilReleased(podUid, signal)));
  }

  /** Undefined once it holds; otherwise why it was given up. */
  async #until(podUid: PodUid, holds: () => boolean, signal: AbortSignal): Promise<Error | undefined> {
    const { desired, timers } = this.#deps;
    const controller = new AbortController();
    const abort = (): void =>
      controller.abort(new WaitInterruptedError(isTimeout(signal.reason), { cause: signal.reason }));
    if (signal.aborted) abort();
    const stopListening = onAbort(signal, abort);
    const timer = timers.after(waitMsMax, () => controller.abort(new WaitInterruptedError(true)));
    try {
      return await this.#wait(
        podUid,
        () => {
          const errors = desired.popErrors(podUid);
          if (errors.length > 0) return new VolumeError('FailedMount', errors.join('; '));
          return holds() ? 'done' : undefined;
        },
        controller.signal,
      );
    } catch (interrupted) {
      if (!(interrupted instanceof WaitInterruptedError)) throw interrupted;
      return interrupted;
    } finally {
      timer.cancel();
      stopListening();
    }
  }

  #wait(podUid: PodUid, look: () => 'done' | Error | undefined, signal: AbortSignal): Promise<Error | undefined> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(podUid) ?? new Set();
      const leave = (): void => {
        waiting.delete(waiter);
        if (waiting.size === 0) this.#waiting.delete(podUid);
        stopListening();
      };
      const abort = (): void => {
        leave();
        reject(signal.reason as Error);
      };
      const waiter: Waiter = {
        look() {
          const found = look();
          if (found === undefined) return;
          leave();
          resolve(found === 'done' ? undefined : found);
        },
        end() {
          leave();
          reject(new WaitInterruptedError(false));
        },
      };
      this.#waiting.set(podUid, waiting.add(waiter));
      const stopListening = onAbort(signal, abort);
      waiter.look();
      if (signal.aborted && waiting.has(waiter)) abort();
    });
  }

  #unmounted(podUid: PodUid, expected: readonly string[]): string[] {
    const { desired, actual } = this.#deps;
    const names = desired.namesOf(podUid);
    return expected.filter((name) => {
      const volume = names.get(name);
      return volume === undefined || actual.mountState({ volume, podUid }) !== 'mounted';
    });
  }

  #unattached(podUid: PodUid): readonly DesiredMount[] {
    const { desired, actual } = this.#deps;
    return desired.mountsOf(podUid).filter(({ volume }) => {
      return desired.volume(volume)?.isAttachable === true && actual.volume(volume) === undefined;
    });
  }
}

/** A plugin that cannot answer is not a reason to reject a pod for good. */
async function isLimitReached(unattached: readonly DesiredMount[], signal: AbortSignal): Promise<boolean> {
  for (const { plugin, source, spec } of unattached) {
    try {
      if ((await plugin.attach?.isLimitReached?.(source, spec, signal)) === true) return true;
    } catch {
      continue;
    }
  }
  return false;
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === 'TimeoutError';
}

/** The wait itself was ended, by its own time limit or by its caller: the reason is in the events of the operations. */
class WaitInterruptedError extends MountletError {
  readonly reason = 'WaitInterrupted';
  readonly isDeadline: boolean;
  constructor(isDeadline: boolean, options?: ErrorOptions) {
    super(isDeadline ? 'context deadline exceeded' : 'context canceled', options);
    this.isDeadline = isDeadline;
  }
}

interface VolumeLists {
  /** The pod's own words, sorted. */
  readonly unmounted: readonly string[];
  readonly unattached: readonly string[];
  readonly unprocessed: readonly string[];
}

/** `cause` distinguishes an interrupted wait (no news for the user) from volumes that cannot be resolved. */
export class VolumesNotMountedError extends MountletError {
  readonly reason: string = 'FailedMount';
  readonly volumes: VolumeLists;
  constructor(volumes: VolumeLists, cause: Error, prefix = '') {
    const { unmounted, unattached, unprocessed } = volumes;
    super(
      `${prefix}unmounted volumes=${goList(unmounted)}, unattached volumes=${goList(unattached)}, ` +
        `failed to process volumes=${goList(unprocessed)}: ${messageOf(cause)}`,
      { cause },
    );
    this.volumes = volumes;
  }
}

/** The pod will never start on this node. */
export class AttachLimitError extends VolumesNotMountedError {
  override readonly reason = 'VolumeAttachmentLimitExceeded';
  constructor(volumes: VolumeLists, cause: Error) {
    super(volumes, cause, 'Node has reached its volume attachment limit, rejecting pod. ');
  }
}

/** One error for each pod that is stuck. */
export class PodsStillMountedError extends MountletError {
  readonly reason = 'VolumesStillMounted';
  readonly errors: readonly Error[];
  constructor(errors: readonly Error[]) {
    const texts = [...new Set(errors.map(messageOf))];
    super(texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`, { cause: errors[0] });
    this.errors = errors;
  }
}

/** Whether somewhere in it a wait was ended by a time limit. */
export function isDeadlineExceeded(thrown: unknown): boolean {
  if (thrown instanceof WaitInterruptedError) return thrown.isDeadline;
  if (thrown instanceof PodsStillMountedError) return thrown.errors.some(isDeadlineExceeded);
  return thrown instanceof Error && isDeadlineExceeded(thrown.cause);
}

export function isInterrupted(thrown: unknown): boolean {
  if (thrown instanceof WaitInterruptedError) return true;
  return thrown instanceof Error && isInterrupted(thrown.cause);
}

function goList(names: readonly string[]): string {
  return `[${names.join(' ')}]`;
}
