/** The file effects that a container's view needs, for the pods below one root: subPaths, hosts files, env files. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { readInRoot } from '../disk/paths/read-in-root.ts';
import { writeInPlace } from '../disk/paths/write-in-place.ts';
import { makePodDirectories } from '../disk/pod-directories.ts';
import { etcHostsFile } from '../kube/values/node-layout.ts';
import type { MountsDeps, SubPathPreparer } from '../pods/container-mounts.ts';
import type { EnvironmentDeps } from '../pods/environment.ts';
import { fixedSubPaths } from './sub-path-preparers.ts';

export function containerEffects(
  root: string,
  mounts: Mounts,
  subPaths: SubPathPreparer = fixedSubPaths(mounts),
): MountsDeps & Pick<EnvironmentDeps, 'envFiles'> {
  return {
    subPaths,
    hostsFiles: {
      readNode: async () => readFileSync('/etc/hosts', 'utf8'),
      async write(pod, content) {
        const file = etcHostsFile(root, pod.metadata.uid ?? '');
        makePodDirectories(dirname(file));
        writeInPlace(file, content, 0o644);
        return file;
      },
    },
    envFiles: { read: async ({ directory, path, bytesMax }) => readInRoot(directory, path, bytesMax) },
  };
}
