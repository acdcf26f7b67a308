/** Wakes whoever follows a log when its file may have changed. */
import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../../base/clock.ts';

// Also without a sign: some file systems give none, and a container may end without a last word.
const checkEveryMs = 1000;

export class LogChanges {
  readonly #clock: Clock;
  readonly #watcher: FSWatcher | undefined;
  #hasChanged = true;
  #wake: () => void = () => {};

  /** The directory is watched, not the file: that is how a new file of the same name is seen. */
  constructor(path: string, clock: Clock) {
    this.#clock = clock;
    this.#watcher = watchOrUndefined(dirname(path), () => {
      this.#hasChanged = true;
      this.#wake();
    });
  }

  /** Resolves at once when something changed since the last call. */
  async next(signal: AbortSignal): Promise<void> {
    if (!this.#hasChanged) {
      const awake = new AbortController();
      const tired = this.#clock.sleep(checkEveryMs, AbortSignal.any([signal, awake.signal])).catch(() => {});
      await Promise.race([tired, new Promise<void>((resolve) => (this.#wake = resolve))]);
      awake.abort();
      await tired;
    }
    this.#hasChanged = false;
    signal.throwIfAborted();
  }

  close(): void {
    this.#watcher?.close();
  }
}

/** A machine may have no watches left; then the clock alone wakes. */
function watchOrUndefined(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, changed);
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
