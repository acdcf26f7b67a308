import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instantOf } from '../../values/times.ts';
import { isYes, parsePodLogOptions, podLogOptionErrors, podLogQuery } from './pod-requests.ts';

const cases: readonly { readonly query: string; readonly says: readonly string[] | string }[] = [
  { query: '', says: [] },
  { query: 'tailLines=0&limitBytes=1&sinceSeconds=1', says: [] },
  { query: 'tailLines=-1', says: ['tailLines: Invalid value: -1: must be greater than or equal to 0'] },
  { query: 'limitBytes=0', says: ['limitBytes: Invalid value: 0: must be greater than 0'] },
  { query: 'sinceSeconds=-5', says: ['sinceSeconds: Invalid value: -5: must be greater than 0'] },
  {
    query: 'sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z',
    says: [': Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified'],
  },
  { query: 'stream=All&tailLines=3', says: [] },
  {
    query: 'stream=Stdout&tailLines=3',
    says: [': Forbidden: `tailLines` and specific `stream` are mutually exclusive for now'],
  },
  { query: 'stream=x', says: ['stream: Unsupported value: "x": supported values: "All", "Stderr", "Stdout"'] },
  { query: 'tailLines=x', says: 'strconv.ParseInt: parsing "x": invalid syntax' },
  { query: 'sinceTime=yesterday', says: 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse' },
];
for (const { query, says } of cases) {
  test(`log options ${JSON.stringify(query)} are judged as the API does`, () => {
    const options = parsePodLogOptions(new URLSearchParams(query));
    const judged = typeof options === 'string' ? options : podLogOptionErrors(options).map(({ message }) => message);
    assert.deepEqual(judged, says);
  });
}

test('log options go to a node without what it need not know', () => {
  const options = parsePodLogOptions(
    new URLSearchParams('follow=1&container=a&tailLines=5&timestamps=true&stream=All'),
  );
  assert.ok(typeof options !== 'string');
  assert.equal(podLogQuery(options).toString(), 'follow=true&timestamps=true&tailLines=5');
});

test('booleans of a query are read as the API reads them', () => {
  const query = new URLSearchParams('a&b=1&c=true&d=0&e=False&f=what');
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => isYes(query, name)),
    [true, true, true, false, false, true, false],
  );
});

test('instants keep nanoseconds and know zones', () => {
  assert.equal(instantOf('1970-01-01T00:00:01.000000002Z'), 1_000_000_002n);
  assert.equal(instantOf('1970-01-01T01:00:00.5+01:00'), 500_000_000n);
  for (const text of ['', '1970-01-01', '1970-13-01T00:00:00Z', 'x1970-01-01T00:00:01Z']) {
    assert.equal(instantOf(text), undefined, text);
  }
});
