/** The directories of this machine that claims get, one for each volume, below one that is the node's. */
import { chmod, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Turns } from '../../base/turns.ts';
import type { LocalDirectories } from '../../controllers/storage/local-path.ts';
import { removal } from '../../disk/paths/remove-tree.ts';
import { dnsSubdomainProblems } from '../../kube/values/names.ts';
import { OperatingError, errorCode } from '../../base/errors.ts';

/** Gone, not empty, not a directory, or mounted on. */
const isKept: ReadonlySet<string> = new Set(['ENOENT', 'ENOTEMPTY', 'ENOTDIR', 'EBUSY']);

export function localDirectories(root: string): LocalDirectories {
  const turns = new Turns(() => performance.now());
  const pathOf = (volumeName: string): string => {
    // Names of objects are such; a path is made of nothing else.
    if (dnsSubdomainProblems(volumeName).length > 0) {
      throw new OperatingError('InvalidVolumeName', `"${volumeName}" is not the name of a volume`);
    }
    return join(root, volumeName);
  };
  return {
    pathOf,
    async make(volumeName) {
      const path = pathOf(volumeName);
      // Only the node itself looks in from above.
      await mkdir(root, { recursive: true, mode: 0o700 });
      await mkdir(path, { recursive: true });
      // Whichever user the program has: its pod alone sees the directory.
      await chmod(path, 0o777);
    },
    remove: (volumeName) => turns.run(removal(pathOf(volumeName))),
    async list() {
      // What cannot be read is not cleaned up; `make` says why.
      const names = await readdir(root).catch(() => []);
      return names.filter((name) => dnsSubdomainProblems(name).length === 0);
    },
    async removeEmpty(volumeName) {
      try {
        await rmdir(pathOf(volumeName));
      } catch (error) {
        if (!isKept.has(errorCode(error) ?? '')) throw error;
      }
    },
  };
}
