/** Many random histories of workloads; `SEED` chooses others. */
import { test } from 'node:test';
import { checkRandomWorkloads } from '../../testing/worlds/random-workloads.ts';

const seed = Number(process.env['SEED'] ?? 1);

test('five hundred histories of workloads come to what was asked for', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await checkRandomWorkloads(500, seed);
});
