import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { settle } from '../testing/fakes/fake-clock.ts';
import { CoalescingQueue, CoalescingTopic } from './coalescing-queue.ts';

async function collect(queue: CoalescingQueue<string>, signal: AbortSignal, taken: string[]): Promise<void> {
  for await (const key of queue.take(signal)) taken.push(key);
}

test('each key comes once, in order, and again when it is added after it was taken', async () => {
  const queue = new CoalescingQueue<string>();
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

test('a queue that is not taken from any more keeps its keys and blocks no caller', async () => {
  const queue = new CoalescingQueue<string>();
  const stop = new AbortController();
  const collecting = collect(queue, stop.signal, []);
  await settle();
  const drained = queue.drained();
  stop.abort();
  await Promise.all([collecting, drained]);
  queue.add('late');
  assert.equal(queue.size, 1);
});

test('of items with one key the newest waits, in the place of the first', async () => {
  const queue = new CoalescingQueue<{ id: string; version: number }>(({ id }) => id);
  queue.add({ id: 'a', version: 1 });
  queue.add({ id: 'b', version: 2 });
  queue.add({ id: 'a', version: 3 });
  const versions: number[] = [];
  for await (const { version } of queue.take(new AbortController().signal)) if (versions.push(version) === 2) break;
  assert.deepEqual(versions, [3, 2]);
});

test('a topic reaches every follower, from the call on, with each key once', async () => {
  const topic = new CoalescingTopic<string>();
  const stop = new AbortController();
  topic.publish('before');
  const [one, two] = [topic.follow(stop.signal), topic.follow(stop.signal)];
  topic.publish('a');
  topic.publish('b');
  topic.publish('a');
  for (const listener of [one, two]) {
    const seen: string[] = [];
    for await (const value of listener) if (seen.push(value) === 2) break;
    assert.deepEqual(seen, ['a', 'b']);
  }
});

test('a topic delivers what is published while a follower is busy with the one before', async () => {
  const topic = new CoalescingTopic<string>();
  const stop = new AbortController();
  const seen: string[] = [];
  topic.publish('unheard');
  const changes = topic.follow(stop.signal);
  topic.publish('a');
  for await (const value of changes) {
    seen.push(value);
    if (seen.length === 1) topic.publish('a');
    else stop.abort();
  }
  assert.deepEqual(seen, ['a', 'a']);
});

test('a topic ends with the signal, also for a follower that waits or never began', async () => {
  const topic = new CoalescingTopic<string>();
  const stop = new AbortController();
  const seen: string[] = [];
  const waiting = (async () => {
    for await (const value of topic.follow(stop.signal)) seen.push(value);
  })();
  const idle = topic.follow(stop.signal);
  await Promise.resolve();
  stop.abort();
  topic.publish('late');
  await waiting;
  for await (const value of idle) seen.push(value);
  for await (const value of topic.follow(AbortSignal.abort())) seen.push(value);
  assert.deepEqual(seen, []);
});

test('a topic leaves nothing on the signal when its follower goes first', async () => {
  const { signal } = new AbortController();
  const topic = new CoalescingTopic<string>();
  const changes = topic.follow(signal);
  topic.publish('a');
  for await (const change of changes) {
    assert.equal(change, 'a');
    break;
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
