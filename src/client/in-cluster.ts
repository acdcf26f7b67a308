/** The API server of the cluster this runs in as a pod: its address is in the environment, the rest in mounted files that rotate. */
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { errorCode } from '../base/errors.ts';
import type { ClusterAccess } from './cluster-access.ts';
import { environmentProxy } from './environment-proxy.ts';
import { RotatingFile } from './rotating-file.ts';
import type { UserDeps } from './user-credentials.ts';
import { userCredentials } from './user-credentials.ts';

export const inClusterDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Undefined when this is no pod, or one without a token. */
export async function inClusterAccess(deps: UserDeps): Promise<ClusterAccess | undefined> {
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
