import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore } from './semaphore.ts';

const { signal } = new AbortController();

test('Semaphore admits as many as it has permits, the rest in order', async () => {
  const semaphore = new Semaphore(2);
  const order: string[] = [];
  const first = await semaphore.acquire(signal);
  const second = await semaphore.acquire(signal);
  const third = semaphore.acquire(signal).then((release) => (order.push('third'), release));
  const fourth = semaphore.acquire(signal).then((release) => (order.push('fourth'), release));
  await Promise.resolve();
  assert.deepEqual(order, []);
  second();
  (await third)();
  first();
  (await fourth)();
  assert.deepEqual(order, ['third', 'fourth']);
});

test('Semaphore forgets a waiter that gave up', async () => {
  const semaphore = new Semaphore(1);
  const release = await semaphore.acquire(signal);
  const impatient = new AbortController();
  const gaveUp = assert.rejects(semaphore.acquire(impatient.signal), /enough/);
  const patient = semaphore.acquire(signal);
  impatient.abort(new Error('enough'));
  await gaveUp;
  release();
  (await patient)();
  await assert.rejects(semaphore.acquire(AbortSignal.abort(new Error('late'))), /late/);
});

test('Semaphore counts one release of a permit, however often it is called', async () => {
  const semaphore = new Semaphore(1);
  const release = await semaphore.acquire(signal);
  release();
  release();
  await semaphore.acquire(signal);
  let isAdmitted = false;
  const next = semaphore.acquire(signal).then(() => (isAdmitted = true));
  await Promise.resolve();
  assert.equal(isAdmitted, false);
  assert.ok(next instanceof Promise);
});
