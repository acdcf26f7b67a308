/** How a node gets, keeps and renews its certificate, against the real API server. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { makeAuthority, signRequest } from '../../apiserver/identity/certificates.ts';
import { nextTurn } from '../../base/turns.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { NotFoundError } from '../../client/api/api-errors.ts';
import { certificateSigningRequests, withShape } from '../../client/api/resource-reference.ts';
import { runControllers } from '../../controllers/controllers.ts';
import { certificateSigningRequestShape } from '../../kube/kinds/certificate-signing-request.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { nodeResource } from '../../node/own-node.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { nodeIdentity, runningApiServer } from '../../testing/servers/test-api-server.ts';
import { type ServingCertificateNotice, runServingCertificate } from './serving-certificate.ts';

const authority = makeAuthority({ now: Date.now(), days: 3_650 });
const requests = withShape(certificateSigningRequests, certificateSigningRequestShape);
const { signal } = new AbortController();
const loops = ['approving', 'signing'].map((part) => `certificatesigningrequest-${part}-controller`);
const status = {
  addresses: [
    { type: 'Hostname', address: 'here' },
    { type: 'InternalIP', address: '10.0.0.1' },
  ],
};

/** What is shown and said, one after the other. */
class Journal {
  readonly #entries: (X509Certificate | string)[] = [];
  #wake = (): void => {};

  add(entry: X509Certificate | string): void {
    this.#entries.push(entry);
    this.#wake();
  }

  async next(): Promise<X509Certificate | string> {
    for (;;) {
      const entry = this.#entries.shift();
      if (entry !== undefined) return entry;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async certificate(): Promise<X509Certificate> {
    const entry = await this.next();
    assert.ok(entry instanceof X509Certificate, String(entry));
    return entry;
  }
}

interface World {
  readonly admin: ApiClient;
  readonly clock: FakeClock;
  readonly journal: Journal;
  /** Until the test ends, or what it returns is called. */
  readonly start: (client?: Partial<ApiClient>) => () => Promise<void>;
}

async function world(t: TestContext, names: readonly string[] = loops): Promise<World> {
  const clock = new FakeClock(Date.now());
  const server = await runningApiServer(t, memoryStore(), {
    controllers: (host, until) =>
      runControllers(
        {
          ...host,
          loops: new Set(names),
          signer: { sign: (_name, asked, order) => signRequest(authority, asked, { ...order, now: clock.now() }) },
        },
        until,
      ),
  });
  const admin = server.client();
  const created = await admin.create(nodeResource, {}, { metadata: { name: 'here' }, status }, signal);
  const node: Node = { ...created, status };
  const client = server.client({}, nodeIdentity(server, 'here'));
  const rootDirectory = temporaryDirectory(t);
  const journal = new Journal();
  const start: World['start'] = (instead = {}) => {
    const stop = new AbortController();
    const ended = runServingCertificate(
      {
        clock,
        pause: (ms, over) => clock.sleep(ms, over),
        random: () => 0.5,
        client: {
          create: (...given) => (instead.create ?? client.create.bind(client))(...given),
          get: client.get.bind(client),
          list: client.list.bind(client),
          watch: client.watch.bind(client),
        },
        node: { current: () => node, subscribe: () => {} },
        server: { showCertificate: ({ certificatePem }) => journal.add(new X509Certificate(certificatePem)) },
        notify: (notice) => {
          const { kind, why } = notice as ServingCertificateNotice & { why?: string };
          if (why !== undefined) journal.add(why);
          else if (kind !== 'ServingCertificateIssued') journal.add(kind);
        },
      },
      { rootDirectory, nodeName: 'here', clusterAuthorityPem: authority.certificatePem },
      stop.signal,
    );
    const end = async (): Promise<void> => {
      stop.abort();
      await ended;
    };
    t.after(end);
    return end;
  };
  return { admin, clock, journal, start };
}

test('a node gets a certificate for its names, keeps it over a restart, and renews it before it ends', async (t) => {
  const { admin, clock, journal, start } = await world(t);
  const stop = start();
  const first = await journal.certificate();
  assert.equal(first.subject, 'O=system:nodes\nCN=system:node:here');
  assert.equal(first.subjectAltName, 'DNS:here, IP Address:10.0.0.1');
  assert.ok(first.verify(new X509Certificate(authority.certificatePem).publicKey));
  await stop();
  start();
  assert.equal((await journal.certificate()).serialNumber, first.serialNumber);
  assert.equal((await admin.list(requests, {}, signal)).items.length, 1);

  // Four fifths of a year that began five minutes ago. The reminder, ten seconds later, is not reached.
  const renewed = journal.certificate();
  for (let day = 1; day < 292; day += 1) await clock.advance(86_400_000);
  await clock.advance(86_400_000 - 300_000 + 1);
  const second = await renewed;
  assert.notEqual(second.serialNumber, first.serialNumber);
  assert.ok(Date.parse(second.validFrom) < Date.parse(first.validTo));
});

test('a node says once that nobody has approved, or that its request was turned down', async (t) => {
  const { admin, clock, journal, start } = await world(t, ['certificatesigningrequest-signing-controller']);
  start();
  const said: string[] = [];
  void journal.next().then((entry) => said.push(entry.toString()));
  // The reminder waits from the moment at which the request is made.
  while (said.length === 0) {
    await clock.advance(10_000);
    await nextTurn();
  }
  const [, name = ''] = /^nobody has approved .*kubectl certificate approve (csr-\w+)/.exec(said.join('')) ?? [];
  const refusal = { type: 'Denied', status: 'True', message: 'who are you?' };
  const place = { name, subresource: 'approval', type: 'merge' } as const;
  await admin.patch(requests, place, { status: { conditions: [refusal] } }, signal);
  assert.equal(await journal.next(), `the request ${name} was turned down: Denied who are you?`);
});

test('a cluster without a certificates API leaves the node with its own certificate, and it says so', async (t) => {
  const { journal, start } = await world(t);
  start({
    create: () => Promise.reject(new NotFoundError({ message: 'no such page', code: 404, reason: 'NotFound' })),
  });
  assert.equal(await journal.next(), 'the API server signs no certificates');
});
