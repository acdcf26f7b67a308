import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonError, parseJsonBody } from './request-body.ts';

const duplicates = [
  ['{"a":1,"b":2}', []],
  ['{"a":1,"a":2}', ['a']],
  ['{"a":{"b":1,"b":2}}', ['a.b']],
  ['{"a":[{"b":1},{"c":1,"c":2}]}', ['a[1].c']],
  ['{"a":[1,{"b":"}","b":"{"}]}', ['a[1].b']],
  ['{"a":1,"\\u0061":2}', ['a']],
  ['{"a":{"x":1},"b":{"x":1}}', []],
  ['{"a":"a","b":["a","a"]}', []],
] as const;
for (const [text, expected] of duplicates) {
  test(`keys given twice in ${text} are ${JSON.stringify(expected)}`, () => {
    assert.deepEqual(parseJsonBody(text).duplicates, expected);
  });
}

test('what JSON can print is read back, without a key twice', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const parsed = parseJsonBody(JSON.stringify(value));
      assert.deepEqual(parsed.value, JSON.parse(JSON.stringify(value)));
      assert.deepEqual(parsed.duplicates, []);
    }),
  );
});

test('text that is not JSON is refused, and the message does not quote it', () => {
  for (const text of ['', '   ', '{', '{"a":', '{"password":hunter2}', 'nul', '[1,]', '"\u0001"']) {
    assert.throws(
      () => parseJsonBody(text),
      (error) => error instanceof JsonError && !error.message.includes('hunter'),
    );
  }
});

test('JSON that is too deep to be printed again is refused', () => {
  assert.throws(() => parseJsonBody('['.repeat(100_000)), { message: 'exceeded max depth' });
  assert.doesNotThrow(() => parseJsonBody(`${'['.repeat(400)}${']'.repeat(400)}`));
});
