import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goDuration, goTime } from './go-time.ts';

for (const [ms, text] of [
  [0, '0s'],
  [500, '500ms'],
  [1000, '1s'],
  [1500, '1.5s'],
  [64_000, '1m4s'],
  [122_000, '2m2s'],
  [3_600_000, '1h0m0s'],
  [-1500, '-1.5s'],
] as const) {
  test(`goDuration writes ${ms} ms as ${text}`, () => assert.equal(goDuration(ms), text));
}

test('goTime leaves out a fraction of zeros', () => {
  assert.equal(goTime(Date.UTC(2026, 7, 20, 18, 59, 46)), '2026-08-20 18:59:46 +0000 UTC');
  assert.equal(goTime(Date.UTC(2026, 7, 20, 18, 59, 40, 500)), '2026-08-20 18:59:40.5 +0000 UTC');
});
