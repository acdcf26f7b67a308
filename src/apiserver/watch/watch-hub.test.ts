import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { memoryStore, openStore, put, remove } from '../../testing/servers/stores.ts';
import { storeDefaults } from '../store/durable-store.ts';
import { CompactedError } from '../store/store-errors.ts';
import { type ChangeFilter, type EventForm, everything, jsonEvents, selecting } from './watch-event.ts';
import { WatchHub, type WatchRequest } from './watch-hub.ts';
import { type WatchEnd, type WatchSink, watcherDefaults } from './watcher.ts';

const maps = '/registry/core/configmaps/';
const json = jsonEvents({ apiVersion: 'v1', kind: 'ConfigMap' });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const request = (more: Partial<WatchRequest> = {}): WatchRequest => ({
  prefix: maps,
  after: 0,
  form: json,
  wantsBookmarks: false,
  ...more,
});

/** Collects events, and is full when the test says so. */
class TestSink implements WatchSink {
  readonly chunks: Uint8Array[] = [];
  isFull = false;
  ended: WatchEnd | undefined;

  write(bytes: Uint8Array): boolean {
    this.chunks.push(bytes);
    return !this.isFull;
  }

  end(reason: WatchEnd): void {
    this.ended = reason;
  }

  /** `ADDED 1` for each event. */
  get events(): string[] {
    return Buffer.concat(this.chunks)
      .toString('utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => {
        const { type, object } = JSON.parse(line) as {
          type: string;
          object: { metadata: { resourceVersion: string } };
        };
        return `${type} ${object.metadata.resourceVersion}`;
      });
  }
}

test('an event is one line of JSON around the object as it is stored', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const sink = new TestSink();
  hub.watch(request(), sink);
  const { value } = await put(store, `${maps}a/x`, 'line\nbreak');
  assert.equal(Buffer.concat(sink.chunks).toString('utf8'), `{"type":"ADDED","object":${value}}\n`);
});

test('a watch from a revision replays what came after it, then goes on live', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  for (const text of ['1', '2', '3']) await put(store, `${maps}a/x`, text);
  const sink = new TestSink();
  hub.watch(request({ after: 1 }), sink);
  assert.deepEqual(sink.events, ['MODIFIED 2', 'MODIFIED 3']);
  await remove(store, `${maps}a/x`);
  await put(store, `${maps}a/x`, '5');
  assert.deepEqual(sink.events, ['MODIFIED 2', 'MODIFIED 3', 'DELETED 4', 'ADDED 5']);
});

test('a watch from before the log is refused; one from the future waits for its revision', async (t) => {
  const limits = { ...storeDefaults, changesMin: 1, changesMax: 2 };
  const store = await openStore(temporaryDirectory(t), { limits });
  const hub = new WatchHub(store, watcherDefaults);
  const future = new TestSink();
  hub.watch(request({ after: 4 }), future);
  for (const text of ['1', '2', '3', '4', '5']) await put(store, `${maps}a/x`, text);
  assert.throws(() => hub.watch(request({ after: 1 }), new TestSink()), CompactedError);
  assert.deepEqual(future.events, ['MODIFIED 5']);
  hub.close();
  await store.close();
});

test('entering a filter is ADDED, leaving it DELETED with the last state and the revision of now', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const sink = new TestSink();
  const filter = selecting((object) => JSON.stringify(object).includes('yes'));
  hub.watch(request({ filter }), sink);
  for (const text of ['no', 'yes one', 'yes two', 'no', 'no', 'yes']) await put(store, `${maps}a/x`, text);
  await remove(store, `${maps}a/x`);
  await put(store, `${maps}a/y`, 'no');
  await remove(store, `${maps}a/y`);
  assert.deepEqual(sink.events, ['ADDED 2', 'MODIFIED 3', 'DELETED 4', 'ADDED 6', 'DELETED 7']);
  assert.match(
    Buffer.concat(sink.chunks).toString('utf8'),
    /"DELETED","object":\{"metadata":\{"resourceVersion":"4"\},"data":\{"text":"yes two"\}\}/,
  );
});

test('a large object that changes several times is parsed once for each change, and not again as the one before', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const seen: { readonly current: unknown; readonly previous: unknown }[] = [];
  const filter: ChangeFilter = (watched) => {
    seen.push({ current: watched.current, previous: watched.previous });
    return everything(watched);
  };
  hub.watch(request({ filter }), new TestSink());
  for (const text of ['1', '2', '3']) {
    await put(store, `${maps}a/x`, text.repeat(100_000));
    await put(store, `${maps}a/small`, text);
  }
  const large = seen.filter((_, index) => index % 2 === 0);
  assert.deepEqual([large[0]?.previous, large.length], [undefined, 3]);
  // The very same object.
  for (const [index, { current }] of large.slice(0, 2).entries()) assert.equal(large[index + 1]?.previous, current);
  assert.deepEqual(seen[3]?.previous, seen[1]?.current);
});

test('a watch of one object gets events of that object alone, also when others begin with its name', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  await put(store, `${maps}a/web`, '1');
  await put(store, `${maps}a/web-2`, '2');
  const sink = new TestSink();
  hub.watch(request({ prefix: `${maps}a/web` }), sink);
  await put(store, `${maps}a/web-2`, '3');
  await put(store, `${maps}a/web`, '4');
  await put(store, '/registry/core/pods/a/web', '5');
  assert.deepEqual(sink.events, ['ADDED 1', 'MODIFIED 4']);
});

test('however many watch, a change is parsed and printed once, and all get the same bytes', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  let printed = 0;
  let selected = 0;
  const counting: EventForm = { ...json, event: (...event) => ((printed += 1), json.event(...event)) };
  const filter: ChangeFilter = (watched) => ((selected += 1), everything(watched));
  const sinks = Array.from({ length: 100 }, () => new TestSink());
  for (const sink of sinks) hub.watch(request({ form: counting, filter }), sink);
  await Promise.all([put(store, `${maps}a/x`, '1'), put(store, `${maps}a/y`, '2')]);
  assert.deepEqual([printed, selected], [2, 2]);
  assert.equal(sinks[0]?.chunks.length, 1, 'one commit is one write');
  for (const sink of sinks) assert.equal(sink.chunks[0], sinks[0]?.chunks[0]);
  const late = Array.from({ length: 100 }, () => new TestSink());
  for (const sink of late) hub.watch(request({ form: counting, filter }), sink);
  assert.equal(printed, 2, 'also of those who come back later');
  assert.deepEqual(late[99]?.events, ['ADDED 1', 'ADDED 2']);
});

test('a slow watcher is cut off at its bound; the others and the writers do not notice', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, { queuedEventsMax: 10, queuedBytesMax: 1_000_000 });
  const [slow, large, quick] = [new TestSink(), new TestSink(), new TestSink()];
  slow.isFull = true;
  large.isFull = true;
  hub.watch(request(), slow);
  hub.watch(request({ prefix: `${maps}b/` }), large);
  hub.watch(request(), quick);
  await put(store, `${maps}b/x`, 'fills the sink');
  for (let i = 0; i < 10; i += 1) await put(store, `${maps}a/x`, String(i));
  assert.equal(slow.ended, undefined);
  await put(store, `${maps}a/x`, 'one too many');
  assert.equal(slow.ended, 'slow');
  assert.deepEqual(slow.events, ['ADDED 1'], 'what it has is whole, so it can come back from there');
  await put(store, `${maps}b/x`, 'b'.repeat(600_000));
  assert.equal(large.ended, undefined);
  await put(store, `${maps}b/x`, 'b'.repeat(600_000));
  assert.equal(large.ended, 'slow');
  assert.equal(quick.events.length, 14);
  assert.equal(hub.size, 1);
});

test('a watcher that was full goes on where it stopped', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const sink = new TestSink();
  sink.isFull = true;
  const watcher = hub.watch(request(), sink);
  for (let i = 1; i <= 5; i += 1) await put(store, `${maps}a/x`, String(i));
  assert.deepEqual(sink.events, ['ADDED 1']);
  watcher.resume();
  assert.deepEqual(sink.events, ['ADDED 1', 'MODIFIED 2'], 'full again after one more');
  sink.isFull = false;
  watcher.resume();
  await put(store, `${maps}a/x`, '6');
  assert.deepEqual(sink.events, ['ADDED 1', 'MODIFIED 2', 'MODIFIED 3', 'MODIFIED 4', 'MODIFIED 5', 'MODIFIED 6']);
});

test('a sink that throws ends its own watch only', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const [broken, whole] = [new TestSink(), new TestSink()];
  broken.write = () => {
    throw new Error('the stream is gone');
  };
  hub.watch(request(), broken);
  hub.watch(request(), whole);
  await put(store, `${maps}a/x`, '1');
  assert.equal(broken.ended, 'failed');
  assert.deepEqual(whole.events, ['ADDED 1']);
});

test('a stopped watch gets nothing more, and closing the hub ends the rest', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const [stopped, other] = [new TestSink(), new TestSink()];
  const watcher = hub.watch(request(), stopped);
  hub.watch(request(), other);
  await put(store, `${maps}a/x`, '1');
  watcher.stop();
  await put(store, `${maps}a/x`, '2');
  hub.close();
  await put(store, `${maps}a/x`, '3');
  assert.deepEqual([stopped.events, stopped.ended], [['ADDED 1'], undefined]);
  assert.deepEqual([other.events, other.ended], [['ADDED 1', 'MODIFIED 2'], 'closed']);
  assert.equal(hub.size, 0);
});

test('bookmarks give idle watchers that want them the current revision, at each interval', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  const clock = new FakeClock();
  const stop = new AbortController();
  const running = hub.runBookmarks(clock, 60_000, stop.signal);
  const [idle, unwilling, full] = [new TestSink(), new TestSink(), new TestSink()];
  full.isFull = true;
  hub.watch(request({ wantsBookmarks: true, prefix: '/registry/core/pods/' }), idle);
  hub.watch(request(), unwilling);
  hub.watch(request({ wantsBookmarks: true }), full);
  await put(store, `${maps}a/x`, '1');
  await put(store, `${maps}a/x`, '2');
  await clock.advance(60_000);
  assert.deepEqual(idle.events, ['BOOKMARK 2']);
  assert.match(
    Buffer.concat(idle.chunks).toString('utf8'),
    /"kind":"ConfigMap","apiVersion":"v1","metadata":\{"resourceVersion":"2","creationTimestamp":null\}/,
  );
  assert.deepEqual(unwilling.events, ['ADDED 1', 'MODIFIED 2']);
  assert.deepEqual(full.events, ['ADDED 1']);
  await clock.advance(60_000);
  assert.deepEqual(idle.events, ['BOOKMARK 2', 'BOOKMARK 2']);
  stop.abort();
  await running;
});

test('the initial state comes first, as the sink takes it, and what happens meanwhile after it', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  await put(store, `${maps}a/x`, '1');
  let drawn = 0;
  function* initial(): Generator<Uint8Array> {
    for (const number of [101, 102, 103]) {
      drawn += 1;
      yield json.bookmark(number);
    }
  }
  const sink = new TestSink();
  sink.isFull = true;
  const watcher = hub.watch(request({ after: 1, initial: initial() }), sink);
  await put(store, `${maps}a/x`, '2');
  assert.equal(drawn, 1);
  sink.isFull = false;
  watcher.resume();
  assert.deepEqual(sink.events, ['BOOKMARK 101', 'BOOKMARK 102', 'BOOKMARK 103', 'MODIFIED 2']);
});

test('a long replay is spread over turns of the event loop', async () => {
  const store = memoryStore();
  const hub = new WatchHub(store, watcherDefaults);
  for (let i = 0; i < 40; i += 1) await put(store, `${maps}a/x`, 'x'.repeat(50_000));
  const sink = new TestSink();
  hub.watch(request(), sink);
  const atOnce = sink.events.length;
  assert.ok(atOnce > 0 && atOnce < 40, String(atOnce));
  await put(store, `${maps}a/x`, 'live');
  for (let i = 0; i < 20; i += 1) await turn();
  assert.equal(sink.events.length, 41);
  assert.equal(sink.events.at(-1), 'MODIFIED 41');
});

const keys = ['a/1', 'a/2', 'b/1'].map((name) => maps + name);
const selections = [everything, selecting((object) => JSON.stringify(object).includes('yes'))];
const step = fc.oneof(
  fc.record({ do: fc.constant('put' as const), key: fc.constantFrom(...keys), text: fc.constantFrom('yes', 'no') }),
  fc.record({ do: fc.constant('remove' as const), key: fc.constantFrom(...keys) }),
  fc.record({
    do: fc.constant('watch' as const),
    prefix: fc.constantFrom(maps, `${maps}a/`, `${maps}a/1`),
    back: fc.integer({ min: -2, max: 6 }),
    filter: fc.constantFrom(...selections),
    isFull: fc.boolean(),
  }),
  fc.record({ do: fc.constant('turn' as const) }),
  fc.record({ do: fc.constant('settle' as const) }),
  fc.record({ do: fc.constant('resume' as const), which: fc.nat(5), isFull: fc.boolean() }),
  fc.record({ do: fc.constant('stop' as const), which: fc.nat(5) }),
);

test('in any order of writes, watches, full sinks and stops each watcher gets its changes once, in order, without a gap', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const store = memoryStore();
      const hub = new WatchHub(store, { queuedEventsMax: 8, queuedBytesMax: 1e6 });
      const watches: {
        sink: TestSink;
        of: WatchRequest;
        watcher: ReturnType<WatchHub['watch']>;
        isStopped: boolean;
      }[] = [];
      const writes: Promise<unknown>[] = [];
      for (const next of steps) {
        const watch = 'which' in next ? watches[next.which % Math.max(1, watches.length)] : undefined;
        if (next.do === 'put') writes.push(put(store, next.key, next.text));
        else if (next.do === 'remove') writes.push(remove(store, next.key));
        else if (next.do === 'turn') await turn();
        else if (next.do === 'settle') await Promise.all(writes);
        else if (next.do === 'watch') {
          const of = request({
            prefix: next.prefix,
            after: Math.max(0, store.revision - next.back),
            filter: next.filter,
          });
          const sink = new TestSink();
          sink.isFull = next.isFull;
          watches.push({ sink, of, watcher: hub.watch(of, sink), isStopped: false });
        } else if (watch !== undefined && next.do === 'stop') {
          watch.watcher.stop();
          watch.isStopped = true;
        } else if (watch !== undefined && next.do === 'resume') {
          watch.sink.isFull = next.isFull;
          watch.watcher.resume();
        }
      }
      await Promise.all(writes);
      for (const { sink, watcher } of watches) {
        sink.isFull = false;
        watcher.resume();
      }
      for (const { sink, of, isStopped } of watches) {
        const reference = new TestSink();
        new WatchHub(store, watcherDefaults).watch(of, reference);
        const expected = expectedEvents(store.changesAfter(of.after, '/'), of);
        assert.deepEqual(reference.events, expected);
        if (isStopped || sink.ended === 'slow') assert.deepEqual(sink.events, expected.slice(0, sink.events.length));
        else assert.deepEqual(sink.events, expected);
      }
    }),
    { numRuns: 300 },
  );
});

/** Once more, and simply: what a watcher should get of these changes. */
function expectedEvents(
  changes: ReturnType<ReturnType<typeof memoryStore>['changesAfter']>,
  of: WatchRequest,
): string[] {
  const wants = (value: string | undefined): boolean =>
    value !== undefined && (of.filter === everything || value.includes('yes'));
  return changes
    .filter(({ key }) => (of.prefix.endsWith('/') ? key.startsWith(of.prefix) : key === of.prefix))
    .flatMap(({ type, value, previous, revision }) => {
      const [was, is] = [wants(previous), type === 'put' && wants(value)];
      if (is) return [`${was ? 'MODIFIED' : 'ADDED'} ${revision}`];
      return was ? [`DELETED ${revision}`] : [];
    });
}

test('a watch that begins while a commit is being published gets it once', async () => {
  const store = memoryStore();
  const sinks: TestSink[] = [];
  let hub: WatchHub | undefined;
  const begin = (): void => {
    const sink = new TestSink();
    sinks.push(sink);
    hub?.watch(request(), sink);
  };
  store.subscribe(begin);
  hub = new WatchHub(store, watcherDefaults);
  store.subscribe(begin);
  await Promise.all([put(store, `${maps}a/x`, '1'), put(store, `${maps}a/x`, '2')]);
  assert.deepEqual(
    sinks.map(({ events }) => events),
    [
      ['ADDED 1', 'MODIFIED 2'],
      ['ADDED 1', 'MODIFIED 2'],
    ],
  );
});
