/** The API server of this machine: its identity and store from a data directory, listening on one address. */
import { rmSync, rmdirSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import type { KeyPair } from '../../apiserver/identity/certificates.ts';
import type { PeerIdentity } from '../../apiserver/identity/authentication.ts';
import type { ApiNotice, Notify, RequestNotice } from '../../apiserver/model/notices.ts';
import { systemRandom } from '../../apiserver/model/random.ts';
import type { Resource } from '../../apiserver/model/resource.ts';
import { StoredObjects, objectPrefix } from '../../apiserver/model/stored-objects.ts';
import { resources } from '../../apiserver/resources/resources.ts';
import { serviceKind } from '../../kube/kinds/service.ts';
import { type ApiServer, startApiServer } from '../../apiserver/serving/api-server.ts';
import { workerDefaults } from '../../apiserver/serving/large-requests.ts';
import { NodeProxy } from '../../apiserver/serving/node-proxy.ts';
import { DurableStore, backUpStore, restoreBackup, storeDefaults } from '../../apiserver/store/durable-store.ts';
import {
  type EncryptionKey,
  keepNewestEncryptionKey,
  readEncryptionKeys,
  rotateEncryptionKeys,
} from '../../apiserver/store/encryption.ts';
import { storeDamaged } from '../../apiserver/store/store-errors.ts';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import type { ForceDetachSetting } from '../../controllers/attachments/attach-detach.ts';
import { chooseControllers, controllerNames, runControllers, schedulerName } from '../../controllers/controllers.ts';
import type { StorageLoop } from '../../controllers/storage/storage.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import { kubernetesVersion } from '../machine/machine-facts.ts';
import { type LogLine, logLine } from '../node/notices.ts';
import {
  apiServerIdentity,
  encryptionKeysFile,
  issueAdmin,
  issueNode,
  requestSigner,
  writeKubeconfig,
} from './api-server-identity.ts';
import { InProcessTransport } from './in-process-transport.ts';

interface EmbeddedApiServerSettings extends Partial<ForceDetachSetting> {
  /** Absolute. */
  readonly directory: string;
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Where the admin's kubeconfig goes; absent: into the directory. */
  readonly kubeconfig?: string;
  /** Those that make volumes for claims; absent where the machine has no node. */
  readonly provisioners?: readonly StorageLoop[];
  /** Names of the loops that run beside what an API server does itself; absent: all. */
  readonly loops?: ReadonlySet<string>;
  /** Certificates of nodes are not verified. */
  readonly kubeletInsecure?: boolean;
  /** Why Services do not answer on this machine, for those who make one. */
  readonly servicesProblem?: () => string | undefined;
}

/** What `--controllers` and `--scheduler` choose. */
export function chosenLoops({
  controllers,
  scheduler,
}: {
  readonly controllers: string;
  readonly scheduler: 'default' | 'none';
}): ReadonlySet<string> {
  return new Set([
    ...chooseControllers(controllers, controllerNames),
    ...(scheduler === 'none' ? [] : [schedulerName]),
  ]);
}

type ReachedServer = Pick<ClusterAccess, 'endpoint' | 'credentials' | 'secretFiles' | 'transport'>;

interface IssuedNode {
  readonly cluster: ReachedServer;
  readonly serving: { readonly certificatePem: string; readonly keyPem: string; readonly clientAuthorityPem: string };
}

export interface EmbeddedApiServer extends Pick<ApiServer, 'url'> {
  /** The admin's. */
  readonly kubeconfig: string;
  /** How the administrator reaches it, without a file. */
  readonly admin: ReachedServer;
  /** Who a node of this server is: what it shows to the server, and what its own server shows. */
  issueNode(nodeName: string, hosts: readonly string[]): IssuedNode;
  /** Who follows Services for a node of this server. */
  issueProxy(): ReachedServer;
  close(): Promise<void>;
}

const issuer = 'https://kubernetes.default.svc.cluster.local';
// Longer than any answer but a watch takes, and watches are ended at once.
const stopGraceMs = 5_000;

const secretPrefixes = resources.filter(({ isSecret }) => isSecret).map((resource) => objectPrefix(resource));

function storeDirectory(directory: string): string {
  return join(directory, 'store');
}

/** Beside the store, which may be lost without it. */
function storeMarker(directory: string): string {
  return join(directory, 'store.marker');
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
    // It knows of the store that was here before.
    rmSync(storeMarker(directory), { force: true });
  } catch (error) {
    for (const path of made) rmdirSync(path);
    throw error;
  }
}

/** Gives Secrets a new key on disk and forgets the old ones. No server may run on them. Answers how many rows it wrote again. */
export async function rotateApiServerKeys(directory: string): Promise<number> {
  const file = encryptionKeysFile(directory);
  // Fails here, before anything changes, if a server runs on the store or the store cannot be read.
  await (await openStore(directory, readEncryptionKeys(file))).close();
  // The new key stands before the old ones until everything is written with it, so that a crash in between loses nothing.
  const store = await openStore(directory, rotateEncryptionKeys(file));
  try {
    const count = await store.reseal();
    keepNewestEncryptionKey(file);
    return count;
  } finally {
    await store.close();
  }
}

function openStore(directory: string, keys: readonly EncryptionKey[]): Promise<DurableStore> {
  return DurableStore.open({
    directory: storeDirectory(directory),
    marker: storeMarker(directory),
    keys,
    isSecret: (key) => secretPrefixes.some((prefix) => key.startsWith(prefix)),
    lock: lockDirectory,
    now: () => systemClock.now(),
    limits: storeDefaults,
  });
}

export async function startEmbeddedApiServer(
  {
    directory,
    host,
    port,
    kubeconfig = join(directory, 'kubeconfig'),
    provisioners,
    loops,
    servicesProblem = () => undefined,
    disablesForceDetachOnTimeout = false,
    kubeletInsecure = false,
  }: EmbeddedApiServerSettings,
  notify: Notify,
  signal: AbortSignal,
): Promise<EmbeddedApiServer> {
  makeDirectories(directory);
  const now = systemClock.now();
  const identity = apiServerIdentity(directory, host, now);
  const { authority, nodeAuthority, server, nodeClient, signingKey, encryptionKeys } = identity;
  const store = await openStore(directory, encryptionKeys);
  let running: ApiServer | undefined;
  try {
    const { damaged } = store;
    if (damaged.length > 0) notify({ kind: 'StoreDamaged', error: storeDamaged(directory, damaged) });
    running = await startApiServer(
      {
        host,
        port,
        tls: { certificate: server.certificatePem, key: server.keyPem, clientCa: authority.certificatePem },
        authorityPem: authority.certificatePem,
        advertisedAddress: isIP(host) === 0 || isUnspecified(host) ? '127.0.0.1' : host,
        version: kubernetesVersion,
        staticTokens: [],
        allowsAnonymous: true,
        authorization: { mode: 'rbac' },
        tokens: { issuer, audiences: [issuer], key: signingKey },
        stopGraceMs,
        largeRequests: workerDefaults,
      },
      {
        store,
        resources: resources.map((one) => (one.kind === serviceKind.kind ? warning(one, servicesProblem) : one)),
        clock: systemClock,
        random: systemRandom,
        chance: Math.random,
        notify,
        controllers: (cluster, until) =>
          runControllers(
            {
              ...cluster,
              disablesForceDetachOnTimeout,
              signer: requestSigner(identity, systemClock),
              ...(provisioners && { provisioners }),
              ...(loops && { loops }),
            },
            until,
          ),
        nodes: new NodeProxy(
          { clock: systemClock, nodes: new StoredObjects(store) },
          {
            authorityPem: nodeAuthority.certificatePem + authority.certificatePem,
            isInsecure: kubeletInsecure,
            client: nodeClient,
          },
        ),
      },
      signal,
    );
    const admin = issueAdmin(authority, now);
    const { url, serve } = running;
    writeKubeconfig(kubeconfig, authority, url, admin);
    const reach = (shown: KeyPair): ReachedServer => ({
      endpoint: {
        url: new URL(url),
        trust: async () => ({ authorityPem: authority.certificatePem, isInsecure: false }),
      },
      credentials: fixedCredentials({ headers: {}, identity: shown }),
      secretFiles: [kubeconfig],
    });
    const inProcess = (reached: ReachedServer, subject: PeerIdentity['subject']): ReachedServer => ({
      ...reached,
      transport: () => new InProcessTransport(serve, { verified: true, subject }, systemClock),
    });
    return {
      url,
      kubeconfig,
      admin: reach(admin),
      issueNode(nodeName, hosts) {
        const { client, serving } = issueNode(authority, nodeName, hosts, now);
        return {
          cluster: inProcess(reach(client), { CN: `system:node:${nodeName}`, O: 'system:nodes' }),
          serving: {
            certificatePem: serving.certificatePem,
            keyPem: serving.keyPem,
            clientAuthorityPem: authority.certificatePem,
          },
        };
      },
      issueProxy: () =>
        inProcess({ ...reach(admin), credentials: fixedCredentials({ headers: {} }) }, { CN: 'system:kube-proxy' }),
      async close() {
        await running?.close();
        await store.close();
      },
    };
  } catch (error) {
    await running?.close();
    await store.close();
    throw error;
  }
}

/** Also of one that exists already: who changes it may wonder why nothing answers. */
function warning(resource: Resource, problem: () => string | undefined): Resource {
  return {
    ...resource,
    warnings(object) {
      const why = problem();
      const own =
        why === undefined
          ? []
          : [`Services do not answer on this machine: ${why}; reach pods by their addresses or kubectl port-forward`];
      return [...(resource.warnings?.(object) ?? []), ...own];
    },
  };
}

function isUnspecified(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}

/** What an API server of this process says of itself and of its loops. */
export function serverLine(notice: Exclude<ApiNotice, RequestNotice>): LogLine {
  const { kind, error } = notice;
  const loops = kind === 'ControllerFailed' ? logLine(notice) : undefined;
  const where = kind === 'RequestFailed' ? `request ${notice.auditId}: ` : '';
  return loops ?? { level: 'error', kind, message: `API server: ${where}${messageOf(error)}`, error: messageOf(error) };
}
