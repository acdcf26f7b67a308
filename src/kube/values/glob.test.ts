import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { globMatches } from './glob.ts';

const cases: [pattern: string, text: string, matches: boolean][] = [
  ['abc', 'abc', true],
  ['*', 'abc', true],
  ['*', '', true],
  ['*c', 'abc', true],
  ['a*', 'a', true],
  ['a*', 'abc', true],
  ['a*b*c*d*e*', 'axbxcxdxe', true],
  ['a*b*c*d*e*', 'axbxcxdxexxx', true],
  ['a*b?c*x', 'abxbbxdbxebxczzx', true],
  ['a*b?c*x', 'abxbbxdbxebxczzy', false],
  ['ab[c]', 'abc', true],
  ['ab[b-d]', 'abc', true],
  ['ab[e-g]', 'abc', false],
  ['ab[^c]', 'abc', false],
  ['ab[^b-d]', 'abc', false],
  ['ab[^e-g]', 'abc', true],
  [String.raw`a\*b`, 'a*b', true],
  [String.raw`a\*b`, 'ab', false],
  ['a?b', 'a☺b', true],
  ['a[^a]b', 'a☺b', true],
  ['a???b', 'a☺b', false],
  ['[a-ζ]*', 'α', true],
  ['*[a-ζ]', 'A', false],
  [String.raw`[\]a]`, ']', true],
  [String.raw`[\-]`, '-', true],
  [String.raw`[x\-]`, 'x', true],
  ['[]a]', ']', false],
  ['[-]', '-', false],
  ['[x-]', 'x', false],
  ['[-x]', 'x', false],
  ['\\', 'a', false],
  ['[a-b-c]', 'a', false],
  ['[', 'a', false],
  ['[^', 'a', false],
  ['[^bc', 'a', false],
  ['a[', 'a', false],
  ['a[', 'ab', false],
  ['*x', 'xxx', true],
  ['', '', true],
  ['', 'a', false],
];
for (const [pattern, text, matches] of cases) {
  test(`${JSON.stringify(pattern)} ${matches ? 'matches' : 'does not match'} ${JSON.stringify(text)}`, () => {
    assert.equal(globMatches(pattern, text), matches);
  });
}

test('globMatches agrees with a regular expression on stars and question marks', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 });
  const pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 6 });
  fc.assert(
    fc.property(pattern, text, (glob, candidate) => {
      const expression = new RegExp(`^${glob.replaceAll('*', '.*').replaceAll('?', '.')}$`);
      assert.equal(globMatches(glob, candidate), expression.test(candidate));
    }),
  );
});

test('a pattern of many stars does not hang', () => {
  assert.equal(globMatches('*a'.repeat(40) + 'b', 'a'.repeat(5_000)), false);
});
