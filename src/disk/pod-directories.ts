/** The directories every pod has, and the directory of one volume in them. */
import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { systemCallError } from './system-call-error.ts';

/** Made in this order before any volume of the pod is touched: whoever finds the last one finds all. */
export function makePodDirectories(podDirectory: string): void {
  for (const directory of [podDirectory, join(podDirectory, 'volumes'), join(podDirectory, 'plugins')]) {
    guard(directory, () => mkdirSync(directory, { recursive: true, mode: 0o750 }));
  }
}

export interface MadeDirectory {
  readonly made: boolean;
}

/** Makes a directory with exactly this mode, whatever the umask; one that is there gets the mode too. */
export function makeDirectoryWithMode(directory: string, mode: number): MadeDirectory {
  return guard(directory, () => {
    const made = statSync(directory, { throwIfNoEntry: false }) === undefined;
    if (made) mkdirSync(directory, { recursive: true, mode });
    if ((statSync(directory).mode & 0o7777) !== mode) chmodSync(directory, mode);
    return { made };
  });
}

function guard<Result>(path: string, act: () => Result): Result {
  try {
    return act();
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
