/** A sample of requests with one thing wrong, over everything that is served; `garbage.long.test.ts` sends many more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Garbage } from '../testing/servers/garbage.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import { impatientClock, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { http2Client } from '../testing/servers/test-client.ts';

import { resources } from './resources/resources.ts';

test('one wrong field, parameter or header is refused or harmless, and breaks nothing for others', async () => {
  const server = await startTestApiServer({ store: memoryStore(), deps: { clock: impatientClock } });
  const client = http2Client(server);
  const garbage = new Garbage(client, server, resources);
  const missing = await garbage.prepare();
  assert.ok(missing.length < resources.length / 4, `of too many kinds no object is known: ${missing.join(' ')}`);
  const choice = fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat());
  await fc.assert(
    fc.asyncProperty(choice, (chosen) => garbage.send(chosen)),
    { numRuns: 1_000, seed: 20261119 },
  );
  await garbage.assertListable();
  client.close();
  await server.close();
});
