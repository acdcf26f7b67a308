import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import * as errors from './field-errors.ts';
import { keyPart } from './schema.ts';
import { placeOf, placedAt, placedBelow, showPath } from './field-errors.ts';

const path = ['spec', 'volumes', 0, 'name'];
const cases = [
  { error: errors.requiredField(path), message: 'spec.volumes[0].name: Required value' },
  { error: errors.requiredField(path, 'x y'), message: 'spec.volumes[0].name: Required value: x y' },
  {
    error: errors.invalidField(path, 'a"\n\u007f', 'no'),
    message: 'spec.volumes[0].name: Invalid value: "a\\"\\n\\x7f": no',
  },
  { error: errors.invalidField(path, 'ü 😀', 'no'), message: 'spec.volumes[0].name: Invalid value: "ü 😀": no' },
  { error: errors.invalidField(path, -1, 'no'), message: 'spec.volumes[0].name: Invalid value: -1: no' },
  { error: errors.invalidField(path, true, 'no'), message: 'spec.volumes[0].name: Invalid value: true: no' },
  { error: errors.invalidField(path, null, 'no'), message: 'spec.volumes[0].name: Invalid value: null: no' },
  {
    error: errors.invalidField(path, { a: ['<b>'] }, 'no'),
    message: 'spec.volumes[0].name: Invalid value: {"a":["\\u003cb\\u003e"]}: no',
  },
  { error: errors.duplicateField(path, 'a'), message: 'spec.volumes[0].name: Duplicate value: "a"' },
  { error: errors.forbiddenField(path, 'no'), message: 'spec.volumes[0].name: Forbidden: no' },
  { error: errors.notFoundField(path, 'a'), message: 'spec.volumes[0].name: Not found: "a"' },
  {
    error: errors.unsupportedField(path, 'a<', ['b', 'c']),
    message: 'spec.volumes[0].name: Unsupported value: "a\\u003c": supported values: "b", "c"',
  },
  {
    error: errors.unsupportedText(path, 'a<', ['b']),
    message: 'spec.volumes[0].name: Unsupported value: "a<": supported values: "b"',
  },
  { error: errors.unsupportedField(path, 'a', []), message: 'spec.volumes[0].name: Unsupported value: "a"' },
  { error: errors.tooLongField(path, 7), message: 'spec.volumes[0].name: Too long: may not be more than 7 bytes' },
  { error: errors.tooManyField(path, 9, 7), message: 'spec.volumes[0].name: Too many: 9: must have at most 7 items' },
];
for (const { error, message } of cases) {
  test(`a field error reads ${message}`, () => {
    assert.equal(error.message, message);
    assert.deepEqual(error.path, path);
  });
}

const paths = [
  { parts: ['data', keyPart('tls.crt')], shown: 'data[tls.crt]', place: ['data', 'tls.crt'] },
  { parts: ['data', keyPart('[x]')], shown: 'data[[x]]', place: ['data', '[x]'] },
  { parts: [keyPart('')], shown: '[]', place: [''] },
  { parts: ['a', 0, 1, 'b'], shown: 'a[0][1].b', place: ['a', 0, 1, 'b'] },
];
for (const { parts, shown, place } of paths) {
  test(`the path ${shown} leads to ${JSON.stringify(place)}`, () => {
    assert.equal(showPath(parts), shown);
    assert.deepEqual(placeOf(errors.requiredField(parts)), place);
  });
}

test('property: the place of a key is the key, whatever it is', () => {
  fc.assert(
    fc.property(fc.string(), (key) => {
      assert.deepEqual(placeOf(errors.requiredField(['data', keyPart(key)])), ['data', key]);
    }),
  );
});

test('an error can be said to be at another place than its path names', () => {
  const error = errors.requiredField(['volumes', 'path']);
  assert.deepEqual(placedAt(['x', keyPart('y')], [error]).map(placeOf), [['x', 'y']]);
  assert.deepEqual(placedBelow(['volumes', 3], ['volumes'], [error]).map(placeOf), [['volumes', 3, 'path']]);
  assert.equal(placedAt(['x'], [error])[0]?.message, error.message);
});
