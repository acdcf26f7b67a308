/** The scheduler on a store in memory, through whatever may happen to pods, nodes and itself. */
import { test } from 'node:test';
import { checkPriorities, checkRandomScheduling } from '../../testing/worlds/random-scheduling.ts';

const seed = Number(process.env['SEED'] ?? 1);

test('whatever happens to pods, nodes and the scheduler, no node gives away more than it has, and no pod waits that fits', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await checkRandomScheduling(40, seed);
});

test('of pods that wait together the most important get the room', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await checkPriorities(20, seed);
});
