import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { base64SizeBytes, decodeBase64, encodeBase64 } from './base64.ts';

test('property: the size of base64 is counted without decoding it, line breaks or not', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const text = Buffer.from(bytes).toString('base64');
      const broken = text.replace(/.{76}/g, '$&\r\n');
      assert.equal(base64SizeBytes(text), bytes.length);
      assert.equal(base64SizeBytes(broken), bytes.length);
      assert.deepEqual(decodeBase64(broken), Buffer.from(bytes));
    }),
  );
});

test('encodeBase64 writes text as UTF-8', () => {
  assert.equal(encodeBase64('ü'), 'w7w=');
});
