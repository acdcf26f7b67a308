/**
 * Sub paths of volumes whose server may be gone. What is done inside of the volume is done by a process of its own, which is this
 * very file run as a program; what is bound beside the pod is unmounted by umount(8).
 */
import { readFileSync } from 'node:fs';
import { argv, stdout } from 'node:process';
import { fileURLToPath } from 'node:url';
import { type ForeignAnswer, doneElsewhere } from '../devices/foreign-paths.ts';
import { type Programs, unmountLayers } from '../devices/programs.ts';
import { DiskError } from '../mounts/disk-error.ts';
import { foreignMountPoints, isForeign, isWithin } from '../mounts/mount-table.ts';
import { type Mounts, systemMounts } from '../mounts/mounts.ts';
import { type SubPathRequest, cleanSubPaths, prepareSubPath, subPathsDirectory } from './sub-paths.ts';

/** `prepareSubPath`, wherever the volume is. */
export async function prepareAnySubPath(
  request: SubPathRequest,
  { mounts, programs }: { readonly mounts: Mounts; readonly programs: Programs },
  signal: AbortSignal,
): Promise<string> {
  const { volumeDirectory: path } = request;
  if (!isForeign(path)) return prepareSubPath(request, mounts);
  return await doneElsewhere(programs, { path, script: new URL(import.meta.url), request }, signal);
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

function answerTo(request: SubPathRequest): ForeignAnswer {
  try {
    return { result: prepareSubPath(request, systemMounts()) };
  } catch (thrown) {
    if (!(thrown instanceof DiskError)) throw thrown;
    return { reason: thrown.reason, message: thrown.message };
  }
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  stdout.write(JSON.stringify(answerTo(JSON.parse(readFileSync(0, 'utf8')) as SubPathRequest)));
}
