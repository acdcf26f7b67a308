/** Kills and fails an atomic write at each kind of call it makes. The long test does it at every single call. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { checkFault, inPairs } from './fixtures/fault-checks.ts';
import { type CallPoint, callPoints, changingCalls, scenarios, whyNoStrace } from './fixtures/traced-write.ts';

const noStrace = whyNoStrace();

function firstOfEach(points: readonly CallPoint[]): CallPoint[] {
  return points.filter((point) => points.find(({ call }) => call === point.call) === point);
}

for (const [name, scenario] of Object.entries(scenarios)) {
  test(`${name}, killed at each kind of call, leaves all old or all new and never blocks the next`, async (t) => {
    if (noStrace !== undefined) return t.skip(noStrace);
    const base = temporaryDirectory(t);
    const points = (await callPoints(scenario, base)).filter(({ call }) => changingCalls.includes(call));
    assert.ok(points.some(({ call }) => call === 'rename'));
    await inPairs([...firstOfEach(points), ...points.slice(-1)], (point) =>
      checkFault(scenario, base, point, 'signal=KILL'),
    );
  });
}

test('an update with names added and removed, failed at each kind of call, keeps the old content until the swap', async (t) => {
  if (noStrace !== undefined) return t.skip(noStrace);
  const base = temporaryDirectory(t);
  const scenario = scenarios['an update with names added and removed'];
  assert.ok(scenario !== undefined);
  const errors = ['error=ENOSPC', 'error=EIO', 'error=EACCES'];
  const points = firstOfEach(await callPoints(scenario, base)).entries();
  await inPairs([...points], ([index, point]) => checkFault(scenario, base, point, errors[index % 3] ?? ''));
});

test('an unchanged payload makes no call that writes, remembered or not', async (t) => {
  if (noStrace !== undefined) return t.skip(noStrace);
  const base = temporaryDirectory(t);
  const same = { a: '1', 'd/b': '1' };
  for (const warm of [true, false]) {
    const points = await callPoints({ before: same, warm, next: same }, base);
    const writing = points.filter(({ call, text }) => changingCalls.includes(call) && !/^close|O_RDONLY/.test(text));
    assert.deepEqual(writing, []);
    assert.ok(points.some(({ call }) => call === 'statx'));
  }
});
