import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { ChangeFeed } from './change-feed.ts';

test('ChangeFeed tells every listener, from the call on, and a thing that changes twice only once', async () => {
  const feed = new ChangeFeed<string>();
  const stop = new AbortController();
  feed.publish('before', 'before');
  const [one, two] = [feed.changes(stop.signal), feed.changes(stop.signal)];
  feed.publish('a', 'a');
  feed.publish('b', 'b');
  feed.publish('a', 'a');
  for (const listener of [one, two]) {
    const seen: string[] = [];
    for await (const value of listener) if (seen.push(value) === 2) break;
    assert.deepEqual(seen, ['a', 'b']);
  }
});

test('ChangeFeed tells a change that comes while a listener is busy with the one before', async () => {
  const feed = new ChangeFeed<string>();
  const stop = new AbortController();
  const seen: string[] = [];
  feed.publish('unheard', 'unheard');
  const changes = feed.changes(stop.signal);
  feed.publish('a', 'a');
  for await (const value of changes) {
    seen.push(value);
    if (seen.length === 1) feed.publish('a', 'a');
    else stop.abort();
  }
  assert.deepEqual(seen, ['a', 'a']);
});

test('ChangeFeed ends with the signal, also for a listener that waits or never began', async () => {
  const feed = new ChangeFeed<string>();
  const stop = new AbortController();
  const seen: string[] = [];
  const waiting = (async () => {
    for await (const value of feed.changes(stop.signal)) seen.push(value);
  })();
  const idle = feed.changes(stop.signal);
  await Promise.resolve();
  stop.abort();
  feed.publish('late', 'late');
  await waiting;
  for await (const value of idle) seen.push(value);
  for await (const value of feed.changes(AbortSignal.abort())) seen.push(value);
  assert.deepEqual(seen, []);
});

test('ChangeFeed leaves nothing on the signal when its reader goes first', async () => {
  const { signal } = new AbortController();
  const feed = new ChangeFeed<string>();
  const changes = feed.changes(signal);
  feed.publish('a', 'a');
  for await (const change of changes) {
    assert.equal(change, 'a');
    break;
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
