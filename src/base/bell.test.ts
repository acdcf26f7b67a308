import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { Bell } from './bell.ts';

const { signal } = new AbortController();

test('Bell wakes its sleeper, or the time does', async () => {
  const [bell, clock] = [new Bell(), new FakeClock()];
  const rung = bell.sleep(1000, clock, signal);
  bell.ring();
  assert.equal(await rung, true);
  const timed = bell.sleep(1000, clock, signal);
  await settle();
  await clock.advance(1000);
  assert.equal(await timed, false);
});

test('Bell is heard by who sleeps later, once however often it rang', async () => {
  const [bell, clock] = [new Bell(), new FakeClock()];
  bell.ring();
  bell.ring();
  assert.equal(await bell.sleep(Infinity, clock, signal), true);
  const stop = new AbortController();
  const next = bell.sleep(Infinity, clock, stop.signal);
  stop.abort();
  assert.equal(await next, false);
  assert.equal(await bell.sleep(Infinity, clock, stop.signal), false, 'nobody sleeps after the end');
});
