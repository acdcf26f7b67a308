import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { Alarms } from './alarms.ts';

function start(context: { after(act: () => Promise<void>): void }): {
  alarms: Alarms;
  clock: FakeClock;
  start: number;
} {
  const clock = new FakeClock();
  const alarms = new Alarms(clock);
  const stop = new AbortController();
  const running = alarms.run(stop.signal);
  context.after(async () => {
    stop.abort();
    await running;
  });
  return { alarms, clock, start: clock.now() };
}

test('alarms ring in the order of their times, an earlier one that is set later too', async (t) => {
  const { alarms, clock, start: zero } = start(t);
  const rung: string[] = [];
  const ring = (name: string) => () => void rung.push(`${name} at ${clock.now() - zero}`);
  alarms.after(500, ring('late'));
  await settle();
  alarms.after(100, ring('early'));
  alarms.after(300, ring('cancelled')).cancel();
  await settle();
  await clock.advance(1000);
  await settle();
  assert.deepEqual(rung, ['early at 100', 'late at 500']);
});

test('an alarm for a time that has passed rings at once', async (t) => {
  const { alarms, clock } = start(t);
  let rung = 0;
  alarms.at(clock.now() - 5, () => (rung += 1));
  await settle();
  assert.equal(rung, 1);
});

test('a clock that is set back makes nobody wait longer', async (t) => {
  let setBackMs = 0;
  class Wrong extends FakeClock {
    override now(): number {
      return super.now() - setBackMs;
    }
  }
  const clock = new Wrong();
  const alarms = new Alarms(clock);
  const stop = new AbortController();
  const running = alarms.run(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  const rung: number[] = [];
  for (const ms of [500, 700]) alarms.after(ms, () => void rung.push(ms));
  await settle();
  setBackMs = 3_600_000;
  await clock.advance(700);
  await settle();
  assert.deepEqual(rung, [500, 700]);
});

test('any set of alarms rings at its times, each once, and never one that was called off', async () => {
  const plan = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 50 }), cancel: fc.boolean() }), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(plan, async (wanted) => {
      const clock = new FakeClock(0);
      const alarms = new Alarms(clock);
      const stop = new AbortController();
      const running = alarms.run(stop.signal);
      const rung: number[] = [];
      const set = wanted.map(({ ms }) => alarms.after(ms, () => void rung.push(ms)));
      wanted.forEach(({ cancel }, index) => cancel && set[index]?.cancel());
      await settle(2);
      await clock.advance(60);
      await settle(2);
      stop.abort();
      await running;
      assert.deepEqual(
        rung,
        wanted.flatMap(({ ms, cancel }) => (cancel ? [] : [ms])).sort((a, b) => a - b),
      );
    }),
    { numRuns: 50 },
  );
});

test('whoever ends rings all that are set, each once, and none that was called off', async () => {
  const clock = new FakeClock();
  const alarms = new Alarms(clock);
  const rung: string[] = [];
  alarms.after(10, () => rung.push('first'));
  alarms.after(20, () => rung.push('never')).cancel();
  const last = alarms.after(30, () => rung.push('last'));
  alarms.ringAll();
  last.cancel();
  alarms.ringAll();
  assert.deepEqual(rung, ['first', 'last']);
});
