import assert from 'node:assert/strict';
import { test } from 'node:test';
import { constants, deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { HeaderReader, HeaderWriter, headerDictionary, headerDictionaryId } from './header-blocks.ts';

function adler32(bytes: Buffer): number {
  let [a, b] = [1, 0];
  for (const byte of bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b * 65536 + a;
}

test('the dictionary is the one of SPDY/3', () => {
  assert.equal(headerDictionary.length, 1423);
  assert.equal(adler32(headerDictionary), headerDictionaryId);
});

test('header blocks are read as they were written, one after the other', async () => {
  const headers = fc.dictionary(fc.stringMatching(/^[a-z-]{1,12}$/), fc.string({ maxLength: 50 }), { maxKeys: 6 });
  await fc.assert(
    fc.asyncProperty(fc.array(headers, { minLength: 1, maxLength: 5 }), async (blocks) => {
      const [writer, reader] = [new HeaderWriter(), new HeaderReader()];
      for (const block of blocks) {
        const wanted = new Map(Object.entries(block));
        assert.deepEqual(await reader.read(writer.write(wanted)), wanted);
      }
      reader.close();
    }),
    { numRuns: 50 },
  );
});

test('header blocks that a real compressor made are read', async () => {
  const plain = Buffer.from('\0\0\0\x01\0\0\0\x06Server\0\0\0\x02ok');
  const block = deflateSync(plain, { dictionary: headerDictionary, finishFlush: constants.Z_SYNC_FLUSH });
  const reader = new HeaderReader();
  assert.deepEqual(await reader.read(block), new Map([['server', 'ok']]));
  reader.close();
});

const damaged: readonly { readonly it: string; readonly block: Buffer }[] = [
  { it: 'no zlib stream', block: Buffer.from('nonsense') },
  { it: 'a count without headers', block: compressed(Buffer.from('00000005', 'hex')) },
  { it: 'a length beyond its end', block: compressed(Buffer.from('00000001ffffffff', 'hex')) },
  { it: 'a bomb', block: compressed(Buffer.alloc(10_000_000)) },
];
for (const { it, block } of damaged) {
  test(`header blocks: ${it} is refused`, async () => {
    const reader = new HeaderReader();
    await assert.rejects(reader.read(block), { reason: 'SpdyProtocolError' });
    reader.close();
  });
}

function compressed(plain: Buffer): Buffer {
  return deflateSync(plain, { dictionary: headerDictionary, finishFlush: constants.Z_SYNC_FLUSH });
}
