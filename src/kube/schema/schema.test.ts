import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import {
  absentMeans,
  any,
  atomic,
  boolean,
  bytes,
  decode,
  granular,
  int32,
  intOrString,
  integer,
  list,
  map,
  microTime,
  number,
  object,
  quantity,
  replacedByPatch,
  required,
  setOf,
  string,
  time,
} from './schema.ts';

const item = object({ name: required(string), size: integer });
const shape = object({
  text: string,
  count: integer,
  short: int32,
  share: number,
  on: boolean,
  amount: quantity,
  port: intOrString,
  raw: bytes,
  free: any,
  items: list(item, 'name'),
  labels: map(string),
  inner: required(object({ list: required(list(string)), optional: string })),
  at: time,
  exactly: microTime,
});

test('decode gives required fields their zero value and leaves the others out', () => {
  assert.deepEqual(decode(shape, {}).value, { inner: { list: [] } });
});

test('decode counts null as absent, and as the zero value inside lists and maps', () => {
  const { value, problems } = decode(shape, { text: null, items: [null], labels: { a: null }, inner: null });
  assert.deepEqual(problems, []);
  assert.deepEqual(
    { ...value, labels: { ...value.labels } },
    { items: [{ name: '' }], labels: { a: '' }, inner: { list: [] } },
  );
});

test('decode leaves unknown fields out and reports where they are', () => {
  const { value, problems } = decode(shape, { items: [{ name: 'x', colour: 'red' }], Text: 'a' });
  assert.deepEqual(value.items, [{ name: 'x' }]);
  assert.deepEqual(
    problems.map(({ kind, path }) => [kind, path.join('.')]),
    [
      ['unknown', 'Text'],
      ['unknown', 'items.0.colour'],
    ],
  );
});

const accepted = [
  { field: 'amount', values: ['500m', 1, 0.5, 9007199254740993n] },
  { field: 'port', values: [80, 'http', 2 ** 31 - 1] },
  { field: 'short', values: [0, 2 ** 31 - 1, -(2 ** 31)] },
  { field: 'raw', values: ['', 'eA==', 'YWJj\nZGVm', 'YWI='] },
  { field: 'count', values: [0, -1, 2 ** 53 - 1] },
  { field: 'free', values: [[], {}, 'x', 1, true] },
  { field: 'at', values: ['2026-02-28T23:59:59Z', '2026-01-01T00:00:00.123+05:30', null] },
  { field: 'exactly', values: ['2026-01-01T00:00:00.000001Z', '2026-01-01T00:00:00Z'] },
];
for (const { field, values } of accepted) {
  test(`decode takes ${field} as ${values.map((value) => inspect(value)).join(', ')}`, () => {
    for (const value of values) assert.deepEqual(decode(shape, { [field]: value }).problems, []);
  });
}

const refused = [
  { field: 'text', values: [1, true, [], {}] },
  { field: 'count', values: ['1', 1.5, 2 ** 53, true] },
  { field: 'short', values: ['1', 1.5, 2 ** 31, -(2 ** 31) - 1] },
  { field: 'port', values: [1.5, 2 ** 31] },
  { field: 'on', values: ['true', 1] },
  { field: 'amount', values: [true, [], Infinity, 'abc', '${X}', '', '1 GB'] },
  { field: 'at', values: ['', 'now', '2026-02-30T00:00:00Z', '2026-01-01', '2026-01-01T24:00:00Z', 1] },
  { field: 'exactly', values: ['x', '0000-01-01T00:00:00+01:00', '2026-01-01T00:00:00.1'] },
  { field: 'raw', values: ['x', 'e A==', 'eA=', 'eA=x', 'e===', 1] },
  { field: 'items', values: [{}, 'x', [1]] },
  { field: 'labels', values: [[], 'x', { a: 1 }] },
  { field: 'inner', values: ['x', []] },
];
for (const { field, values } of refused) {
  test(`decode refuses ${field} as ${JSON.stringify(values)}, and names no value`, () => {
    for (const value of values) {
      const { problems } = decode(shape, { [field]: value });
      assert.equal(problems.length, 1);
      assert.equal(problems[0]?.kind, 'type');
      assert.equal(problems[0]?.path[0], field);
    }
  });
}

const descriptions = [
  { field: 'text', value: 1, says: 'expected a string, got a number (quote it if you mean text)' },
  { field: 'text', value: true, says: 'expected a string, got a boolean (quote it if you mean text)' },
  { field: 'raw', value: 'not base64', says: 'expected base64 text, got other text' },
  { field: 'count', value: 1.5, says: 'expected a whole number, got one with a fraction' },
  { field: 'count', value: 2n ** 63n, says: 'expected a whole number, got one that is too large' },
  { field: 'count', value: '1', says: 'expected a whole number, got a string' },
  { field: 'on', value: 1, says: 'expected true or false, got a number' },
  { field: 'items', value: {}, says: 'expected a list, got a map' },
];
for (const { field, value, says } of descriptions) {
  test(`decode says: ${says}`, () => {
    assert.equal(decode(shape, { [field]: value }).problems[0]?.message, says);
  });
}

const forms = [
  { field: 'amount', given: 0.1, kept: '100m' },
  { field: 'amount', given: 1, kept: '1' },
  { field: 'amount', given: '1024Mi', kept: '1Gi' },
  { field: 'at', given: '2026-01-01T01:00:00.999+01:00', kept: '2026-01-01T00:00:00Z' },
  { field: 'at', given: '0001-01-01T00:00:00Z', kept: undefined },
  { field: 'exactly', given: '2026-01-01T00:00:00.5Z', kept: '2026-01-01T00:00:00.500000Z' },
  { field: 'exactly', given: '2026-01-01T00:00:00.123456789Z', kept: '2026-01-01T00:00:00.123456Z' },
] as const;
for (const { field, given, kept } of forms) {
  test(`decode leaves ${field} ${String(given)} as ${kept}, as the API server prints it`, () => {
    assert.equal(decode(shape, { [field]: given }).value[field], kept);
  });
}

test('decode keeps a quantity that is larger than a JavaScript number is exact', () => {
  assert.equal(decode(shape, { amount: 9007199254740993n }).value.amount, '9007199254740993');
});

test('marks for merging change nothing in what is decoded', () => {
  const plain = object({ s: list(string), m: required(map(string)), l: list(item, 'name'), p: string });
  const marked = object({
    s: setOf(string),
    m: required(granular(atomic(map(string)))),
    l: replacedByPatch(atomic(list(item, 'name'))),
    p: absentMeans('TCP', string),
  });
  for (const json of [
    {},
    { s: ['a', 'a'], m: { a: 'b' }, l: [{ name: 'x' }], p: 'UDP' },
    { s: 1, m: [], l: [1], p: 2 },
  ]) {
    assert.deepEqual(decode(marked, json), decode(plain, json));
  }
});
