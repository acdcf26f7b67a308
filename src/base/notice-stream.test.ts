import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { NoticeStream } from './notice-stream.ts';

test('subscribers are called at once until they unsubscribe', () => {
  const stream = new NoticeStream<string>();
  const seen: string[] = [];
  const unsubscribe = stream.subscribe((notice) => void seen.push(notice));
  stream.emit('one');
  unsubscribe();
  stream.emit('two');
  assert.deepEqual(seen, ['one']);
});

test('every follower reads all notices from its call on, also those that came before the end', async () => {
  const stream = new NoticeStream<number>();
  const stop = new AbortController();
  stream.emit(0);
  const followers = [stream.follow(stop.signal), stream.follow(stop.signal)];
  const reading = followers.map(async (follower) => {
    const seen: number[] = [];
    for await (const notice of follower) seen.push(notice);
    return seen;
  });
  stream.emit(1);
  await Promise.resolve();
  stream.emit(2);
  stop.abort();
  stream.emit(3);
  assert.deepEqual(await Promise.all(reading), [
    [1, 2],
    [1, 2],
  ]);
});

test('a follower that falls behind keeps the newest notices and counts the others', async () => {
  const stream = new NoticeStream<number>();
  const stop = new AbortController();
  const follower = stream.follow(stop.signal, 2);
  for (let notice = 1; notice <= 5; notice += 1) stream.emit(notice);
  stop.abort();
  const seen: number[] = [];
  for await (const notice of follower) seen.push(notice);
  assert.deepEqual(seen, [4, 5]);
  assert.equal(follower.dropped, 3);
});

test('a follower that stops reading leaves nothing behind', async () => {
  const stream = new NoticeStream<number>();
  const { signal } = new AbortController();
  const follower = stream.follow(signal);
  stream.emit(1);
  for await (const notice of follower) {
    assert.equal(notice, 1);
    break;
  }
  stream.emit(2);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  assert.equal(follower.dropped, 0);
});
