import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { warningsOf } from '../testing/fakes/fake-clock.ts';
import { systemClock } from './clock.ts';
import { Semaphore } from './semaphore.ts';
import { unlessAborted, untilAborted } from './abort.ts';

const waits: readonly { readonly who: string; readonly wait: (signal: AbortSignal) => Promise<unknown> }[] = [
  { who: 'a clock', wait: (signal) => systemClock.sleep(60_000, signal) },
  { who: 'background work', wait: (signal) => untilAborted(signal) },
];
for (const { who, wait } of waits) {
  test(`a hundred may wait for ${who} with one signal: nothing is taken for a leak, and none is left behind`, async () => {
    const stop = new AbortController();
    const warnings = await warningsOf(async () => {
      const waiting = Array.from({ length: 100 }, () => wait(stop.signal).catch(() => {}));
      stop.abort();
      await Promise.all(waiting);
    });
    assert.deepEqual(warnings, []);
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
  });
}

test('who waits for the work of another leaves with its own signal, and leaves nothing behind', async () => {
  const stop = new AbortController();
  assert.equal(await unlessAborted(Promise.resolve(1), stop.signal), 1);
  await assert.rejects(unlessAborted(Promise.reject(new Error('failed')), stop.signal), { message: 'failed' });
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
  const waiting = unlessAborted(new Promise(() => {}), stop.signal);
  stop.abort(new Error('gone'));
  await assert.rejects(waiting, { message: 'gone' });
  await assert.rejects(unlessAborted(Promise.resolve(1), stop.signal), { message: 'gone' });
});

test('a hundred may wait for a semaphore with one signal, and none is left behind', async () => {
  const { signal } = new AbortController();
  const semaphore = new Semaphore(1);
  const warnings = await warningsOf(() =>
    Promise.all(Array.from({ length: 100 }, async () => (await semaphore.acquire(signal))())),
  );
  assert.deepEqual(warnings, []);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
