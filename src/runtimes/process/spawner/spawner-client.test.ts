import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { settle } from '../../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../../testing/machine/temporary-directory.ts';
import { SpawnerClient, endSpawner } from './spawner-client.ts';

test('a spawner that has ended before a busy node came to it is started once more', async (t) => {
  const directory = temporaryDirectory(t);
  const client = new SpawnerClient(directory, { changed: () => {}, lost: assert.fail });
  const opened = client.open();
  while (!existsSync(join(directory, 'spawner.log'))) await settle();
  // The node does something else for longer than a spawner waits for it.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  await opened;
  client.close();
  await endSpawner(directory);
});
