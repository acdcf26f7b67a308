/**
 * One kubeconfig file, read and checked: what it may say, and where its relative paths lead. Several files become one in
 * kubeconfig-merge.ts; what a context means is in cluster-access.ts. No value of a field is ever in an error: it may be a credential.
 */
import { ClientError } from '../transport/transport.ts';
import { dirname, join, resolve } from 'node:path';
import { errorCode, messageOf } from '../../base/errors.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { type Of, any, boolean, bytes, decode, list, map, object, required, string } from '../../kube/schema/schema.ts';

const cluster = object({
  server: string,
  'tls-server-name': string,
  'insecure-skip-tls-verify': boolean,
  'certificate-authority': string,
  'certificate-authority-data': bytes,
  'proxy-url': string,
  'disable-compression': boolean,
  extensions: list(object({ name: required(string), extension: any })),
});
export interface KubeconfigCluster extends Of<typeof cluster> {}

const exec = object({
  apiVersion: string,
  command: string,
  args: list(string),
  env: list(object({ name: required(string), value: required(string) })),
  installHint: string,
  provideClusterInfo: boolean,
  interactiveMode: string,
});
export interface KubeconfigExec extends Of<typeof exec> {}

const user = object({
  'client-certificate': string,
  'client-certificate-data': bytes,
  'client-key': string,
  'client-key-data': bytes,
  token: string,
  tokenFile: string,
  as: string,
  'as-uid': string,
  'as-groups': list(string),
  'as-user-extra': map(list(string)),
  username: string,
  password: string,
  'auth-provider': any,
  exec,
});
export interface KubeconfigUser extends Of<typeof user> {}

const context = object({ cluster: string, user: string, namespace: string });
interface KubeconfigContext extends Of<typeof context> {}

const kubeconfig = object({
  apiVersion: string,
  kind: string,
  preferences: any,
  clusters: list(object({ name: required(string), cluster })),
  users: list(object({ name: required(string), user })),
  contexts: list(object({ name: required(string), context })),
  'current-context': string,
  extensions: any,
});

/** Of one file or of several merged; every entry knows the file it came from. */
export interface Kubeconfig {
  readonly currentContext: string;
  readonly clusters: ReadonlyMap<string, Entry<KubeconfigCluster>>;
  readonly users: ReadonlyMap<string, Entry<KubeconfigUser>>;
  readonly contexts: ReadonlyMap<string, Entry<KubeconfigContext>>;
}

export interface Entry<T> {
  readonly file: string;
  /** `users[0].user`: where errors about it point. */
  readonly field: string;
  readonly value: T;
}

export function kubeconfigError(file: string, field: string, problem: string, options?: ErrorOptions): ClientError {
  const text = `Cannot use kubeconfig "${file}": ${field === '' ? '' : `${field}: `}${problem}`;
  return new ClientError('KubeconfigInvalid', text, options);
}

function parseKubeconfig(file: string, text: string): Kubeconfig {
  const documents = parseYamlDocuments(text);
  const [document] = documents;
  if (documents.length > 1) throw kubeconfigError(file, '', 'it has more than one YAML document');
  const [problem] = document?.problems ?? [];
  if (problem !== undefined) {
    const { line, column } = problem.position;
    throw kubeconfigError(file, `line ${line}, column ${column}`, problem.message);
  }
  const { value, problems } = decode(kubeconfig, document?.value);
  // Fields we do not know are other tools' business.
  const wrong = problems.find(({ kind }) => kind === 'type');
  if (wrong !== undefined) throw kubeconfigError(file, showPath(wrong.path), wrong.message);
  return {
    currentContext: value['current-context'] ?? '',
    clusters: entries(file, 'cluster', value.clusters, (entry) => withPaths(file, entry, ['certificate-authority'])),
    users: entries(file, 'user', value.users, (entry) =>
      withCommand(file, withPaths(file, entry, ['client-certificate', 'client-key', 'tokenFile'])),
    ),
    contexts: entries(file, 'context', value.contexts, (entry) => entry),
  };
}

type Named<K extends string, T> = { readonly name: string } & { readonly [key in K]?: T };

function entries<K extends 'cluster' | 'user' | 'context', T extends object>(
  file: string,
  kind: K,
  items: readonly Named<K, T>[] = [],
  change: (value: T) => T,
): ReadonlyMap<string, Entry<T>> {
  const found = new Map<string, Entry<T>>();
  for (const [index, item] of items.entries()) {
    // Between files the first counts, but within one it is unclear which was meant; kubectl refuses it too.
    if (found.has(item.name))
      throw kubeconfigError(file, `${kind}s[${index}].name`, 'is used by another one before it');
    const value = item[kind] ?? ({} as T);
    found.set(item.name, { file, field: `${kind}s[${index}].${kind}`, value: change(value) });
  }
  return found;
}

/** A relative path is meant from where the file is, not from where the program was started. */
function withPaths<T extends object>(file: string, entry: T, fields: readonly (keyof T & string)[]): T {
  const changed = { ...entry };
  for (const field of fields) {
    const path = entry[field];
    if (typeof path === 'string' && path !== '') Object.assign(changed, { [field]: resolve(dirname(file), path) });
  }
  return changed;
}

/** A bare name is looked for on the PATH; one with a slash is a path like the others. */
function withCommand(file: string, entry: KubeconfigUser): KubeconfigUser {
  const { command } = entry.exec ?? {};
  if (command === undefined || !command.includes('/')) return entry;
  return { ...entry, exec: { ...entry.exec, command: resolve(dirname(file), command) } };
}

/** Several kubeconfig files as one: of everything with a name the first file's counts, as with kubectl. */
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
      const isMissing = errorCode(error) === 'ENOENT';
      if (explicit === undefined && isMissing) continue;
      const why = isMissing ? 'there is no such file' : `cannot read it: ${messageOf(error)}`;
      throw kubeconfigError(path, '', why, { cause: error });
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
  return new Map(maps.toReversed().flatMap((one) => [...one]));
}
