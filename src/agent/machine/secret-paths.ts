/** Where this machine keeps what the program reads secrets from. No container may see any of it. Pure. */
import { dirname, join, resolve } from 'node:path';
import { inClusterDirectory } from '../../client/in-cluster.ts';

interface SecretSources {
  /** Directories that commands of this program keep keys, tokens and Secrets in. */
  readonly stateDirectories: readonly string[];
  /** A folder, or a single file, with Secrets in clear. */
  readonly manifests: string | undefined;
  /** Kubeconfigs, and the keys, certificates and tokens that they name. */
  readonly clusterFiles: readonly string[];
}

/** Absolute paths, none below another. They may be missing: what is not there now may come. */
export function secretPaths(
  { stateDirectories, manifests, clusterFiles }: SecretSources,
  exists: (path: string) => boolean,
): readonly string[] {
  const paths = [
    ...stateDirectories,
    ...(manifests === undefined ? [] : [manifests]),
    ...clusterFiles,
    ...clusterFiles.map((file) => dirname(file)).filter((directory) => isServerDirectory(directory, exists)),
    inClusterDirectory,
  ];
  // Nothing can be put over the root itself; a container without it would have no program to run.
  const unique = [...new Set(paths.map((path) => resolve(path)))].filter((path) => path !== '/');
  return unique.filter((path) => !unique.some((other) => path.startsWith(`${other}/`)));
}

/** An API server of this program leaves the admin's kubeconfig beside its keys and objects, `up` beside the server's directory. */
function isServerDirectory(directory: string, exists: (path: string) => boolean): boolean {
  return ['pki', 'api/pki'].some((keys) => exists(join(directory, keys)));
}
