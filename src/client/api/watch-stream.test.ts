import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type WatchEvent, WatchStream, watchLimits } from './watch-stream.ts';

const line = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;

async function read(watch: WatchStream): Promise<{ events: WatchEvent[]; error?: unknown }> {
  const events: WatchEvent[] = [];
  try {
    for await (const event of watch) events.push(event);
    return { events };
  } catch (error) {
    return { events, error };
  }
}

function stream(limits: Partial<typeof watchLimits> = {}): { watch: WatchStream; cancelled: () => boolean } {
  let isCancelled = false;
  const watch = new WatchStream('watch configmaps', { ...watchLimits, ...limits }, () => (isCancelled = true));
  return { watch, cancelled: () => isCancelled };
}

test('however the bytes are cut, the events are the same', async () => {
  const objects = fc.array(fc.record({ text: fc.string({ unit: 'grapheme' }) }, { noNullPrototype: true }), {
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(
      objects,
      fc.array(fc.nat(60), { maxLength: 40 }),
      fc.boolean(),
      async (list, cuts, hasLastNewline) => {
        const text = list.map((object) => line('ADDED', object)).join('');
        let rest = Buffer.from(hasLastNewline ? text : text.trimEnd());
        const { watch } = stream();
        for (const cut of cuts) {
          watch.receive(rest.subarray(0, cut));
          rest = rest.subarray(cut);
        }
        watch.receive(rest);
        watch.complete();
        const { events, error } = await read(watch);
        assert.equal(error, undefined);
        assert.deepEqual(
          events.map(({ object }) => object),
          list,
        );
      },
    ),
  );
});

const ends = [
  { it: 'is cut off in an event', text: '{"type":"ADDED","obj', reason: 'WatchCut' },
  { it: 'has a line that is not JSON', text: 'secret!\n', reason: 'WatchBroken' },
  { it: 'has a line that is not an event', text: '{"type":"ADDED","object":[]}\n', reason: 'WatchBroken' },
  {
    it: 'has an ERROR event',
    text: line('ERROR', { kind: 'Status', code: 410, reason: 'Expired' }),
    reason: 'Expired',
  },
  { it: 'has an ERROR event that is nonsense', text: line('ERROR', { code: [], reason: {} }), reason: 'InternalError' },
];
for (const { it, text, reason } of ends) {
  test(`a watch that ${it} delivers what came before, then an error without the text`, async () => {
    const { watch } = stream();
    watch.receive(Buffer.from(line('ADDED', { n: 1 }) + text));
    watch.complete();
    const { events, error } = await read(watch);
    assert.equal(events.length, 1);
    assert.equal((error as { reason?: string }).reason, reason);
    assert.ok(!(error as Error).message.includes('secret'));
  });
}

test('a reader that falls behind by too many events loses the watch, after those that fit', async () => {
  const { watch, cancelled } = stream({ eventsMax: 3 });
  watch.receive(Buffer.from(line('ADDED', {}).repeat(5)));
  assert.ok(cancelled(), 'the server is told');
  const { events, error } = await read(watch);
  assert.equal(events.length, 3);
  assert.equal((error as { reason?: string }).reason, 'WatchOverflow');
});

test('a reader that falls behind by too many bytes loses the watch', async () => {
  const { watch } = stream({ queuedBytesMax: 100 });
  watch.receive(Buffer.from(line('ADDED', { text: 'x'.repeat(60) }).repeat(2)));
  const { events, error } = await read(watch);
  assert.equal(events.length, 1);
  assert.equal((error as { reason?: string }).reason, 'WatchOverflow');
});

test('an event without end is given up', async () => {
  const { watch, cancelled } = stream({ eventBytesMax: 1000 });
  for (let chunk = 0; chunk < 20; chunk++) watch.receive(Buffer.alloc(100, 'x'));
  assert.ok(cancelled());
  const { error } = await read(watch);
  assert.match((error as Error).message, /an event is too large/);
});

test('leaving the loop cancels the watch, and nothing comes after', async () => {
  const { watch, cancelled } = stream();
  watch.receive(Buffer.from(line('ADDED', { n: 1 }) + line('ADDED', { n: 2 })));
  for await (const event of watch) {
    assert.deepEqual(event.object, { n: 1 });
    break;
  }
  assert.ok(cancelled());
  watch.receive(Buffer.from(line('ADDED', { n: 3 })));
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
});
