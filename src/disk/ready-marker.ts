/**
 * The file `ready` that says: this volume was set up completely once. It stands outside of the volume, below the pod's
 * `plugins` directory, so that nothing a container does can make or remove it. That the volume is there still is not
 * what it says: memory is empty after a reboot, and a directory can be deleted.
 */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemCallError } from './system-call-error.ts';

/** `directory` is the volume's own: `<pod>/plugins/kubernetes.io~empty-dir/<volume>`. */
export function isMarkedReady(directory: string): boolean {
  try {
    return statSync(markerOf(directory), { throwIfNoEntry: false })?.isFile() === true;
  } catch {
    return false; // doubt costs one more set-up, which is harmless
  }
}

export function markReady(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o750 });
    writeFileSync(markerOf(directory), '');
  } catch (thrown) {
    throw systemCallError(thrown, markerOf(directory));
  }
}

export function clearReady(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}

function markerOf(directory: string): string {
  return join(directory, 'ready');
}
