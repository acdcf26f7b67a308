import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { delimited, numeric, varint } from '../../testing/servers/protobuf-writer.ts';
import { MalformedProtobufError, ProtobufReader, wireTypes } from './protobuf-reader.ts';

function readAll(bytes: Uint8Array): void {
  const reader = new ProtobufReader(bytes);
  while (!reader.done) reader.skip(reader.tag());
}

const malformed = [
  { it: 'a tag that never ends', bytes: [0x80], message: /unexpected end/ },
  { it: 'field number 0', bytes: [0x02, 0x00], message: /illegal tag 2/ },
  { it: 'a field number above 2^29', bytes: [...varint(1n << 33n), 0], message: /illegal tag/ },
  { it: 'wire type 6', bytes: [0x0e], message: /illegal wire type 6/ },
  { it: 'wire type 7', bytes: [0x0f], message: /illegal wire type 7/ },
  { it: 'a length beyond the end', bytes: [0x0a, 0x05, 0x61], message: /length of 5 bytes/ },
  {
    it: 'a length that a Go server would call negative',
    bytes: [0x0a, ...varint(0xffffffffffffffffn)],
    message: /leaves the message/,
  },
  {
    it: 'a length that overflows 32 bits',
    bytes: [0x0a, ...varint(0x100000001n), 0x61],
    message: /leaves the message/,
  },
  {
    it: 'eleven bytes of one number',
    bytes: [0x08, ...Array<number>(10).fill(0xff), 0x01],
    message: /longer than 64 bits/,
  },
  { it: 'a number of 65 bits', bytes: [0x08, ...Array<number>(9).fill(0xff), 0x02], message: /longer than 64 bits/ },
  { it: 'half a fixed64', bytes: [0x09, 1, 2, 3], message: /unexpected end/ },
  { it: 'half a fixed32', bytes: [0x0d, 1, 2, 3], message: /unexpected end/ },
  { it: 'a group without its end', bytes: [0x0b, 0x10, 0x01], message: /unexpected end/ },
  { it: 'the end of a group that never began', bytes: [0x0c], message: /has no start/ },
  { it: 'a group that ends as another', bytes: [0x0b, 0x14], message: /group 1 ends as group 2/ },
  {
    it: 'groups nested a thousand times',
    bytes: [...Array<number>(1000).fill(0x0b), ...Array<number>(1000).fill(0x0c)],
    message: /too deeply/,
  },
];
for (const { it, bytes, message } of malformed) {
  test(`the reader refuses ${it}`, () => {
    assert.throws(
      () => readAll(Uint8Array.from(bytes)),
      (error) => error instanceof MalformedProtobufError && message.test(error.message),
    );
  });
}

test('the reader skips groups, fixed numbers and unknown fields', () => {
  const bytes = Buffer.concat([
    Buffer.from([0x0b, 0x10, 0x01, 0x13, 0x14, 0x0c, 0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x0d, 1, 2, 3, 4]),
    numeric(7, 5),
  ]);
  const reader = new ProtobufReader(bytes);
  for (let index = 0; index < 3; index += 1) reader.skip(reader.tag());
  assert.deepEqual(reader.tag(), { field: 7, wireType: wireTypes.varint });
  assert.equal(reader.integer(), 5);
  assert.ok(reader.done);
});

test('whole numbers keep full precision, negative ones included', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), (value) => {
      const reader = new ProtobufReader(numeric(1, value));
      reader.tag();
      assert.equal(reader.integer(), value);
    }),
  );
});

test('a number that a double cannot hold is refused and not rounded', () => {
  for (const value of [2n ** 53n, -(2n ** 53n), 2n ** 63n - 1n, -(2n ** 63n)]) {
    const reader = new ProtobufReader(numeric(1, value));
    reader.tag();
    assert.throws(() => reader.integer(), new RegExp(`^MalformedProtobufError: ${value} is out of range`));
  }
});

test('a reader of part of a buffer stays within that part', () => {
  const outer = Buffer.concat([delimited(1, 'abc'), Buffer.from('secret')]);
  const reader = new ProtobufReader(outer.subarray(0, 5));
  reader.tag();
  assert.equal(reader.string(), 'abc');
  assert.ok(reader.done);
  assert.throws(() => reader.tag(), MalformedProtobufError);
});

test('random bytes are read or refused, and nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        readAll(bytes);
      } catch (error) {
        assert.ok(error instanceof MalformedProtobufError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});
