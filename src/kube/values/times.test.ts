import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseDurationMs, showDuration } from './times.ts';

const cases: readonly (readonly [string, number | undefined])[] = [
  ['1m0s', 60_000],
  ['1m30s', 90_000],
  ['100ms', 100],
  ['1.5h', 5_400_000],
  ['2h45m.5s', 9_900_500],
  ['0', 0],
  ['0s', 0],
  ['-5s', -5_000],
  ['+5s', 5_000],
  ['10us', 0.01],
  ['', undefined],
  ['10', undefined],
  ['s', undefined],
  ['1 m', undefined],
  ['1m\n', undefined],
  ['1d', undefined],
  ['.s', undefined],
];
for (const [text, ms] of cases) {
  test(`the duration ${JSON.stringify(text)} is ${ms ?? 'none'}`, () => assert.equal(parseDurationMs(text), ms));
}

const shown: readonly (readonly [number, string])[] = [
  [0, '0s'],
  [1, '1ms'],
  [1_000, '1s'],
  [1_500, '1.5s'],
  [10_000, '10s'],
  [160_000, '2m40s'],
  [300_000, '5m0s'],
  [3_600_000, '1h0m0s'],
  [-90_000, '-1m30s'],
];
for (const [ms, text] of shown) test(`${ms} ms are shown as ${text}`, () => assert.equal(showDuration(ms), text));

test('what is shown is read as the same', () => {
  fc.assert(fc.property(fc.integer(), (ms) => assert.equal(parseDurationMs(showDuration(ms)), ms)));
});
