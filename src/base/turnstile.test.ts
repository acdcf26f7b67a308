import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turnstile } from './turnstile.ts';

const { signal } = new AbortController();

test('Turnstile lets as many in as its limit, the rest in the order they came', async () => {
  const turnstile = new Turnstile(2);
  const order: string[] = [];
  const first = await turnstile.enter(signal);
  const second = await turnstile.enter(signal);
  const third = turnstile.enter(signal).then((leave) => (order.push('third'), leave));
  const fourth = turnstile.enter(signal).then((leave) => (order.push('fourth'), leave));
  await Promise.resolve();
  assert.deepEqual(order, []);
  second();
  (await third)();
  first();
  (await fourth)();
  assert.deepEqual(order, ['third', 'fourth']);
});

test('Turnstile forgets who gave up waiting', async () => {
  const turnstile = new Turnstile(1);
  const leave = await turnstile.enter(signal);
  const impatient = new AbortController();
  const gaveUp = assert.rejects(turnstile.enter(impatient.signal), /enough/);
  const patient = turnstile.enter(signal);
  impatient.abort(new Error('enough'));
  await gaveUp;
  leave();
  (await patient)();
  await assert.rejects(turnstile.enter(AbortSignal.abort(new Error('late'))), /late/);
});

test('Turnstile counts a leaver once, however often it says so', async () => {
  const turnstile = new Turnstile(1);
  const leave = await turnstile.enter(signal);
  leave();
  leave();
  await turnstile.enter(signal);
  let isInside = false;
  const next = turnstile.enter(signal).then(() => (isInside = true));
  await Promise.resolve();
  assert.equal(isInside, false);
  assert.ok(next instanceof Promise);
});
