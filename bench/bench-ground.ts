/** Directories that benchmarks mount in: whatever ends the program, all mounts and files in them go. */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Mounts } from '../src/disk/mounts/mounts.ts';
import { mountPointsBelow } from '../src/testing/machine/temporary-directory.ts';

export class BenchGround {
  readonly #mounts: Mounts;
  readonly #directories = new Set<string>();

  constructor(mounts: Mounts) {
    this.#mounts = mounts;
  }

  /** Ctrl-C comes between two turns of the event loop: nothing is half mounted then. */
  clearOnSignals(): void {
    for (const [signal, status] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
      ['SIGHUP', 129],
    ] as const) {
      process.once(signal, () => {
        this.clear();
        process.exit(status);
      });
    }
  }

  directory(under: string): string {
    const directory = mkdtempSync(join(under, 'mountlet-bench-'));
    this.#directories.add(directory);
    return directory;
  }

  remove(directory: string): void {
    for (const mountPoint of mountPointsBelow(directory)) this.#mounts.unmount(mountPoint, { lazy: true });
    rmSync(directory, { recursive: true, force: true });
    this.#directories.delete(directory);
  }

  clear(): void {
    for (const directory of this.#directories) this.remove(directory);
  }
}
