import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseYamlDocuments } from './yaml-documents.ts';

const values = [
  { it: 'reads yes, on and off as booleans', yaml: 'a: [yes, on, Off, true]', is: { a: [true, true, false, true] } },
  { it: 'reads a leading zero as octal', yaml: 'mode: 0644', is: { mode: 0o644 } },
  {
    it: 'keeps dates as text',
    yaml: 'day: 2020-01-01\ntime: 2001-12-14t21:59:43.10-05:00',
    is: { day: '2020-01-01', time: '2001-12-14t21:59:43.10-05:00' },
  },
  { it: 'keeps base-60 numbers as text', yaml: 'a: 1:30\nb: 190:20:30.15', is: { a: '1:30', b: '190:20:30.15' } },
  {
    it: 'follows merge keys',
    yaml: 'base: &b {x: 1}\nother: {<<: *b, z: 2}',
    is: { base: { x: 1 }, other: { x: 1, z: 2 } },
  },
  {
    it: 'follows several merge keys of one map',
    yaml: 'a: &a {x: 1}\nb: &b {z: 2}\nc:\n  <<: *a\n  <<: *b',
    is: { a: { x: 1 }, b: { z: 2 }, c: { x: 1, z: 2 } },
  },
  { it: 'reads JSON', yaml: '{"a": {"b": [1, null, "x"]}}', is: { a: { b: [1, null, 'x'] } } },
  { it: 'ignores a byte order mark', yaml: '\uFEFFa: 1', is: { a: 1 } },
  { it: 'turns keys into text, y being yes', yaml: '1: a\ny: b', is: { 1: 'a', true: 'b' } },
  {
    it: 'reads every spelling of a whole number that Go has',
    yaml: 'a: [0o644, 0O644, 0X1f, 0x1_F, -0b101, +0644, 1_000, 00, 0_]',
    is: { a: [0o644, 0o644, 31, 31, -5, 0o644, 1000, 0, 0] },
  },
  { it: 'reads what begins with a zero and is not octal as decimal', yaml: 'a: [08, 0648]', is: { a: [8, 648] } },
  { it: 'reads fractions', yaml: 'a: [.5, -.5, 1., 1.5e3, 1e3, 2E-1]', is: { a: [0.5, -0.5, 1, 1500, 1000, 0.2] } },
  {
    it: 'keeps what only looks like a number as text',
    yaml: 'a: [., e3, E10, .5_5, 0x, 0b2, 0o8, 1e400, +, _1, 1.2.3]',
    is: { a: ['.', 'e3', 'E10', '.5_5', '0x', '0b2', '0o8', '1e400', '+', '_1', '1.2.3'] },
  },
  {
    it: 'keeps a number that is too large for JavaScript exact',
    yaml: 'a: [9223372036854775807, -0x8000000000000000]',
    is: { a: [9223372036854775807n, -9223372036854775808n] },
  },
  { it: 'decodes !!binary to text', yaml: 'a: !!binary aGVsbG8=', is: { a: 'hello' } },
  {
    it: 'takes an anchor that is used a hundred times for what it is',
    yaml: `a: &a 1\nb: [${Array.from({ length: 200 }, () => '*a').join(', ')}]`,
    is: { a: 1, b: Array.from({ length: 200 }, () => 1) },
  },
  {
    it: 'reads a quote with a backslash, as Go does',
    yaml: `a: "it\\'s \\\\'"\nb: [ "\\'" ]`,
    is: { a: "it's \\'", b: ["'"] },
  },
  { it: 'keeps a block scalar to the byte', yaml: 'a: |\n  x\n   y\n\n  z\n', is: { a: 'x\n y\n\nz\n' } },
];
for (const { it, yaml, is } of values) {
  test(`YAML ${it}`, () => {
    const [document] = parseYamlDocuments(yaml);
    assert.deepEqual(document?.problems, []);
    assert.deepEqual(document?.value, is);
  });
}

test('YAML ignores the byte order mark of every file that was joined', () => {
  const documents = parseYamlDocuments('\uFEFFa: 1\n---\n\uFEFFb: 2\n');
  assert.deepEqual(
    documents.map(({ value }) => value),
    [{ a: 1 }, { b: 2 }],
  );
});

test('YAML with a key that stands twice still has a value, of which the last counts', () => {
  const [document] = parseYamlDocuments('a: 1\na: 2\n');
  assert.deepEqual(document?.value, { a: 2 });
  assert.deepEqual(
    document?.problems.map(({ repeatedKey }) => repeatedKey),
    ['a'],
  );
});

test('YAML of several documents is read in order, and empty ones have no value', () => {
  const documents = parseYamlDocuments('---\na: 1\n---\n---\n# nothing\n---\nb: 2\n');
  assert.deepEqual(
    documents.map(({ value }) => value ?? undefined),
    [{ a: 1 }, undefined, undefined, { b: 2 }],
  );
});

const places = [
  { of: 'a field: its key', path: ['spec', 'name'], at: '3:3' },
  { of: 'a field of an item', path: ['spec', 'list', 0, 'inner'], at: '5:7' },
  { of: 'an item of a list', path: ['spec', 'list', 1], at: '7:7' },
  { of: 'a missing field: the deepest part that exists', path: ['spec', 'list', 0, 'inner', 'gone', 3], at: '5:7' },
  { of: 'the whole document', path: [], at: '1:1' },
];
for (const { of, path, at } of places) {
  test(`YAML locates ${of}`, () => {
    const [document] = parseYamlDocuments(
      'kind: X\nspec:\n  name: y\n  list:\n    - inner:\n        a: 1\n    - second\n',
    );
    const { line, column } = document?.locate(path) ?? {};
    assert.equal(`${line}:${column}`, at);
  });
}

test('YAML locates in the second document and through an alias', () => {
  const [, second] = parseYamlDocuments('a: 1\n---\nbase: &b\n  x: 1\nother: *b\n');
  assert.deepEqual(second?.locate(['other', 'x']), { line: 4, column: 3 });
});

const broken: readonly { it: string; yaml: string; at?: string; says?: string }[] = [
  { it: 'a key that stands twice', yaml: 'a: 1\na: 2\n', at: '2:1', says: 'Map keys must be unique: "a" stands twice' },
  { it: 'a key that stands twice in JSON', yaml: '{"a": 1,\n "a": 2}', at: '2:2', says: 'Map keys must be unique' },
  { it: 'a key that stands twice in two spellings', yaml: 'yes: 1\n"true": 2\n', at: '2:1' },
  { it: 'an open bracket', yaml: 'a: [1,\n', at: '2:1' },
  { it: 'a tab for indentation', yaml: 'a:\n\tb: 1\n', at: '2:1' },
  { it: 'an alias of nothing', yaml: 'a:\n  b: *x\n', at: '2:6' },
  { it: 'a list as a key', yaml: 'a: 1\n? [x]\n: 2\n', at: '2:3', says: 'A key must be text, not a list or a map' },
  { it: 'a map as a key', yaml: 'a:\n  {x: 1}: 2\n', at: '2:3', says: 'A key must be text, not a list or a map' },
  { it: 'null as a key', yaml: 'a:\n  ~: 1\n', at: '2:3', says: 'A key must not be empty' },
  { it: 'an empty key', yaml: 'a:\n  : 1\n', at: '2:3', says: 'A key must not be empty' },
  {
    it: 'an alias inside its own anchor',
    yaml: 'a: &a\n  b: [*a]\n',
    at: '2:7',
    says: 'A value must not contain itself',
  },
  ...['[', '{a: ', '- ', '? ', '[{a: '].map((open) => ({
    it: `nesting without end, ${open}`,
    yaml: open.repeat(100_000),
    says: 'Too deeply nested (more than 500 levels)',
  })),
  {
    it: '!!binary that is not text',
    yaml: 'a: !!binary /w==\n',
    at: '1:4',
    says: '!!binary must be UTF-8 text here, use binaryData or data for other bytes',
  },
];
for (const { it, yaml, at, says } of broken) {
  test(`YAML reports ${it} with its place`, () => {
    const problem = parseYamlDocuments(yaml)[0]?.problems[0];
    if (at !== undefined) assert.equal(`${problem?.position.line}:${problem?.position.column}`, at);
    if (says !== undefined) assert.equal(problem?.message, says);
  });
}

test('YAML lets an anchor that stands twice be used inside the first', () => {
  assert.deepEqual(parseYamlDocuments('a: &a [&a x, *a]')[0]?.value, { a: ['x', 'x'] });
});

test('YAML refuses more aliases than can be looked up', () => {
  const aliases = (count: number): string => `a: &a x\nb: [${'*a, '.repeat(count)}]`;
  const [problem] = parseYamlDocuments(aliases(5_000))[0]?.problems ?? [];
  assert.equal(problem?.message, 'Too many anchors and aliases (at most 5000)');
  assert.deepEqual(parseYamlDocuments(aliases(500))[0]?.problems, []);
});

test('YAML refuses aliases that multiply', () => {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
  for (let level = 1; level < 9; level += 1) {
    lines.push(`a${level}: &a${level} [${Array.from({ length: 10 }, () => `*a${level - 1}`).join(', ')}]`);
  }
  const [document] = parseYamlDocuments(lines.join('\n'));
  assert.equal(document?.value, undefined);
  assert.match(document?.problems[0]?.message ?? '', /alias/i);
});

const leaking = [
  'password: *hunter2\n',
  'a: b\n"hunter2" "hunter2"\n',
  'password: @hunter2\n',
  'password: %hunter2: x: y\n',
  "password: 'hunter2\n",
  'password: "\\Uhunter2"\n',
  'password: "\\xhunter2"\n',
  'password: !hunter2! x\n',
  'password: !<hunter2 x\n',
  'password: !!hunter2!x! x\n',
  'password: |hunter2\n  x\n',
  'password: {hunter2: hunter2, hunter2: x}\n',
  '%hunter2 hunter2\n--- [\n',
];
for (const yaml of leaking) {
  test(`YAML problems never repeat what was written: ${JSON.stringify(yaml)}`, () => {
    const problems = parseYamlDocuments(yaml).flatMap((document) => document.problems);
    assert.ok(problems.length > 0);
    for (const { message } of problems) assert.doesNotMatch(message, /hunter2/);
  });
}
