/**
 * Makes the mount points that are missing in volumes: `/data/config` where `/data` is a volume itself. Other containers may
 * write to that volume meanwhile, so every step is taken from an open directory and follows no link.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { resolveLinks, safeMakeDirectory, safeOpen } from '../../disk/paths/safe-open.ts';
import type { VolumePoint } from './sandbox-plan.ts';

export function makeVolumePoint({ volume, below, kind }: VolumePoint): void {
  if (kind === 'directory') {
    safeMakeDirectory(volume, below, 0o755);
    return;
  }
  const parent = dirname(below);
  if (parent !== '.') safeMakeDirectory(volume, parent, 0o755);
  const base = resolveLinks(volume, volume);
  const directory = safeOpen(base, join(base, parent));
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    closeSync(openSync(`/proc/self/fd/${directory}/${basename(below)}`, flags, 0o644));
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    closeSync(directory);
  }
}
