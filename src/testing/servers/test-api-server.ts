/**
 * The real API server in this process, over TLS, without a disk unless a test brings one. `startTestServer` is for other people's
 * tests, `runningApiServer` for tests of clients, `startTestApiServer` for tests of the server itself.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Authority,
  type KeyPair,
  issueClientCertificate,
  issueServerCertificate,
  kubeconfig,
  makeAuthority,
} from '../../apiserver/identity/certificates.ts';
import { Authorizer } from '../../apiserver/identity/authorization.ts';
import { NodeGraph } from '../../apiserver/identity/node-graph.ts';
import { RoleIndex } from '../../apiserver/identity/role-index.ts';
import { loadSigningKey, makeSigningKeyPem } from '../../apiserver/identity/signing-key.ts';
import type { ApiNotice } from '../../apiserver/model/notices.ts';
import { systemRandom } from '../../apiserver/model/random.ts';
import { resources } from '../../apiserver/resources/resources.ts';
import {
  type ApiServer,
  type ApiServerDeps,
  type ApiServerSettings,
  startApiServer,
} from '../../apiserver/serving/api-server.ts';
import { workerDefaults } from '../../apiserver/serving/large-requests.ts';
import type { Store } from '../../apiserver/store/store.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { ApiClient, type ApiClientSettings, apiClientDefaults } from '../../client/api/api-client.ts';
import { runControllers } from '../../controllers/controllers.ts';
import { ConnectionPool, poolDefaults } from '../../client/transport/connection-pool.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import { MemoryStore, memoryStore } from './stores.ts';

export interface TestServer extends AsyncDisposable {
  readonly url: string;
  /** The path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/** An empty cluster without nodes: `await using server = await startTestServer()`. */
export async function startTestServer(): Promise<TestServer> {
  const server = await startTestApiServer({ store: memoryStore() });
  const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-server-'));
  const file = join(directory, 'kubeconfig');
  const { url } = server;
  const authorityPem = server.authority.certificatePem;
  const credentials = { token: adminToken };
  const text = kubeconfig({ server: url, authorityPem, cluster: 'test', user: 'admin', credentials });
  writeFileSync(file, text, { mode: 0o600 });
  const close = async (): Promise<void> => {
    rmSync(directory, { recursive: true, force: true });
    await server.close();
  };
  return { url, kubeconfig: file, close, [Symbol.asyncDispose]: close };
}

export const adminToken = 'admin-token';

/** Of a server whose users may do anything. */
export const openAuthorizer = new Authorizer(
  { relations: new NodeGraph(), roles: new RoleIndex() },
  { mode: 'alwaysAllow' },
);

/** The system's clock, but waiting for a version that may still come is over at once. */
export const impatientClock: Clock = {
  now: () => systemClock.now(),
  sleep: (ms, signal) => (ms === 3000 ? Promise.resolve() : systemClock.sleep(ms, signal)),
};

export interface TestApiServer extends ApiServer {
  readonly store: Store;
  readonly authority: Authority;
  readonly notices: readonly ApiNotice[];
}

interface Choices {
  readonly store?: Store;
  readonly authority?: Authority;
  readonly settings?: Partial<ApiServerSettings>;
  readonly deps?: Partial<ApiServerDeps>;
}

export async function startTestApiServer({
  store = new MemoryStore(),
  authority = newAuthority(),
  settings,
  deps,
}: Choices = {}): Promise<TestApiServer> {
  const hosts = ['localhost', '127.0.0.1'];
  const server = issueServerCertificate(authority, { hosts, now: Date.now(), days: 1 });
  const notices: ApiNotice[] = [];
  const started = await startApiServer(
    {
      host: '127.0.0.1',
      port: 0,
      tls: { certificate: server.certificatePem, key: server.keyPem, clientCa: authority.certificatePem },
      authorityPem: authority.certificatePem,
      advertisedAddress: '10.0.0.1',
      version: versionOf('32'),
      staticTokens: [{ token: adminToken, user: { name: 'admin', uid: '1', groups: ['system:masters'] } }],
      allowsAnonymous: true,
      authorization: { mode: 'rbac' },
      tokens: {
        issuer: 'https://kubernetes.default.svc',
        audiences: ['https://kubernetes.default.svc'],
        key: loadSigningKey(makeSigningKeyPem()),
      },
      stopGraceMs: 2000,
      largeRequests: { ...workerDefaults, workMsMax: 120_000 },
      ...settings,
    },
    {
      store,
      resources,
      clock: systemClock,
      random: systemRandom,
      chance: Math.random,
      notify: (notice) => void notices.push(notice),
      controllers: runControllers,
      ...deps,
    },
    new AbortController().signal,
  );
  return { ...started, store, authority, notices };
}

export interface RunningApiServer extends Pick<ApiServer, 'serve'> {
  readonly url: string;
  readonly authorityPem: string;
  /** A certificate of system:masters. */
  readonly admin: KeyPair;
  /** With these two it can be started again after close(), as the same server. */
  readonly authority: Authority;
  readonly port: number;
  /** A new client, as the administrator by default; the test closes it. */
  client(settings?: Partial<ApiClientSettings>, identity?: KeyPair): ApiClient;
  /** The server alone: its clients find it away. */
  close(): Promise<void>;
}

interface Test {
  after(act: () => Promise<void>): void;
}

/** `again` starts a server that was closed once more, with the same authority and port. */
export async function runningApiServer(
  test: Test,
  store: Store = memoryStore(),
  again: Partial<Pick<RunningApiServer, 'authority' | 'port'>> & Pick<ApiServerDeps, 'nodes' | 'controllers'> = {},
): Promise<RunningApiServer> {
  const { authority = newAuthority(), port = 0, nodes, controllers } = again;
  const authorityPem = authority.certificatePem;
  const who = { user: 'admin', groups: ['system:masters'] };
  const admin = issueClientCertificate(authority, { ...who, now: Date.now(), days: 1 });
  const server = await startTestApiServer({
    store,
    authority,
    settings: {
      port,
      advertisedAddress: '127.0.0.1',
      version: versionOf('34'),
      staticTokens: [],
      stopGraceMs: 1_000,
    },
    deps: { ...(nodes && { nodes }), ...(controllers && { controllers }) },
  });
  const clients: ApiClient[] = [];
  test.after(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await server.close();
  });
  return {
    url: server.url,
    serve: server.serve,
    authorityPem,
    admin,
    authority,
    port: server.address.port,
    client(settings = {}, identity = admin) {
      const trust = (): Promise<{ authorityPem: string; isInsecure: false }> =>
        Promise.resolve({ authorityPem, isInsecure: false });
      const transport = new ConnectionPool({ url: new URL(server.url), trust }, systemClock, poolDefaults);
      const credentials = fixedCredentials({ headers: {}, identity });
      const client = new ApiClient(
        { transport, credentials, clock: systemClock },
        { ...apiClientDefaults, ...settings },
      );
      clients.push(client);
      return client;
    },
    close: () => server.close(),
  };
}

/** The certificate of a node, which may do what nodes may. */
export function nodeIdentity({ authority }: { readonly authority: Authority }, name: string): KeyPair {
  const user = `system:node:${name}`;
  return issueClientCertificate(authority, { user, groups: ['system:nodes'], now: Date.now(), days: 1 });
}

function newAuthority(): Authority {
  return makeAuthority({ now: Date.now(), days: 1 });
}

function versionOf(minor: string): ApiServerSettings['version'] {
  return { major: '1', minor, gitVersion: `v1.${minor}.0+mountlet`, platform: 'linux/amd64' };
}
