import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Frame } from './frames.ts';
import {
  FrameReader,
  dataFrame,
  goAwayFrame,
  pingFrame,
  resetFrame,
  synReplyFrame,
  synStreamFrame,
  windowUpdateFrame,
} from './frames.ts';

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const id = fc.integer({ min: 1, max: 0x7fffffff });

const sent: fc.Arbitrary<{ readonly wire: Buffer; readonly frame: Frame | undefined }> = fc.oneof(
  fc.tuple(id, bytes, fc.boolean()).map(([streamId, data, isLast]) => ({
    wire: dataFrame(streamId, data, isLast),
    frame: { kind: 'data' as const, streamId, isLast, bytes: data },
  })),
  fc.tuple(id, bytes).map(([streamId, block]) => ({
    wire: synStreamFrame(streamId, block),
    frame: { kind: 'synStream' as const, streamId, isLast: false, block },
  })),
  fc.tuple(id, bytes).map(([streamId, block]) => ({
    wire: synReplyFrame(streamId, block),
    frame: { kind: 'synReply' as const, streamId, isLast: false, block },
  })),
  fc.tuple(id, id).map(([streamId, code]) => ({
    wire: resetFrame(streamId, code),
    frame: { kind: 'reset' as const, streamId, code },
  })),
  id.map((number) => ({ wire: pingFrame(number), frame: { kind: 'ping' as const, id: number } })),
  id.map((lastStreamId) => ({ wire: goAwayFrame(lastStreamId, 0), frame: { kind: 'goAway' as const, lastStreamId } })),
  id.map((streamId) => ({ wire: windowUpdateFrame(streamId, 5), frame: undefined })),
);

/** Pieces of one data frame as one again. */
function joined(frames: readonly Frame[]): unknown[] {
  const result: { kind: string; data?: Buffer[]; isOpen?: boolean; [key: string]: unknown }[] = [];
  for (const frame of frames) {
    const last = result.at(-1);
    if (frame.kind !== 'data') result.push({ ...frame });
    else if (last?.kind === 'data' && last['streamId'] === frame.streamId && last['isLast'] === false) {
      last.data?.push(frame.bytes);
      last['isLast'] = frame.isLast;
    } else result.push({ kind: 'data', streamId: frame.streamId, isLast: frame.isLast, data: [frame.bytes] });
  }
  return result.map(({ data, ...rest }) => (data === undefined ? rest : { ...rest, bytes: Buffer.concat(data) }));
}

test('frames are read as they were sent, however the bytes are cut', () => {
  fc.assert(
    fc.property(
      fc.array(sent, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (all, cuts) => {
        const wire = Buffer.concat(all.map((one) => one.wire));
        const reader = new FrameReader();
        const read: Frame[] = [];
        for (let at = 0, turn = 0; at < wire.length; turn += 1) {
          const size = cuts[turn % cuts.length] ?? 1;
          read.push(...[...reader.read(wire.subarray(at, at + size))].map(copied));
          at += size;
        }
        const expected = all.flatMap(({ frame }) => (frame === undefined ? [] : [frame]));
        assert.deepEqual(joined(read), joined(expected));
      },
    ),
    { numRuns: 200 },
  );
});

function copied(frame: Frame): Frame {
  return frame.kind === 'data' ? { ...frame, bytes: Buffer.from(frame.bytes) } : frame;
}

test('frames: a data frame of 16 MiB is given in the pieces it came in', () => {
  const reader = new FrameReader();
  const header = dataFrame(1, Buffer.alloc(0), true);
  header.writeUIntBE(0xffffff, 5, 3);
  assert.deepEqual([...reader.read(header)], []);
  const [piece] = [...reader.read(Buffer.alloc(1000))];
  assert.ok(piece?.kind === 'data' && piece.bytes.length === 1000 && !piece.isLast);
});

const wrong: readonly { readonly it: string; readonly wire: Buffer }[] = [
  { it: 'another version', wire: Buffer.from('800200060000000400000001', 'hex') },
  { it: 'a control frame that wants all our memory', wire: Buffer.from('8003000100ffffff', 'hex') },
  { it: 'a ping without a number', wire: Buffer.from('8003000600000000', 'hex') },
  { it: 'a SYN_STREAM that is cut short', wire: Buffer.from('800300010000000400000001', 'hex') },
];
for (const { it, wire } of wrong) {
  test(`frames refuse ${it}`, () => {
    assert.throws(() => [...new FrameReader().read(wire)], { reason: 'SpdyProtocolError' });
  });
}

test('frames of unknown types are passed over', () => {
  const unknown = Buffer.from('8003004200000003aabbcc', 'hex');
  const [frame] = [...new FrameReader().read(Buffer.concat([unknown, pingFrame(7)]))];
  assert.deepEqual(frame, { kind: 'ping', id: 7 });
});
