/**
 * Which API server to talk to, and as whom: from a kubeconfig's context, or from what a pod is given in a cluster. Everything that
 * belongs to this machine (environment, files, programs) is given to it.
 */
import { isIPv6 } from 'node:net';
import { join, resolve } from 'node:path';
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { type Endpoint, type Trust, environmentProxy } from '../transport/dial.ts';
import type { Transport } from '../transport/transport.ts';
import { type Credentials, RotatingFile, type UserDeps, anonymous, userCredentials } from './credentials.ts';
import { type Entry, type Kubeconfig, type KubeconfigCluster, kubeconfigError, loadKubeconfig } from './kubeconfig.ts';

export interface ClusterAccess {
  readonly endpoint: Endpoint;
  readonly credentials: Credentials;
  /** Of objects that name none. */
  readonly namespace: string;
  /** Absolute: the kubeconfigs, and all keys, certificates and tokens that they name; or the directory of a pod's token. */
  readonly secretFiles: readonly string[];
  /** How to reach a server that is not on a network; absent: connections to the endpoint. */
  readonly transport?: () => Transport;
}

interface AccessSettings {
  /** `--kubeconfig`. */
  readonly kubeconfig: string | undefined;
  /** `--context`. */
  readonly context: string | undefined;
  /** Only what a pod is given in its cluster, and no kubeconfig. */
  readonly inCluster?: boolean;
}

export interface AccessDeps extends UserDeps {
  readonly homeDirectory: string;
}

export class NoClusterError extends MountletError {
  readonly reason = 'NoCluster';
  constructor() {
    super('Cannot tell which API server to use: give --kubeconfig, set KUBECONFIG, or run inside a cluster');
  }
}

/** `--kubeconfig`, else KUBECONFIG, else ~/.kube/config, else the cluster this runs in. */
export async function clusterAccess(settings: AccessSettings, deps: AccessDeps): Promise<ClusterAccess> {
  const { env, homeDirectory, readFile } = deps;
  const sources = { explicit: settings.kubeconfig, variable: env['KUBECONFIG'], homeDirectory };
  const kubeconfig = settings.inCluster === true ? undefined : await loadKubeconfig(sources, readFile);
  if (kubeconfig !== undefined && (settings.kubeconfig !== undefined || !isEmpty(kubeconfig)))
    return accessOf(kubeconfig, settings.context, deps);
  const inCluster = await inClusterAccess(deps);
  if (inCluster === undefined) throw new NoClusterError();
  return inCluster;
}

/** As some tools leave it behind when the last cluster is removed. */
function isEmpty({ clusters, users, contexts, currentContext }: Kubeconfig): boolean {
  return clusters.size + users.size + contexts.size === 0 && currentContext === '';
}

function accessOf(kubeconfig: Kubeconfig, wanted: string | undefined, deps: AccessDeps): ClusterAccess {
  const name = wanted ?? kubeconfig.currentContext;
  const [anyFile = ''] = [...kubeconfig.contexts.values(), ...kubeconfig.clusters.values()].map(({ file }) => file);
  if (name === '') throw kubeconfigError(anyFile, 'current-context', 'is not set: set it or give --context');
  const context = kubeconfig.contexts.get(name);
  if (context === undefined) throw kubeconfigError(anyFile, 'contexts', `there is no context "${name}"`);
  const { cluster: clusterName = '', user: userName = '', namespace } = context.value;
  const cluster = kubeconfig.clusters.get(clusterName);
  if (cluster === undefined)
    throw kubeconfigError(context.file, `${context.field}.cluster`, `there is no cluster "${clusterName}"`);
  const user = userName === '' ? undefined : kubeconfig.users.get(userName);
  if (userName !== '' && user === undefined)
    throw kubeconfigError(context.file, `${context.field}.user`, `there is no user "${userName}"`);
  return {
    endpoint: endpointOf(cluster, deps),
    credentials: user === undefined ? anonymous : userCredentials(user, execClusterOf(cluster.value), deps),
    namespace: namespace === undefined || namespace === '' ? 'default' : namespace,
    secretFiles: secretFilesOf(kubeconfig),
  };
}

/** Of every context, not of the current one alone: a reader of the file may use them all. */
function secretFilesOf({ clusters, users, contexts }: Kubeconfig): readonly string[] {
  const entries = [...clusters.values(), ...users.values(), ...contexts.values()];
  const named = [...users.values()].flatMap(({ value }) => [
    value['client-certificate'],
    value['client-key'],
    value.tokenFile,
  ]);
  const paths = [...entries.map(({ file }) => file), ...named].filter((path) => path !== undefined && path !== '');
  return [...new Set(paths.map((path) => resolve(path ?? '')))];
}

function endpointOf({ file, field, value: cluster }: Entry<KubeconfigCluster>, deps: AccessDeps): Endpoint {
  const isInsecure = cluster['insecure-skip-tls-verify'] ?? false;
  const data = cluster['certificate-authority-data'] ?? '';
  const path = cluster['certificate-authority'] ?? '';
  if (isInsecure && (data !== '' || path !== ''))
    throw kubeconfigError(
      file,
      `${field}.insecure-skip-tls-verify`,
      'is set, but there is a certificate authority too',
    );
  const url = urlOf(file, `${field}.server`, cluster.server ?? '', ['http:', 'https:']);
  const proxyText = cluster['proxy-url'] ?? '';
  const proxy =
    proxyText === ''
      ? environmentProxy(deps.env, url)
      : urlOf(file, `${field}.proxy-url`, proxyText, ['http:', 'https:']);
  const authority = path === '' || data !== '' ? undefined : new RotatingFile(path, deps.readFile, deps.clock);
  const named = cluster['tls-server-name'] ?? '';
  const common = { isInsecure, serverName: named === '' ? undefined : named };
  const fixed: Trust = {
    ...common,
    authorityPem: data === '' ? undefined : Buffer.from(data, 'base64').toString('utf8'),
  };
  return {
    url,
    proxy,
    trust: async () => {
      if (authority === undefined) return fixed;
      try {
        return { ...common, authorityPem: await authority.content() };
      } catch (error) {
        const problem = `cannot read "${path}": ${messageOf(error)}`;
        throw kubeconfigError(file, `${field}.certificate-authority`, problem, { cause: error });
      }
    },
  };
}

/** Quotes nothing: a URL may have a password in it. */
function urlOf(file: string, field: string, text: string, protocols: readonly string[]): URL {
  // kubectl takes a bare address for http.
  const whole = text.includes('://') ? text : `http://${text}`;
  if (text === '' || !URL.canParse(whole))
    throw kubeconfigError(file, field, 'must be a URL such as https://host:6443');
  const url = new URL(whole);
  if (!protocols.includes(url.protocol))
    throw kubeconfigError(file, field, `${url.protocol}// is not supported: use ${protocols.join('// or ')}//`);
  return url;
}

function execClusterOf(cluster: KubeconfigCluster): unknown {
  const config = cluster.extensions?.find(({ name }) => name === 'client.authentication.k8s.io/exec')?.extension;
  const { server, 'certificate-authority-data': authority, 'proxy-url': proxy } = cluster;
  return {
    server,
    ...(cluster['tls-server-name'] !== undefined && { 'tls-server-name': cluster['tls-server-name'] }),
    ...(cluster['insecure-skip-tls-verify'] === true && { 'insecure-skip-tls-verify': true }),
    ...(authority !== undefined && { 'certificate-authority-data': authority }),
    ...(proxy !== undefined && { 'proxy-url': proxy }),
    ...(config !== undefined && { config }),
  };
}

export const inClusterDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * The API server of the cluster this runs in as a pod: its address is in the environment, the rest in mounted files that rotate.
 * Undefined outside of a pod, and in one without a token.
 */
async function inClusterAccess(deps: UserDeps): Promise<ClusterAccess | undefined> {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '' } = deps.env;
  if (host === '' || port === '') return undefined;
  const tokenFile = join(inClusterDirectory, 'token');
  try {
    await deps.readFile(tokenFile);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  const authority = new RotatingFile(join(inClusterDirectory, 'ca.crt'), deps.readFile, deps.clock);
  const namespace = await deps.readFile(join(inClusterDirectory, 'namespace')).catch(() => '');
  const user = { file: tokenFile, field: 'token', value: { tokenFile } };
  const url = new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
  return {
    endpoint: {
      url,
      proxy: environmentProxy(deps.env, url),
      trust: async () => ({ authorityPem: await authority.content(), isInsecure: false }),
    },
    credentials: userCredentials(user, undefined, deps),
    namespace: namespace.trim() === '' ? 'default' : namespace.trim(),
    secretFiles: [inClusterDirectory],
  };
}
