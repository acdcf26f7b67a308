import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sameContent } from './node-restriction.ts';

const bare = (entries: Record<string, unknown>): object => Object.assign(Object.create(null) as object, entries);
const cases: readonly (readonly [unknown, unknown, boolean])[] = [
  [{ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 }, true],
  [bare({ a: 'x' }), { a: 'x' }, true],
  [{ a: [] }, {}, true],
  [{ a: {} }, { a: undefined }, true],
  [null, undefined, true],
  [[], {}, true],
  [[null], [], false],
  [[1, 2], [2, 1], false],
  [[1], [1, undefined], false],
  [{ a: '' }, {}, false],
  [{ a: 0 }, { a: false }, false],
  [{ a: { b: 1 } }, { a: { b: 2 } }, false],
  [['x'], { 0: 'x' }, false],
  [JSON.parse('{"__proto__":"x"}'), {}, false],
];
for (const [a, b, same] of cases) {
  test(`${JSON.stringify(a)} and ${JSON.stringify(b)} ${same ? 'say the same' : 'differ'}`, () => {
    assert.equal(sameContent(a, b), same);
    assert.equal(sameContent(b, a), same);
  });
}
