/** The real API server in this process, over TLS and without a disk, for tests of whatever talks to one. */
import {
  type Authority,
  type KeyPair,
  issueClientCertificate,
  issueServerCertificate,
  makeAuthority,
} from '../../apiserver/identity/certificates.ts';
import { loadSigningKey, makeSigningKeyPem } from '../../apiserver/identity/signing-key.ts';
import { systemRandom } from '../../apiserver/model/random.ts';
import { resources } from '../../apiserver/resources/resources.ts';
import type { NodeConnector } from '../../apiserver/rest/connect.ts';
import { type ApiServer, startApiServer } from '../../apiserver/serving/api-server.ts';
import type { Store } from '../../apiserver/store/store.ts';
import { systemClock } from '../../base/clock.ts';
import { ApiClient, type ApiClientSettings, apiClientDefaults } from '../../client/api/api-client.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import { ConnectionPool, poolDefaults } from '../../client/transport/connection-pool.ts';
import { memoryStore } from './stores.ts';

export interface RunningApiServer extends Pick<ApiServer, 'serve'> {
  readonly url: string;
  readonly authorityPem: string;
  /** A certificate of system:masters. */
  readonly admin: KeyPair;
  /** With these two it can be started again after close(), as the same server. */
  readonly authority: Authority;
  readonly port: number;
  /** A new client, of the admin unless told otherwise; the test closes it. */
  client(settings?: Partial<ApiClientSettings>, identity?: KeyPair): ApiClient;
  /** The server alone: its clients find it away. */
  close(): Promise<void>;
}

interface Test {
  after(act: () => Promise<void>): void;
}

const issuer = 'https://kubernetes.default.svc.cluster.local';

export async function runningApiServer(
  test: Test,
  store: Store = memoryStore(),
  again: Partial<Pick<RunningApiServer, 'authority' | 'port'>> & { readonly nodes?: NodeConnector } = {},
): Promise<RunningApiServer> {
  const now = Date.now();
  const nodes = again.nodes === undefined ? {} : { nodes: again.nodes };
  const authority = again.authority ?? makeAuthority({ now, days: 1 });
  const authorityPem = authority.certificatePem;
  const certificate = issueServerCertificate(authority, { hosts: ['127.0.0.1', 'localhost'], now, days: 1 });
  const admin = issueClientCertificate(authority, { user: 'admin', groups: ['system:masters'], now, days: 1 });
  const server = await startApiServer(
    {
      host: '127.0.0.1',
      port: again.port ?? 0,
      tls: { certificate: certificate.certificatePem, key: certificate.keyPem, clientCa: authorityPem },
      authorityPem,
      advertisedAddress: '127.0.0.1',
      version: testVersion,
      staticTokens: [],
      allowsAnonymous: true,
      authorization: { mode: 'node', roles: [] },
      tokens: { issuer, audiences: [issuer], key: loadSigningKey(makeSigningKeyPem()) },
      stopGraceMs: 1_000,
    },
    { store, resources, clock: systemClock, random: systemRandom, chance: Math.random, notify: () => {}, ...nodes },
    new AbortController().signal,
  );
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

const testVersion = {
  major: '1',
  minor: '34',
  gitVersion: 'v1.34.0',
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '2026-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
  platform: 'linux/amd64',
};

/** The certificate of a node, which may do what nodes may. */
export function nodeIdentity({ authority }: { readonly authority: Authority }, name: string): KeyPair {
  const user = `system:node:${name}`;
  return issueClientCertificate(authority, { user, groups: ['system:nodes'], now: Date.now(), days: 1 });
}
