/** Many requests with one thing wrong, over everything that is served, and kubectl beside them. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { Garbage } from '../testing/servers/garbage.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import { adminToken, impatientClock, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { http2Client } from '../testing/servers/test-client.ts';
import { kubeconfig } from './identity/certificates.ts';
import { resources } from './resources/resources.ts';

const rounds = 12;
const requestsPerRound = 4_000;

test('whatever is wrong in a request, it breaks nothing for others', { timeout: 3_600_000 }, async (t) => {
  const seed = Number(process.env['GARBAGE_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`GARBAGE_SEED=${seed}`);
  for (let round = 0; round < rounds; round += 1) {
    const server = await startTestApiServer({ store: memoryStore(), deps: { clock: impatientClock } });
    const client = http2Client(server);
    const garbage = new Garbage(client, server, resources);
    await garbage.prepare();
    const choice = fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat());
    await fc.assert(
      fc.asyncProperty(choice, (chosen) => garbage.send(chosen)),
      { numRuns: requestsPerRound, seed: seed + round },
    );
    await garbage.assertListable();
    await kubectlReads(server);
    client.close();
    await server.close();
  }
});

/** A client that is strict about the types of what it reads; not on every machine. The server is in this process. */
async function kubectlReads({ url, authority }: Awaited<ReturnType<typeof startTestApiServer>>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
  const credentials = { token: adminToken };
  const authorityPem = authority.certificatePem;
  const text = kubeconfig({ server: url, authorityPem, cluster: 'test', user: 'admin', credentials });
  writeFileSync(join(directory, 'kubeconfig'), text, { mode: 0o600 });
  const env = { PATH: process.env['PATH'], HOME: directory, KUBECONFIG: join(directory, 'kubeconfig') };
  const run = (line: string): Promise<unknown> => promisify(execFile)('kubectl', line.split(' '), { env });
  const isThere = await run('version --client').then(
    () => true,
    () => false,
  );
  if (isThere) {
    for (const line of [
      'get pods,services,nodes,events,pv,pvc -A',
      'events -A',
      'describe pods -A',
      'describe nodes',
    ]) {
      await assert.doesNotReject(run(line), `kubectl ${line}`);
    }
  }
  rmSync(directory, { recursive: true, force: true });
}
