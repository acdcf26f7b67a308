import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  backstepProblems,
  configMapKeyProblems,
  descendingPathProblems,
  dnsLabelProblems,
  dnsSubdomainProblems,
  environmentVariableNameProblems,
  labelValueProblems,
  pathSegmentProblems,
  podUidProblems,
  type Problems,
  projectedPathProblems,
  qualifiedNameProblems,
} from './names.ts';

interface Rule {
  readonly name: string;
  readonly problems: (value: string) => Problems;
  readonly good: readonly string[];
  readonly bad: readonly string[];
}
const a = (length: number): string => 'a'.repeat(length);
const labels = ['a', 'ab', 'abc', 'a1', 'a-1', 'a--1--2--b', '0', '01', '012', '1a', '1-a', '1--a--b--2'];
const notLabels =
  '|A|ABC|aBc|A1|A-1|1-A|-|a-|-a|1-|-1|_|a_|_a|a_b|1_|_1|1_2|.|a.|.a|1.|.1| |a | a|a b|1 | 1|1 2|a\n'.split('|');
const rules: Rule[] = [
  {
    name: 'dnsLabelProblems',
    problems: dnsLabelProblems,
    good: [...labels, a(63)],
    bad: [...notLabels, 'a.b', '1.2', a(64)],
  },
  {
    name: 'dnsSubdomainProblems',
    problems: dnsSubdomainProblems,
    good: [...labels, ...labels.map((label) => `${label}.a`), 'a.b.c.d.e', '1.2.3.4.5', a(253)],
    bad: [...notLabels, ...'a..b 1..2 A.a aB.a ab.A a1.A 0.A A.B.C a@b a,b a;b a:b a%b a?b a$b'.split(' '), a(254)],
  },
  {
    name: 'qualifiedNameProblems',
    problems: qualifiedNameProblems,
    good: [
      'simple',
      'now-with-dashes',
      '1-starts-with-num',
      '1234',
      'simple/simple',
      'now.with.dots/simple',
      '1-num.2-num/3-num',
      '1.2.3.4/5678',
      'Uppercase_Is_OK_123',
      'example.com/Uppercase_Is_OK_123',
      'requests.storage-foo',
      a(63),
      `${a(253)}/${a(63)}`,
    ],
    bad: [
      'nospecialchars%^=@',
      'cantendwithadash-',
      '-cantstartwithadash-',
      'only/one/slash',
      'Example.com/abc',
      'example_com/abc',
      'example.com/',
      '/simple',
      '',
      a(64),
      `${a(254)}/abc`,
    ],
  },
  {
    name: 'labelValueProblems',
    problems: labelValueProblems,
    good: ['simple', 'now-with-dashes', '1-starts-with-num', 'end-with-num-1', '1234', a(63), ''],
    bad: [
      'nospecialchars%^=@',
      'Tama-nui-te-rā.is.Māori.sun',
      String.raw`\backslashes\are\bad`,
      '-starts-with-dash',
      'ends-with-dash-',
      '.starts.with.dot',
      'ends.with.dot.',
      a(64),
    ],
  },
  {
    name: 'configMapKeyProblems',
    problems: configMapKeyProblems,
    good: ['a', 'good-good', 'still.good', '.so.is.this', '.ab', 'THIS_IS_GOOD', 'so_is_this_17', 'a..', a(253)],
    bad: ['.', '..', '..bad', 'b*d', 'bad!&bad', '', 'a/b', 'ä', 'a\n', 'a\0', a(254)],
  },
  {
    name: 'environmentVariableNameProblems',
    problems: environmentVariableNameProblems,
    good: "-|:|_|+a|>a|<a|a.|a..|*a|%a|?a|a:a|a_a|aAz|~a||a0a|a9|/a|a |#a|0a|0 a|'a|(a|@a".split('|').filter(Boolean),
    bad: ['', '=', 'a=', '1=a', 'a=b', '#%=&&', '\u0001abc', '\u0082abc', 'Ç ç', 'a\n', '\u007F'],
  },
  {
    name: 'pathSegmentProblems',
    problems: pathSegmentProblems,
    good: ['a', '...', 'a.b', 'a b'],
    bad: ['.', '..', 'a/b', 'a%b'],
  },
  {
    name: 'podUidProblems',
    problems: podUidProblems,
    good: ['b70b3269-858e-12a8-9cf2-1232a194038a', '12345678', 'test_pod_uid', '...', a(255)],
    bad: ['', '.', '..', '../../etc', 'a/b', '/', 'a\0b', 'a b', 'a\n', 'ä', a(256)],
  },
  {
    name: 'projectedPathProblems',
    problems: projectedPathProblems,
    good: ['p/..p/p../p..p', 'a', 'a/b', 'foo////bar', './bar', '.a'],
    bad: ['/a', '..', '../a', 'a/../b', 'a/..', '..data', '..data/a', '...'],
  },
  {
    name: 'descendingPathProblems',
    problems: descendingPathProblems,
    good: ['..baz', 'a/..b', '', 'a'],
    bad: ['/a', 'a/..', '..', '../a'],
  },
  { name: 'backstepProblems', problems: backstepProblems, good: ['/a/b', 'a', '/..a'], bad: ['/a/..', '..', '/../a'] },
];
for (const { name, problems, good, bad } of rules) {
  test(`${name} accepts what the API accepts`, () => {
    for (const value of good) assert.deepEqual(problems(value), [], JSON.stringify(value));
  });
  test(`${name} refuses what the API refuses`, () => {
    for (const value of bad) assert.notDeepEqual(problems(value), [], JSON.stringify(value));
  });
}

const subdomainText =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const labelText =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const partText =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const keyText =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const texts: [of: string, actual: Problems, expected: Problems][] = [
  ['a label with dots', dnsLabelProblems('a.b'), ['must not contain dots']],
  ['a bad label', dnsLabelProblems('A'), [labelText]],
  ['a long bad label', dnsLabelProblems('A'.repeat(64)), ['must be no more than 63 characters', labelText]],
  ['a bad subdomain', dnsSubdomainProblems('A_b'), [subdomainText]],
  ['a long subdomain', dnsSubdomainProblems(a(254)), ['must be no more than 253 characters']],
  ['a length in bytes', dnsLabelProblems('ä'.repeat(32)), ['must be no more than 63 characters', labelText]],
  ['an empty key', qualifiedNameProblems(''), ['name part must be non-empty', `name part ${partText}`]],
  ['an empty prefix', qualifiedNameProblems('/a'), ['prefix part must be non-empty']],
  ['a bad prefix', qualifiedNameProblems('A/a'), [`prefix part ${subdomainText}`]],
  ['a long prefix', qualifiedNameProblems(`${a(254)}/a`), ['prefix part must be no more than 253 bytes']],
  ['a long name', qualifiedNameProblems(a(64)), ['name part must be no more than 63 bytes']],
  [
    'two slashes',
    qualifiedNameProblems('a/b/c'),
    [`a valid label key ${partText} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`],
  ],
  ['a long label value', labelValueProblems(a(64)), ['must be no more than 63 bytes']],
  [
    'a bad label value',
    labelValueProblems('-'),
    [
      "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ],
  ],
  ['an empty config key', configMapKeyProblems(''), [keyText]],
  ['a dot', configMapKeyProblems('.'), ["must not be '.'"]],
  ['two dots', configMapKeyProblems('..'), ["must not be '..'"]],
  ['two dots in front', configMapKeyProblems('..a'), ["must not start with '..'"]],
  ['an empty variable name', environmentVariableNameProblems(''), ['environment variable name must be non-empty']],
  [
    'a variable name with =',
    environmentVariableNameProblems('a='),
    ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
  ],
  ['a rooted back-step', projectedPathProblems('/..'), ['must be a relative path', "must not contain '..'"]],
  ['a reserved path', projectedPathProblems('..data'), ["must not start with '..'"]],
  ['a parent path', projectedPathProblems('../a'), ["must not contain '..'"]],
  ['the parent itself', projectedPathProblems('..'), ["must not contain '..'", "must not start with '..'"]],
  ['a URL segment', pathSegmentProblems('a/%'), ["may not contain '/'", "may not contain '%'"]],
];
for (const [of, actual, expected] of texts) {
  test(`the words for ${of} are the API server's`, () => {
    assert.deepEqual(actual, expected);
  });
}

test('keys of 253 characters are valid, 254 not; ".ab" is valid, "." and ".." are not', () => {
  assert.deepEqual(configMapKeyProblems(a(253)), []);
  assert.deepEqual(configMapKeyProblems(a(254)), ['must be no more than 253 characters']);
  assert.deepEqual(configMapKeyProblems('.ab'), []);
  assert.deepEqual(configMapKeyProblems('.'), ["must not be '.'"]);
  assert.deepEqual(configMapKeyProblems('..'), ["must not be '..'"]);
});

test('no accepted key, UID or projected path can leave its directory', () => {
  const text = fc.string({ unit: fc.constantFrom('.', '/', 'a', '\\', '\0', '%', ' ') });
  fc.assert(
    fc.property(text, (value) => {
      const escapes = value === '' || value.startsWith('/') || value.split('/').includes('..');
      if (configMapKeyProblems(value).length === 0) assert.ok(!escapes && !value.includes('/'), value);
      if (podUidProblems(value).length === 0) assert.ok(!escapes && value !== '.' && !/[/\0]/.test(value), value);
      if (projectedPathProblems(value).length === 0) assert.ok(!escapes || value === '', value);
    }),
  );
});

test('a hostile name is judged in a moment', () => {
  const long = `${'a.'.repeat(50_000)}!`;
  for (const { problems } of rules) assert.ok(Array.isArray(problems(long)));
});
