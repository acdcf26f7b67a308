/** The API server of this machine: its identity and store from a data directory, listening on one address. */
import { rmdirSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { ApiServer } from '../apiserver/api-server.ts';
import { startApiServer } from '../apiserver/api-server.ts';
import type { Notify } from '../apiserver/notices.ts';
import { objectPrefix } from '../apiserver/object-key.ts';
import { systemRandom } from '../apiserver/random.ts';
import { resources } from '../apiserver/resources.ts';
import { LmdbStore, backUpStore, restoreBackup, storeDefaults } from '../apiserver/store/lmdb-store.ts';
import { StoreDamagedError } from '../apiserver/store/store-errors.ts';
import { systemClock } from '../base/clock.ts';
import { lockDirectory } from '../disk/paths/directory-lock.ts';
import { makeDirectories } from '../disk/paths/make-directories.ts';
import { apiServerIdentity, writeAdminKubeconfig } from './api-server-identity.ts';
import { kubernetesVersion } from './kubernetes-version.ts';

export interface EmbeddedApiServerSettings {
  /** Absolute. */
  readonly directory: string;
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
}

export interface EmbeddedApiServer extends Pick<ApiServer, 'url'> {
  /** The admin's. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

const issuer = 'https://kubernetes.default.svc.cluster.local';
// Longer than any answer but a watch takes, and watches are ended at once.
const stopGraceMs = 5_000;

const secretPrefixes = resources.filter(({ isSecret }) => isSecret).map((resource) => objectPrefix(resource));

function storeDirectory(directory: string): string {
  return join(directory, 'store');
}

/** A consistent copy of all objects, also while a server runs on them. The keys in `pki` are not in it. */
export function backUpApiServer(directory: string, file: string): Promise<void> {
  return backUpStore(storeDirectory(directory), file);
}

/** Into a data directory that has no objects yet; when it fails, one that was not there is not there after it either. */
export async function restoreApiServer(file: string, directory: string): Promise<void> {
  const made = makeDirectories(directory);
  try {
    await restoreBackup(file, storeDirectory(directory));
  } catch (error) {
    for (const path of made) rmdirSync(path);
    throw error;
  }
}

export async function startEmbeddedApiServer(
  { directory, host, port }: EmbeddedApiServerSettings,
  notify: Notify,
  signal: AbortSignal,
): Promise<EmbeddedApiServer> {
  makeDirectories(directory);
  const now = systemClock.now();
  const { authority, server, signingKey, encryptionKeys } = apiServerIdentity(directory, host, now);
  const store = await LmdbStore.open({
    directory: storeDirectory(directory),
    keys: encryptionKeys,
    isSecret: (key) => secretPrefixes.some((prefix) => key.startsWith(prefix)),
    lock: lockDirectory,
    now: () => systemClock.now(),
    limits: storeDefaults,
  });
  try {
    const { damaged } = store;
    if (damaged.length > 0) notify({ kind: 'StoreDamaged', error: new StoreDamagedError(directory, damaged) });
    const running = await startApiServer(
      {
        host,
        port,
        tls: { certificate: server.certificatePem, key: server.keyPem, clientCa: authority.certificatePem },
        authorityPem: authority.certificatePem,
        advertisedAddress: isIP(host) === 0 || isUnspecified(host) ? '127.0.0.1' : host,
        version: kubernetesVersion,
        staticTokens: [],
        allowsAnonymous: true,
        authorization: { mode: 'node', roles: [] },
        tokens: { issuer, audiences: [issuer], key: signingKey, retiredKeys: [] },
        stopGraceMs,
      },
      { store, resources, clock: systemClock, random: systemRandom, chance: Math.random, notify },
      signal,
    );
    return {
      url: running.url,
      kubeconfig: writeAdminKubeconfig(directory, authority, running.url, now),
      async close() {
        await running.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

function isUnspecified(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}
