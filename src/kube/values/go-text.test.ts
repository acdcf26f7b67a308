import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { compareByteOrder, goQuote } from './go-text.ts';

const cases: { text: string; quoted: string }[] = [
  { text: '', quoted: '""' },
  { text: '\u0007\b\f\r\n\t\v', quoted: String.raw`"\a\b\f\r\n\t\v"` },
  { text: '\\', quoted: String.raw`"\\"` },
  { text: `'"`, quoted: String.raw`"'\""` },
  { text: '\u0001\u001F\u007F', quoted: String.raw`"\x01\x1f\x7f"` },
  { text: '\u0080\u00A0\u00AD', quoted: String.raw`"\u0080\u00a0\u00ad"` },
  { text: '☺ é 中文 🌍', quoted: '"☺ é 中文 🌍"' },
  { text: '\u200B\u2028\uFEFF\uE000', quoted: String.raw`"\u200b\u2028\ufeff\ue000"` },
  { text: '\u{E0001}\u{10FFFF}', quoted: String.raw`"\U000e0001\U0010ffff"` },
  { text: '\u3000', quoted: String.raw`"\u3000"` },
  { text: 'e\u0301', quoted: '"e\u0301"' },
  { text: '\uD800x', quoted: '"\uFFFDx"' },
];
for (const { text, quoted } of cases) {
  test(`goQuote writes ${JSON.stringify(text)} as ${quoted}`, () => {
    assert.equal(goQuote(text), quoted);
  });
}

/** Any text of whole characters, with plenty of those that need a look. */
const anyText = fc.string({
  unit: fc.oneof(
    fc.constantFrom('"', '\\', '\n', 'x', '\u007F', '\u00AD'),
    fc
      .integer({ min: 0, max: 0x10ffff })
      .map((point) => (point >= 0xd800 && point < 0xe000 ? 'a' : String.fromCodePoint(point))),
  ),
  maxLength: 8,
});

test('a quoted string is one line, and its quotes and backslashes are all escaped', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const inner = goQuote(text).slice(1, -1);
      // eslint-disable-next-line no-control-regex
      assert.doesNotMatch(inner, /[\u0000-\u001F\u007F]/);
      assert.equal(inner.replace(/\\(x..|u....|U........|.)/gu, '').includes('"'), false);
    }),
  );
});

test('two different well-formed strings are never quoted alike', () => {
  fc.assert(
    fc.property(anyText, anyText, (a, b) => {
      assert.equal(goQuote(a) === goQuote(b), a === b);
    }),
  );
});

test('a character above U+FFFF sorts after U+FFFD, though its UTF-16 units sort before', () => {
  assert.ok(compareByteOrder('\u{10000}', '\uFFFD') > 0);
});

test('compareByteOrder agrees with a comparison of UTF-8 bytes', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'Z', '.', 'é', '\uD7FF', '\uE000', '\uFFFD', '😀', '\u{10FFFF}'),
  });
  fc.assert(
    fc.property(text, text, (a, b) => {
      assert.equal(Math.sign(compareByteOrder(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});
