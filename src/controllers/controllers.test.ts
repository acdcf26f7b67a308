import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseControllers } from './controllers.ts';

const cases = [
  { list: '*', on: 'a b' },
  { list: 'a', on: 'a' },
  { list: '*,-a', on: 'b' },
  { list: '-a', on: '' },
  { list: '*,off', on: 'a b off' },
  { list: 'off, b', on: 'b off' },
  { list: 'a,-a', on: 'a' },
  { list: '-a,a,*', on: 'b' },
  { list: 'none', on: '' },
];
for (const { list, on } of cases) {
  test(`--controllers=${list} chooses ${on === '' ? 'none' : on}`, () => {
    assert.equal([...chooseControllers(list, ['a', 'b', 'off'], ['off'])].join(' '), on);
  });
}

for (const list of ['c', '*,-c', 'none,a', '']) {
  test(`--controllers=${list} is refused, with the names there are`, () => {
    assert.throws(() => chooseControllers(list, ['a', 'b']), /the names are a, b$/);
  });
}
