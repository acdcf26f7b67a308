import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StatusError } from '../model/status.ts';
import { decodeContinue, encodeContinue } from './list-options.ts';

test('a token that was handed out is read back', () => {
  const token = { revision: 17, after: 'shop/web' };
  assert.deepEqual(decodeContinue(encodeContinue(token)), token);
});

test('a token has the form that the API gives it', () => {
  const json: unknown = JSON.parse(Buffer.from(encodeContinue({ revision: 5, after: 'a' }), 'base64url').toString());
  assert.deepEqual(json, { v: 'meta.k8s.io/v1', rv: 5, start: 'a\0' });
});

test('any other text is refused with 400 and nothing else', () => {
  const refused = (text: string): void => {
    try {
      decodeContinue(text);
    } catch (error) {
      assert.ok(error instanceof StatusError);
      assert.equal(error.code, 400);
      assert.match(error.message, /^invalid continue token: continue key is not valid/);
    }
  };
  fc.assert(fc.property(fc.string(), refused));
  fc.assert(fc.property(fc.jsonValue(), (json) => refused(Buffer.from(JSON.stringify(json)).toString('base64url'))));
  for (const start of ['../secrets', 'a//b', '', '/a', 'a/../b', 5, null]) {
    const text = Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: 1, start })).toString('base64url');
    assert.throws(() => decodeContinue(text), StatusError);
  }
});
