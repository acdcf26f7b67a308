import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settle } from '../testing/fakes/fake-clock.ts';
import { KeyedQueue } from './keyed-queue.ts';

async function collect(queue: KeyedQueue<string>, signal: AbortSignal, taken: string[]): Promise<void> {
  for await (const key of queue.take(signal)) taken.push(key);
}

test('each key comes once, in order, and again when it is added after it was taken', async () => {
  const queue = new KeyedQueue<string>();
  const stop = new AbortController();
  const taken: string[] = [];
  for (const key of ['a', 'b', 'a']) queue.add(key);
  const collecting = collect(queue, stop.signal, taken);
  await settle();
  assert.deepEqual(taken, ['a', 'b']);
  queue.add('a');
  await queue.drained();
  assert.deepEqual(taken, ['a', 'b', 'a']);
  stop.abort();
  await collecting;
});

test('a queue that is not taken from any more keeps its keys, and nobody waits for it', async () => {
  const queue = new KeyedQueue<string>();
  const stop = new AbortController();
  const collecting = collect(queue, stop.signal, []);
  await settle();
  const drained = queue.drained();
  stop.abort();
  await Promise.all([collecting, drained]);
  queue.add('late');
  assert.equal(queue.size, 1);
});
