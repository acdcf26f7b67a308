/**
 * The file `ready` that says: this volume was set up completely once. It stands outside of the volume, below the pod's
 * `plugins` directory, so that nothing a container does can make or remove it. That the volume is there still is not
 * what it says: memory is empty after a reboot, and a directory can be deleted.
 */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { systemCallError } from './system-call-error.ts';

/** `marker` is the file, in a directory of its own: `<pod>/plugins/kubernetes.io~empty-dir/<volume>/ready`. */
export function isMarkedReady(marker: string): boolean {
  try {
    return statSync(marker, { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false; // doubt costs one more set-up, which is harmless
  }
}

export function markReady(marker: string): void {
  try {
    mkdirSync(dirname(marker), { recursive: true, mode: 0o750 });
    writeFileSync(marker, '');
  } catch (thrown) {
    throw systemCallError(thrown, marker);
  }
}

/** The marker's directory goes with it. */
export function clearReady(marker: string): void {
  try {
    rmSync(dirname(marker), { recursive: true, force: true });
  } catch (thrown) {
    throw systemCallError(thrown, dirname(marker));
  }
}
