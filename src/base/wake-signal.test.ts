import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { settle } from '../testing/fakes/fake-clock.ts';
import { WakeSignal } from './wake-signal.ts';

const { signal } = new AbortController();

test('WakeSignal wakes its sleeper, or the time does', async () => {
  const [wakeSignal, clock] = [new WakeSignal(), new FakeClock()];
  const woken = wakeSignal.sleep(1000, clock, signal);
  wakeSignal.wake();
  assert.equal(await woken, true);
  const timed = wakeSignal.sleep(1000, clock, signal);
  await settle();
  await clock.advance(1000);
  assert.equal(await timed, false);
});

test('a wake-up ends the next sleep, once however often it came', async () => {
  const [wakeSignal, clock] = [new WakeSignal(), new FakeClock()];
  wakeSignal.wake();
  wakeSignal.wake();
  assert.equal(await wakeSignal.sleep(Infinity, clock, signal), true);
  const stop = new AbortController();
  const next = wakeSignal.sleep(Infinity, clock, stop.signal);
  stop.abort();
  assert.equal(await next, false);
  assert.equal(await wakeSignal.sleep(Infinity, clock, stop.signal), false, 'no sleep after the end');
});
