import assert from 'node:assert/strict';
import { test } from 'node:test';
import { age, ageSince } from '../../kube/values/times.ts';

const second = 1;
const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365 * day;

const cases: readonly (readonly [number, string])[] = [
  [-2 * second, '<invalid>'],
  [-1.5 * second, '0s'],
  [0, '0s'],
  [95 * second, '95s'],
  [119 * second, '119s'],
  [2 * minute, '2m'],
  [3 * minute + 5, '3m5s'],
  [9 * minute + 59, '9m59s'],
  [10 * minute + 59, '10m'],
  [179 * minute, '179m'],
  [3 * hour, '3h'],
  [5 * hour + 20 * minute, '5h20m'],
  [8 * hour + 20 * minute, '8h'],
  [47 * hour + 59 * minute, '47h'],
  [48 * hour, '2d'],
  [3 * day + 4 * hour, '3d4h'],
  [8 * day, '8d'],
  [200 * day, '200d'],
  [2 * year - hour, '729d'],
  [2 * year, '2y'],
  [3 * year + 20 * day, '3y20d'],
  [8 * year, '8y'],
  [9 * year + 100 * day, '9y'],
];
for (const [seconds, text] of cases) {
  test(`${seconds} seconds are shown as ${text}`, () => assert.equal(age(seconds * 1000), text));
}

test('a time that is not there is unknown', () => {
  assert.equal(ageSince(undefined, 0), '<unknown>');
  assert.equal(ageSince('', 0), '<unknown>');
  assert.equal(ageSince('1970-01-01T00:00:00Z', 5000), '5s');
});
