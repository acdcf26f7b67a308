/** Messages of DNS: what is written can be read, and what nobody should send harms nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  addressRecord,
  codes,
  datagramBytesMax,
  isName,
  isReplyTo,
  nameBytes,
  readAnswers,
  readQuery,
  types,
  writeQuery,
  writeReply,
  type Query,
} from './dns-message.ts';

const label = fc.stringMatching(/^[a-z0-9_-]{1,63}$/);
const name = fc.array(label, { maxLength: 6 }).filter(isName);

function read(message: Buffer): Query {
  const query = readQuery(message);
  assert.ok(query !== undefined && 'name' in query);
  return query;
}

test('a query is read as it was written, in any case of its letters', () => {
  fc.assert(
    fc.property(fc.nat(65_535), name, fc.nat(65_535), (id, labels, type) => {
      const message = writeQuery(id, labels, type);
      const { id: seen, name: asked, type: wanted } = read(message);
      assert.deepEqual([seen, asked, wanted], [id, labels, type]);
    }),
  );
  assert.deepEqual(read(writeQuery(1, ['WeB', 'Default'], types.a)).name, ['web', 'default']);
});

test('an answer has the question as it was asked, and fits: what does not is said to be missing', () => {
  const query = writeQuery(7, ['Web', 'local'], types.a);
  fc.assert(
    fc.property(fc.array(fc.ipV4(), { maxLength: 60 }), (addresses) => {
      const reply = writeReply(
        read(query),
        { code: codes.done, answers: addresses.map(addressRecord) },
        datagramBytesMax,
      );
      assert.ok(reply.length <= datagramBytesMax);
      assert.ok(isReplyTo(reply, query));
      const { data } = readAnswers(reply, types.a);
      assert.deepEqual(
        data.map((bytes) => bytes.join('.')),
        addresses.slice(0, data.length),
      );
      assert.equal((reply.readUInt16BE(2) & 0x0200) !== 0, data.length < addresses.length, 'truncated');
    }),
  );
});

test('bytes that no client should send are refused or ignored, and never read beyond their end', () => {
  const query = writeQuery(7, ['web', 'default', 'svc', 'cluster', 'local'], types.a);
  const broken = fc.tuple(
    fc.nat(query.length),
    fc.array(fc.tuple(fc.nat(query.length - 1), fc.nat(255)), { maxLength: 8 }),
  );
  const bent = broken.map(([length, changes]) => {
    const bytes = Buffer.from(query);
    for (const [at, value] of changes) bytes[at] = value;
    return bytes.subarray(0, length);
  });
  const any = fc.uint8Array({ maxLength: 600 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.oneof(bent, any), any, (message, answer) => {
      const seen = readQuery(message);
      if (seen !== undefined && 'refusal' in seen) assert.equal(seen.refusal.length, 12);
      if (seen !== undefined && 'name' in seen) {
        assert.ok(isName(seen.name) && seen.question.length === nameBytes(seen.name).length + 4);
        assert.ok(writeReply(seen, { code: codes.noName, answers: [], zone: ['cluster', 'local'] }, 512).length <= 512);
      }
      isReplyTo(answer, query);
      assert.ok(readAnswers(answer, types.a).data.every((bytes) => bytes.length <= answer.length));
    }),
    { numRuns: 2_000 },
  );
});

const header = (flags: number, questions: number): Buffer =>
  Buffer.from([0, 9, flags >> 8, flags & 255, 0, questions, 0, 0, 0, 0, 0, 0]);
const question = (...bytes: readonly number[]): Buffer => Buffer.concat([header(0x0100, 1), Buffer.from(bytes)]);
const refused: readonly (readonly [string, Buffer, number])[] = [
  ['two questions', Buffer.concat([header(0, 2), Buffer.from([0, 0, 1, 0, 1])]), codes.malformed],
  ['no question', header(0, 0), codes.malformed],
  ['an update', Buffer.concat([header(5 << 11, 1), Buffer.from([0, 0, 6, 0, 1])]), codes.notImplemented],
  ['a name that points at itself', question(0xc0, 12, 0, 1, 0, 1), codes.malformed],
  ['a label longer than the message', question(63, 65, 0, 1, 0, 1), codes.malformed],
  ['a name without an end', question(1, 65, 1, 65), codes.malformed],
  ['another class', question(1, 65, 0, 0, 1, 0, 3), codes.refused],
];
for (const [what, message, code] of refused) {
  test(`${what} is refused`, () => {
    const seen = readQuery(message);
    assert.ok(seen !== undefined && 'refusal' in seen);
    assert.deepEqual([seen.refusal.readUInt16BE(0), seen.refusal.readUInt8(3) & 15], [9, code]);
  });
}

test('an answer is answered with nothing, so that two servers never talk to each other', () => {
  assert.equal(readQuery(header(0x8000, 1)), undefined);
  assert.equal(readQuery(Buffer.alloc(11)), undefined);
});

test("an answer to another question, or to another's number, is no answer", () => {
  const query = writeQuery(7, ['web'], types.a);
  const reply = (id: number, asked: string): Buffer =>
    writeReply(read(writeQuery(id, [asked], types.a)), { code: 0, answers: [] }, 512);
  assert.deepEqual(
    [reply(7, 'web'), reply(8, 'web'), reply(7, 'wew'), query].map((one) => isReplyTo(one, query)),
    [true, false, false, false],
  );
});
