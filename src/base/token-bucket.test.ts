import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, ObservedClock } from '../testing/fakes/fake-clock.ts';
import { TokenBucket } from './token-bucket.ts';

const { signal } = new AbortController();

test('a burst goes at once, the rest at the rate, and what is saved has a limit', async () => {
  const clock = new ObservedClock();
  const bucket = new TokenBucket(clock, { perSecond: 10, burst: 3 });
  for (let round = 0; round < 2; round++) {
    await Promise.all([bucket.take(signal), bucket.take(signal), bucket.take(signal)]);
    const waiting = [bucket.take(signal), bucket.take(signal)];
    assert.deepEqual([await clock.nextSleep(), await clock.nextSleep()], [100, 200]);
    await clock.advance(200);
    await Promise.all(waiting);
    await clock.advance(3_600_000);
  }
});

test('those who gave up cost nothing to who comes later', async () => {
  const clock = new ObservedClock();
  const bucket = new TokenBucket(clock, { perSecond: 10, burst: 1 });
  await bucket.take(signal);
  const stop = new AbortController();
  const gone = Array.from({ length: 1_000 }, () => assert.rejects(bucket.take(stop.signal), { message: 'enough' }));
  for (let wait = 100; wait <= 100_000; wait += 100) assert.equal(Math.round(await clock.nextSleep()), wait);
  stop.abort(new Error('enough'));
  await Promise.all(gone);
  const next = bucket.take(signal);
  assert.equal(await clock.nextSleep(), 100);
  await clock.advance(100);
  await next;
});

test('a clock that is set back earns nothing and costs nothing', async () => {
  const clock = new (class extends FakeClock {
    backMs = 0;
    override now(): number {
      return super.now() - this.backMs;
    }
  })();
  const bucket = new TokenBucket(clock, { perSecond: 10, burst: 2 });
  await bucket.take(signal);
  clock.backMs = 3_600_000;
  await bucket.take(signal);
  const third = bucket.take(signal);
  await clock.advance(100);
  await third;
});

test('without a limit there is no wait, but an aborted signal is honoured', async () => {
  const bucket = new TokenBucket(new FakeClock(), { perSecond: Infinity, burst: 1 });
  await Promise.all(Array.from({ length: 1_000 }, () => bucket.take(signal)));
  await assert.rejects(bucket.take(AbortSignal.abort(new Error('enough'))), { message: 'enough' });
});

test('who would rather go without gets what was saved and no more, and a token again when its time is over', async () => {
  const clock = new FakeClock();
  const bucket = new TokenBucket(clock, { perSecond: 1 / 300, burst: 2 });
  assert.deepEqual([bucket.tryTake(), bucket.tryTake(), bucket.tryTake()], [true, true, false]);
  await clock.advance(299_999);
  assert.equal(bucket.tryTake(), false);
  await clock.advance(1);
  assert.deepEqual([bucket.tryTake(), bucket.tryTake()], [true, false]);
  assert.equal(new TokenBucket(clock, { perSecond: Infinity, burst: 0 }).tryTake(), true);
});
