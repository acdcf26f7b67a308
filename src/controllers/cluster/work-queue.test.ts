import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextTurn } from '../../base/turns.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { WorkQueue } from './work-queue.ts';

test('keys that fail keep no other from being looked at, and are looked at again after a pause', async () => {
  const clock = new FakeClock(0);
  const queue = new WorkQueue('test', { clock, notify: () => {} });
  const stop = new AbortController();
  const looks = new Map<string, number>();
  const running = queue.run(async (key) => {
    looks.set(key, (looks.get(key) ?? 0) + 1);
    if (key !== 'good') throw new Error('never');
  }, stop.signal);
  // More than are looked at in parallel.
  for (let index = 0; index < 40; index += 1) queue.touch(`bad-${index}`);
  queue.touch('good');
  while (!looks.has('good')) await nextTurn();
  assert.equal(looks.get('bad-0'), 1);
  while ((looks.get('bad-0') ?? 0) < 2) await clock.advance(20);
  stop.abort();
  await running;
});
