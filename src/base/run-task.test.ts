import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { runTask } from './run-task.ts';

test('a task that fails is reported and run again, later each time, and at once again after it ran well', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const delays: number[] = [];
  const deps = { clock, notify: ({ retryMs }: { readonly retryMs: number }) => void delays.push(retryMs) };
  let runs = 0;
  const running = runTask(
    'work',
    async (signal) => {
      runs += 1;
      if (runs === 12) await clock.sleep(60_000, signal);
      assert.fail(`run ${runs}`);
    },
    deps,
    stop.signal,
  );
  for (let waits = 0; waits < 13; waits += 1) await clock.advance(60_000);
  const doubled = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000];
  assert.deepEqual(delays.slice(0, 13), [...doubled, 100, 200]);
  stop.abort();
  await running;
});

test('a task ends with its body, and with its signal, whatever the body does then', async () => {
  const clock = new FakeClock();
  const deps = { clock, notify: () => assert.fail('reported') };
  await runTask('short', async () => {}, deps, new AbortController().signal);
  const stop = new AbortController();
  const running = runTask('long', (signal) => clock.sleep(1_000, signal), deps, stop.signal);
  stop.abort(new Error('over'));
  await running;
  await runTask('never', () => assert.fail('run'), deps, stop.signal);
});
