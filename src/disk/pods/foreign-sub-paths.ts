/**
 * Sub paths of volumes whose server may be gone. What is done inside of the volume is done by a process of its own
 * (sub-path-program.ts); what is bound beside the pod is unmounted by umount(8).
 */
import { doneElsewhere } from '../devices/foreign-paths.ts';
import { type Programs, unmountLayers } from '../devices/programs.ts';
import { foreignMountPoints, isForeign, isWithin } from '../mounts/mount-table.ts';
import type { Mounts } from '../mounts/mounts.ts';
import { type SubPathRequest, cleanSubPaths, prepareSubPath, subPathsDirectory } from './sub-paths.ts';

/** `prepareSubPath`, wherever the volume is. */
export async function prepareAnySubPath(
  request: SubPathRequest,
  { mounts, programs }: { readonly mounts: Mounts; readonly programs: Programs },
  signal: AbortSignal,
): Promise<string> {
  const { volumeDirectory: path } = request;
  if (!isForeign(path)) return prepareSubPath(request, mounts);
  const script = new URL('./sub-path-program.js', import.meta.url);
  return await doneElsewhere(programs, { path, script, request }, signal);
}

/** `cleanSubPaths`, wherever the volume is. */
export async function cleanAnySubPaths(
  podDirectory: string,
  volumeName: string,
  { mounts, programs }: { readonly mounts: Mounts; readonly programs: Programs },
  signal: AbortSignal,
): Promise<void> {
  const directory = subPathsDirectory(podDirectory, volumeName);
  for (const point of foreignMountPoints()) {
    if (isWithin(directory, point)) await unmountLayers(programs, point, signal);
  }
  cleanSubPaths(podDirectory, volumeName, mounts);
}
