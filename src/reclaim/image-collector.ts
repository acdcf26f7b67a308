/**
 * Removes images that no container uses: those unused for too long, and, when their disk fills up, those unused the longest. What
 * is known of an image's use is known since this program started; after that an unused image counts as never used.
 */
import type { Clock } from '../base/clock.ts';
import { OperatingError, aggregated, messageOf } from '../base/errors.ts';
import { showDuration } from '../kube/values/times.ts';
import type { RuntimeImage, RuntimeImages, RuntimePod } from '../runtimes/runtime.ts';
import type { FilesystemUsage } from './disk-pressure.ts';

/** Where Events about the node go. */
export interface NodeEvents {
  record(event: { readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }): void;
}

interface ImageCollectorDeps {
  readonly images: Pick<RuntimeImages, 'list' | 'remove'>;
  /** All containers, running or not. */
  readonly pods: (signal: AbortSignal) => Promise<readonly RuntimePod[]>;
  /** Where images are kept. */
  readonly filesystem: (signal: AbortSignal) => Promise<FilesystemUsage>;
  readonly clock: Clock;
  readonly events: NodeEvents;
}

export interface ImageCollectorSettings {
  /** Above this part of its disk in use, images are removed until the lower part is reached; 100: never. */
  readonly highPercent: number;
  readonly lowPercent: number;
  /** Younger ones may be about to be used. */
  readonly ageMsMin: number;
  /** Unused for longer than this, an image is removed whatever room there is; zero: never. */
  readonly unusedMsMax: number;
}

const failed = 'ImageGCFailed';
const periodMs = 5 * 60_000;

interface ImageRecord {
  readonly firstSeenMs: number;
  lastUsedMs: number;
}

export class ImageCollector {
  readonly #deps: ImageCollectorDeps;
  readonly #settings: ImageCollectorSettings;
  readonly #startedMs: number;
  readonly #records = new Map<string, ImageRecord>();

  constructor(deps: ImageCollectorDeps, settings: ImageCollectorSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#startedMs = deps.clock.now();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, events } = this.#deps;
    let hasFailed = false;
    while (!signal.aborted) {
      try {
        await this.collect(signal);
        hasFailed = false;
      } catch (error) {
        if (signal.aborted) return;
        // The first failure may be that of a runtime that is just starting.
        if (hasFailed) events.record({ type: 'Warning', reason: 'ImageGCFailed', message: messageOf(error) });
        hasFailed = true;
      }
      await clock.sleep(periodMs, signal).catch(() => {});
    }
  }

  /** By age, and then by how full the disk is. */
  async collect(signal: AbortSignal): Promise<void> {
    const { clock, events } = this.#deps;
    const { highPercent, lowPercent, unusedMsMax } = this.#settings;
    const nowMs = clock.now();
    const unused = await this.#unused(nowMs, signal);
    const isOffByAge = unusedMsMax === 0 || nowMs - this.#startedMs <= unusedMsMax;
    const left = isOffByAge ? unused : await this.#removeOld(unused, nowMs, signal);
    if (highPercent === 100) return;
    const { capacityBytes, ...usage } = await this.#deps.filesystem(signal);
    const availableBytes = Math.min(usage.availableBytes, capacityBytes);
    if (capacityBytes === 0) {
      const message = 'invalid capacity 0 on image filesystem';
      events.record({ type: 'Warning', reason: 'InvalidDiskCapacity', message });
      throw new OperatingError(failed, message);
    }
    const usedPercent = 100 - Math.floor((availableBytes * 100) / capacityBytes);
    if (usedPercent < highPercent) return;
    const wantedBytes = Math.floor((capacityBytes * (100 - lowPercent)) / 100) - availableBytes;
    const freedBytes = await this.#free(left, wantedBytes, nowMs, signal);
    if (freedBytes >= wantedBytes) return;
    const message =
      `Insufficient free disk space on the node's image filesystem (${usedPercent}% of ${size(capacityBytes)} used). ` +
      `Failed to free sufficient space by deleting unused images (freed ${freedBytes} bytes). ` +
      'Investigate disk usage, as it could be used by active images, logs, volumes, or other data.';
    events.record({ type: 'Warning', reason: 'FreeDiskSpaceFailed', message });
    throw new OperatingError(failed, message);
  }

  /** All that are old enough, for a disk that is short. */
  async removeUnused(signal: AbortSignal): Promise<void> {
    const nowMs = this.#deps.clock.now();
    await this.#free(await this.#unused(nowMs, signal), Infinity, nowMs, signal);
  }

  /** Those that may be removed, the longest unused first. */
  async #unused(nowMs: number, signal: AbortSignal): Promise<readonly RuntimeImage[]> {
    const images = await this.#deps.images.list(signal);
    const pods = await this.#deps.pods(signal);
    const names = new Set(
      pods.flatMap(({ containers }) =>
        containers.flatMap(({ imageId, image, moreImages = [] }) => [imageId, image, ...moreImages]),
      ),
    );
    // Runtimes name the image of a container by its ID, its digest or a tag.
    const isUsed = ({ id, digests, tags }: RuntimeImage): boolean =>
      [id, ...digests, ...tags].some((one) => names.has(one));
    for (const image of images) {
      const record = this.#records.get(image.id) ?? { firstSeenMs: nowMs, lastUsedMs: 0 };
      if (isUsed(image)) record.lastUsedMs = nowMs;
      this.#records.set(image.id, record);
    }
    const present = new Set(images.map(({ id }) => id));
    for (const id of this.#records.keys()) if (!present.has(id)) this.#records.delete(id);
    const order = ({ id }: RuntimeImage): ImageRecord => this.#records.get(id) ?? { firstSeenMs: 0, lastUsedMs: 0 };
    return images
      .filter((image) => !image.pinned && !isUsed(image))
      .toSorted((a, b) => order(a).lastUsedMs - order(b).lastUsedMs || order(a).firstSeenMs - order(b).firstSeenMs);
  }

  async #removeOld(
    unused: readonly RuntimeImage[],
    nowMs: number,
    signal: AbortSignal,
  ): Promise<readonly RuntimeImage[]> {
    const { unusedMsMax } = this.#settings;
    const old = unused.filter(({ id }) => nowMs - (this.#records.get(id)?.lastUsedMs ?? nowMs) > unusedMsMax);
    const problems: string[] = [];
    for (const image of old) await this.#remove(image, problems, signal);
    if (problems.length > 0) {
      const wanted = `wanted to free images older than ${showDuration(unusedMsMax)}`;
      throw new OperatingError(failed, `${wanted}, encountered errors in image deletion: ${aggregated(problems)}`);
    }
    return unused.filter((image) => !old.includes(image));
  }

  async #free(
    unused: readonly RuntimeImage[],
    wantedBytes: number,
    nowMs: number,
    signal: AbortSignal,
  ): Promise<number> {
    const problems: string[] = [];
    let freedBytes = 0;
    for (const image of unused) {
      if (freedBytes >= wantedBytes) break;
      if (nowMs - (this.#records.get(image.id)?.firstSeenMs ?? nowMs) < this.#settings.ageMsMin) continue;
      if (await this.#remove(image, problems, signal)) freedBytes += image.sizeBytes;
    }
    if (problems.length === 0) return freedBytes;
    throw new OperatingError(
      failed,
      `wanted to free ${wantedBytes} bytes, but freed ${freedBytes} bytes space with errors in image deletion: ${aggregated(problems)}`,
    );
  }

  /** The others are removed whatever becomes of this one. */
  async #remove({ id }: RuntimeImage, problems: string[], signal: AbortSignal): Promise<boolean> {
    try {
      await this.#deps.images.remove(id, signal);
      this.#records.delete(id);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      problems.push(messageOf(error));
      return false;
    }
  }
}

/** `12.3 GiB`. */
function size(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  const amount = bytes / 1024 ** power;
  return `${power === 0 ? amount : amount.toFixed(1)} ${units[power]}`;
}
