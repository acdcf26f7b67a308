import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackOff, KeyedBackOff } from './back-off.ts';

test('the delay doubles up to the limit and starts again after a success', () => {
  const backOff = new BackOff({ firstMs: 100, msMax: 700 });
  assert.equal(backOff.lastMs, 0);
  assert.deepEqual(
    [backOff.next(), backOff.next(), backOff.next(), backOff.next(), backOff.next()],
    [100, 200, 400, 700, 700],
  );
  assert.equal(backOff.lastMs, 700);
  backOff.reset();
  assert.equal(backOff.lastMs, 0);
  assert.equal(backOff.next(), 100);
});

test('jitter spreads a delay and never accumulates', () => {
  const backOff = new BackOff({ firstMs: 100, msMax: 1000, jitter: { spread: 1, random: () => 0.5 } });
  assert.deepEqual([backOff.next(), backOff.next(), backOff.next()], [150, 300, 600]);
  assert.equal(backOff.lastMs, 400);
});

test('keys back off on their own', () => {
  const backOff = new KeyedBackOff<string>({ firstMs: 1, msMax: 8 });
  assert.deepEqual([backOff.next('a'), backOff.next('a'), backOff.next('b')], [1, 2, 1]);
  backOff.reset('a');
  assert.deepEqual([backOff.next('a'), backOff.next('b')], [1, 2]);
});
