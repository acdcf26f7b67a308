import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DerError, children, der, readElement, readElements, readObjectId, tags } from './der.ts';

test('DER lengths and numbers survive a walk through them', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 5 }), (parts) => {
      const encoded = parts.map((part) => der.octets(part));
      assert.deepEqual(children(der.sequence(...encoded)), encoded);
    }),
  );
  assert.deepEqual([...der.integer(Uint8Array.of(0, 0, 0x80))], [2, 2, 0, 0x80]);
  assert.deepEqual([...der.integer(Uint8Array.of(0, 0))], [2, 1, 0]);
  assert.deepEqual([...der.objectId('1.2.840.10045.4.3.2')], [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]);
});

test('an object identifier is read as it was written', () => {
  for (const id of ['1.2.840.113549.1.9.14', '2.5.29.17', '1.3.101.112']) {
    assert.equal(readObjectId(readElement(der.objectId(id), tags.objectId).content), id);
  }
  assert.equal(readObjectId(Uint8Array.of(0x88, 0x37, 3)), '2.999.3');
});

test('whatever the bytes are, the reader answers or throws its own error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        const elements = readElements(bytes);
        assert.deepEqual(Buffer.concat(elements.map(({ raw }) => raw)), Buffer.from(bytes));
      } catch (error) {
        assert.ok(error instanceof DerError, String(error));
      }
    }),
  );
  const hostile = [[0x30], [0x30, 0x80], [0x30, 0x05, 1], [0x30, 0x84, 0xff, 0xff, 0xff, 0xff], [0x30, 0x81, 0x01, 0]];
  for (const bytes of hostile) assert.throws(() => readElements(Uint8Array.from(bytes)), DerError);
});
