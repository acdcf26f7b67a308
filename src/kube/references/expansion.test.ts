import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { MissingVariablesError, expand, expandSubPath } from './environment.ts';

const variables = new Map([
  ['VAR_A', 'A'],
  ['VAR_B', 'B'],
  ['VAR_C', 'C'],
  ['VAR_REF', '$(VAR_A)'],
  ['VAR_EMPTY', ''],
]);

const cases: [it: string, input: string, expanded: string][] = [
  ['a whole string', '$(VAR_A)', 'A'],
  ['a repeated reference', '$(VAR_A)-$(VAR_A)', 'A-A'],
  ['a reference at the beginning', '$(VAR_A)-1', 'A-1'],
  ['a reference in the middle', '___$(VAR_B)___', '___B___'],
  ['a reference at the end', '___$(VAR_C)', '___C'],
  ['several references', '$(VAR_A)_$(VAR_B)_$(VAR_C)', 'A_B_C'],
  ['an escape and a reference', '$$(VAR_B)_$(VAR_A)', '$(VAR_B)_A'],
  ['several escapes', '$$(VAR_A)_$$(VAR_B)', '$(VAR_A)_$(VAR_B)'],
  ['an escape without a reference', 'f000-$$VAR_A', 'f000-$VAR_A'],
  ['a backslash, which means nothing', String.raw`foo\$(VAR_C)bar`, String.raw`foo\Cbar`],
  ['two backslashes', String.raw`foo\\$(VAR_C)bar`, String.raw`foo\\Cbar`],
  ['a nested reference', '$(VAR_A$(VAR_B))', '$(VAR_A$(VAR_B))'],
  ['a nested reference, unclosed', '$(VAR_A$(VAR_B)', '$(VAR_A$(VAR_B)'],
  ['a value that looks like a reference', '$(VAR_REF)', '$(VAR_A)'],
  ['two such values', '%%$(VAR_REF)--$(VAR_REF)%%', '%%$(VAR_A)--$(VAR_A)%%'],
  ['an empty variable', 'foo$(VAR_EMPTY)bar', 'foobar'],
  ['an unterminated reference', 'foo$(VAR_Awhoops!', 'foo$(VAR_Awhoops!'],
  ['parentheses alone', 'f00__(VAR_A)__', 'f00__(VAR_A)__'],
  ['variables of a shell', '$?_boo_$!', '$?_boo_$!'],
  ['a bare dollar', '$VAR_A', '$VAR_A'],
  ['an undefined variable', '$(VAR_DNE)', '$(VAR_DNE)'],
  ['an even row of dollars before an undefined variable', '$$$$$$(BIG_MONEY)', '$$$(BIG_MONEY)'],
  ['an even row of dollars before a variable', '$$$$$$(VAR_A)', '$$$(VAR_A)'],
  ['an odd row of dollars before an undefined variable', '$$$$$$$(GOOD_ODDS)', '$$$$(GOOD_ODDS)'],
  ['an odd row of dollars before a variable', '$$$$$$$(VAR_A)', '$$$A'],
  ['a missing parenthesis', '$VAR_A)', '$VAR_A)'],
  ['braces', '${VAR_A}', '${VAR_A}'],
  ['an incomplete reference at the end', '$(VAR_B)_______$(A', 'B_______$(A'],
  ['an opening at the end', '$(VAR_C)_______$(', 'C_______$('],
  ['a dollar at the end', '$(VAR_A)foobarzab$', 'Afoobarzab$'],
  ['a backslash before an incomplete reference', String.raw`foo-\$(VAR_A`, String.raw`foo-\$(VAR_A`],
  ['many openings in the middle', '--$($($($($--', '--$($($($($--'],
  ['many openings at the beginning', '$($($($($--foo$(', '$($($($($--foo$('],
  ['many openings at the end', 'foo0--$($($($(', 'foo0--$($($($('],
  ['dollars in a name', '$(foo$$var)', '$(foo$$var)'],
  ['a newline', '\n', '\n'],
  ['a two-byte character after a dollar', '$£FOO', '$£FOO'],
  ['a three-byte character after a dollar', 'prefix-$€-suffix', 'prefix-$€-suffix'],
  ['a four-byte character after a dollar', '$🌍$(VAR_A)', '$🌍A'],
  ['an empty name', '$()', '$()'],
  ['a dollar that hides a reference behind a letter', '$a$(VAR_A)', '$aA'],
  ['nothing', '', ''],
];
for (const [it, input, expanded] of cases) {
  test(`expand leaves or replaces ${it}: ${JSON.stringify(input)}`, () => {
    assert.equal(expand(input, variables), expanded);
    const split = [
      new Map([
        ['VAR_A', 'A'],
        ['VAR_EMPTY', ''],
      ]),
      new Map([...variables].slice(1)),
    ];
    assert.equal(expand(input, ...split), expanded);
  });
}

test('the first map that has a name decides, even with an empty value', () => {
  assert.equal(expand('[$(X)]', new Map([['X', '']]), new Map([['X', 'later']])), '[]');
});

test('a subPathExpr with an undefined, empty or nested variable is an error', () => {
  assert.equal(expandSubPath('logs/$(VAR_A)-$$(VAR_A)', variables), 'logs/A-$(VAR_A)');
  assert.throws(() => expandSubPath('$(NOT)', variables), { message: 'missing value for NOT' });
  assert.throws(() => expandSubPath('$(VAR_EMPTY)', variables), new MissingVariablesError(['VAR_EMPTY']));
  assert.throws(() => expandSubPath('$(VAR_A$(VAR_B))', variables), { message: 'missing value for VAR_A$(VAR_B' });
  assert.throws(() => expandSubPath('$(Z)/$(B)/$(Z)/$(A)', variables), { message: 'missing value for A, B, Z' });
  assert.equal(expandSubPath('$(unterminated', variables), '$(unterminated');
});

test('a text without references stays the same, and doubled dollars protect any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('$', '(', ')', 'A', '{', '\\', 'é', '🌍') }), (text) => {
      assert.equal(expand(text.replaceAll('$', '$$$$'), variables), text);
      if (!text.includes('$')) assert.equal(expand(text, variables), text);
    }),
  );
});

test('a megabyte of openings is expanded in one pass', () => {
  const text = '$('.repeat(500_000);
  assert.equal(expand(text, variables), text);
});
