import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { settle } from '../testing/fakes/fake-clock.ts';
import { Timers } from './timers.ts';

function start(context: { after(act: () => Promise<void>): void }): {
  timers: Timers;
  clock: FakeClock;
  start: number;
} {
  const clock = new FakeClock();
  const timers = new Timers(clock);
  const stop = new AbortController();
  const running = timers.run(stop.signal);
  context.after(async () => {
    stop.abort();
    await running;
  });
  return { timers, clock, start: clock.now() };
}

test('timers fire in the order of their times, an earlier one that is set later too', async (t) => {
  const { timers, clock, start: zero } = start(t);
  const fired: string[] = [];
  const fire = (name: string) => () => void fired.push(`${name} at ${clock.now() - zero}`);
  timers.after(500, fire('late'));
  await settle();
  timers.after(100, fire('early'));
  timers.after(300, fire('cancelled')).cancel();
  await settle();
  await clock.advance(1000);
  await settle();
  assert.deepEqual(fired, ['early at 100', 'late at 500']);
});

test('a timer for a time that has passed fires at once', async (t) => {
  const { timers, clock } = start(t);
  let fired = 0;
  timers.at(clock.now() - 5, () => (fired += 1));
  await settle();
  assert.equal(fired, 1);
});

test('a clock that is set back extends no timer', async (t) => {
  let setBackMs = 0;
  class Wrong extends FakeClock {
    override now(): number {
      return super.now() - setBackMs;
    }
  }
  const clock = new Wrong();
  const timers = new Timers(clock);
  const stop = new AbortController();
  const running = timers.run(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  const fired: number[] = [];
  for (const ms of [500, 700]) timers.after(ms, () => void fired.push(ms));
  await settle();
  setBackMs = 3_600_000;
  await clock.advance(700);
  await settle();
  assert.deepEqual(fired, [500, 700]);
});

test('any set of timers fires at its times, each once, and never one that was cancelled', async () => {
  const plan = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 50 }), cancel: fc.boolean() }), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(plan, async (wanted) => {
      const clock = new FakeClock(0);
      const timers = new Timers(clock);
      const stop = new AbortController();
      const running = timers.run(stop.signal);
      const fired: number[] = [];
      const set = wanted.map(({ ms }) => timers.after(ms, () => void fired.push(ms)));
      wanted.forEach(({ cancel }, index) => cancel && set[index]?.cancel());
      await settle(2);
      await clock.advance(60);
      await settle(2);
      stop.abort();
      await running;
      assert.deepEqual(
        fired,
        wanted.flatMap(({ ms, cancel }) => (cancel ? [] : [ms])).sort((a, b) => a - b),
      );
    }),
    { numRuns: 50 },
  );
});

test('fireAll fires all that are set, each once, and none that was cancelled', async () => {
  const clock = new FakeClock();
  const timers = new Timers(clock);
  const fired: string[] = [];
  timers.after(10, () => fired.push('first'));
  timers.after(20, () => fired.push('never')).cancel();
  const last = timers.after(30, () => fired.push('last'));
  timers.fireAll();
  last.cancel();
  timers.fireAll();
  assert.deepEqual(fired, ['first', 'last']);
});
