/** Several kubeconfig files as one: of everything with a name the first file's counts, as with kubectl. */
import { join } from 'node:path';
import { errorCode, messageOf } from '../base/errors.ts';
import type { Entry, Kubeconfig } from './kubeconfig-file.ts';
import { KubeconfigError, parseKubeconfig } from './kubeconfig-file.ts';

interface KubeconfigSources {
  /** `--kubeconfig`: this one and no other. */
  readonly explicit: string | undefined;
  /** The value of KUBECONFIG. */
  readonly variable: string | undefined;
  readonly homeDirectory: string;
}

/** Undefined when there is none: an explicit one must exist, all others may be missing. */
export async function loadKubeconfig(
  { explicit, variable, homeDirectory }: KubeconfigSources,
  readFile: (path: string) => Promise<string>,
): Promise<Kubeconfig | undefined> {
  const listed = (variable ?? '').split(':').filter((path) => path !== '');
  const paths =
    explicit !== undefined
      ? [explicit]
      : listed.length > 0
        ? [...new Set(listed)]
        : [join(homeDirectory, '.kube', 'config')];
  const files: Kubeconfig[] = [];
  for (const path of paths) {
    let text: string;
    try {
      text = await readFile(path);
    } catch (error) {
      if (explicit === undefined && errorCode(error) === 'ENOENT') continue;
      throw new KubeconfigError(path, '', `cannot read it: ${messageOf(error)}`, { cause: error });
    }
    files.push(parseKubeconfig(path, text));
  }
  return files.length === 0 ? undefined : mergeKubeconfigs(files);
}

function mergeKubeconfigs(files: readonly Kubeconfig[]): Kubeconfig {
  return {
    currentContext: files.find(({ currentContext }) => currentContext !== '')?.currentContext ?? '',
    clusters: firstOfEach(files.map(({ clusters }) => clusters)),
    users: firstOfEach(files.map(({ users }) => users)),
    contexts: firstOfEach(files.map(({ contexts }) => contexts)),
  };
}

function firstOfEach<T>(maps: readonly ReadonlyMap<string, Entry<T>>[]): ReadonlyMap<string, Entry<T>> {
  // Later entries of this constructor replace earlier ones.
  return new Map(maps.toReversed().flatMap((entries) => [...entries]));
}
