import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperatingError } from '../../base/errors.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { readEnvFileKey } from './environment.ts';

const key1 = 'KEY1';
const key2 = 'KEY2';
const found: [it: string, text: string, key: string, value: string][] = [
  ['ignores blanks in front', "   KEY1='val1'\n\t\tKEY2='val2'\nKEY3='val3'\n", key2, 'val2'],
  ['ignores empty lines and comments', "# comment\n\nKEY1='foo'\n   # another\n \t\nKEY2='bar'\n", key2, 'bar'],
  ['gives nothing for a name it does not have', "KEY1='foo'\nKEY2='bar'\n", 'KEY3', ''],
  ['keeps a # inside quotes', "KEY1='foo#notcomment'\n", key1, 'foo#notcomment'],
  ['keeps blanks inside quotes', "KEY1='   foo bar   '\n", key1, '   foo bar   '],
  ['reads an empty value', "KEY1='foo'\nKEY2=''\n", key2, ''],
  ['reads = inside quotes', "KEY1='foo=bar=baz'\n", key1, 'foo=bar=baz'],
  ['ignores a comment behind a value', "KEY2='bar' # comment\n", key2, 'bar'],
  ['needs no newline at the end', "KEY1='a'\nKEY2='b'", key2, 'b'],
  ['expands nothing', "KEY1='$VAR-${HOME}_$'\n", key1, '$VAR-${HOME}_$'],
  ['keeps backslashes', "KEY1='path\\\\to\\nfile'\n", key1, 'path\\\\to\\nfile'],
  ['keeps double quotes', `KEY1='{"a": "b"}'\n`, key1, '{"a": "b"}'],
  ['keeps any character', "KEY1='中文 Español 🌍'\n", key1, '中文 Español 🌍'],
  ['keeps special characters', "KEY1='!@#$%^&*()_+-=[]{}|;:,.<>?/'\n", key1, '!@#$%^&*()_+-=[]{}|;:,.<>?/'],
  [
    'reads a value of several lines',
    "KEY1='line one\n  two\n\nfour   '\nKEY2='bar'\n",
    key1,
    'line one\n  two\n\nfour   ',
  ],
  ['finds a name behind a value of several lines', "KEY1='a\nKEY2=b\n'\nKEY2='c'\n", key2, 'c'],
  ['takes the first of two', "KEY1='a'\nKEY1='b'\n", key1, 'a'],
];
for (const [it, text, key, value] of found) {
  test(`an env file ${it}`, () => {
    assert.equal(readEnvFileKey(text, key), value);
  });
}

test('a shell reads the same values from the same files', (t) => {
  if (spawnSync('bash', ['--version']).status !== 0) return t.skip('needs bash');
  const file = join(temporaryDirectory(t), 'env');
  for (const [it, text, key, value] of found.filter(([rule]) => rule !== 'takes the first of two')) {
    writeFileSync(file, text);
    const shell = spawnSync('bash', ['--posix', '-c', `. "$1" && printf %s "\${${key}}"`, 'bash', file]);
    assert.equal(shell.stdout.toString(), value, it);
  }
});

const at = (line: number, problem: string): string => `invalid environment variable format at line ${line}: ${problem}`;
const refused: [it: string, text: string, key: string, message: string][] = [
  ['a blank before =', "KEY1 ='foo'\n", key1, at(1, "whitespace before '=' is not allowed")],
  ['a blank before = of another name', "KEY1 = 'x'\nKEY2='y'\n", key2, at(1, "whitespace before '=' is not allowed")],
  ['an empty name', "='foo'\nKEY2='bar'\n", key2, at(1, 'empty variable name')],
  ['a blank name', " \t='foo'\n", key2, at(1, 'empty variable name')],
  ['a line without =', "KEY1='foo'\nINVALID\nKEY2='bar'\n", key2, at(2, "missing '='")],
  ['no quotes', "KEY1='foo'\nKEY2=bar\n", key2, at(2, 'value must be enclosed in single quotes')],
  ['no value', 'KEY1=\n', key1, at(1, 'value must be enclosed in single quotes')],
  ['double quotes', 'KEY2="bar"\n', key2, at(1, 'value must be enclosed in single quotes')],
  ['two quoted strings', "KEY1='foo''bar'", key1, at(1, 'unexpected content after closing quote')],
  ['text behind the value', "KEY2='bar'baz\n", key2, at(1, 'unexpected content after closing quote')],
  ['a quote that closes late', "KEY2='bar\nKEY3='baz'\n", key2, at(2, 'unexpected content after closing quote')],
  ['escaped quotes', String.raw`KEY1='a \'b\' c'`, key1, at(1, 'unexpected content after closing quote')],
  [
    'a quote that never closes',
    "A='b'\nKEY1='foo\nbar\n",
    key1,
    'invalid environment variable format starting at line 2: unclosed single quote',
  ],
  ['a line beyond 64 KiB', `A='${'x'.repeat(65_536)}'\n`, key1, at(1, 'line is too long')],
];
for (const [it, text, key, message] of refused) {
  test(`an env file is refused for ${it}`, () => {
    assert.throws(() => readEnvFileKey(text, key), new OperatingError('InvalidEnvFile', message));
  });
}

test('a blank behind = makes the variable empty, and only that one', () => {
  assert.equal(readEnvFileKey("KEY1= 'a'\nKEY2='b'\n", key1), '');
  assert.equal(readEnvFileKey("KEY1= 'a'\nKEY2='b'\n", key2), 'b');
});

test('a mistake behind the wanted name goes unnoticed', () => {
  assert.equal(readEnvFileKey("KEY1='a'\nnonsense\n", key1), 'a');
});

test('line ends of Windows are line ends', () => {
  assert.equal(readEnvFileKey("KEY1='a\r\nb'\r\nKEY2='c'\r\n", key1), 'a\nb');
  assert.equal(readEnvFileKey("KEY1='a\r\nb'\r\nKEY2='c'\r\n", key2), 'c');
});

test('a line of 65535 bytes is read', () => {
  const value = 'x'.repeat(65_535 - "A=''".length);
  assert.equal(readEnvFileKey(`A='${value}'\n`, 'A'), value);
});

test('whatever is written in quotes is read back', () => {
  const value = fc.string({ unit: fc.constantFrom('a', '\n', ' ', '"', '\\', '$', '#', '=', '\t', 'é') });
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (values) => {
      const text = values.map((one, index) => `K${index}='${one}'\n`).join('');
      for (const [index, one] of values.entries()) assert.equal(readEnvFileKey(text, `K${index}`), one);
    }),
  );
});

test('no error repeats content of the file', () => {
  const text = fc.string({ unit: fc.constantFrom('SECRET', '=', "'", '\n', ' ', '#'), minLength: 1 });
  fc.assert(
    fc.property(text, (content) => {
      try {
        readEnvFileKey(content, 'none');
      } catch (error) {
        assert.ok(error instanceof OperatingError && !error.message.includes('SECRET'));
      }
    }),
  );
});
