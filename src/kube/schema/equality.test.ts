import assert from 'node:assert/strict';
import { test } from 'node:test';
import { means } from './equality.ts';
import { boolean, list, map, object, quantity, string } from './schema.ts';

const shape = object({
  name: string,
  flag: boolean,
  items: list(string),
  limits: map(quantity),
  labels: map(string),
  inner: object({ name: string, labels: map(string), sizes: map(object({ name: string })) }),
});

const cases: readonly { it: string; a: unknown; b: unknown; same: boolean }[] = [
  { it: 'takes absent and empty text for the same', a: {}, b: { name: '' }, same: true },
  { it: 'takes absent and an empty list for the same', a: {}, b: { items: [] }, same: true },
  { it: 'takes absent and an empty map for the same', a: { limits: {} }, b: {}, same: true },
  { it: 'takes absent and an object of nothing for the same', a: { inner: { name: '' } }, b: {}, same: true },
  { it: 'distinguishes absent from false, which may mean something', a: {}, b: { flag: false }, same: false },
  { it: 'compares quantities by their amount', a: { limits: { cpu: '1000m' } }, b: { limits: { cpu: 1 } }, same: true },
  { it: 'distinguishes amounts', a: { limits: { cpu: '1001m' } }, b: { limits: { cpu: 1 } }, same: false },
  {
    it: 'compares unreadable quantities as text',
    a: { limits: { cpu: 'x' } },
    b: { limits: { cpu: 'y' } },
    same: false,
  },
  { it: 'distinguishes lists of another order', a: { items: ['a', 'b'] }, b: { items: ['b', 'a'] }, same: false },
  { it: 'distinguishes a longer list', a: { items: ['a'] }, b: { items: ['a', 'b'] }, same: false },
  { it: 'distinguishes text from a map', a: { name: 'a' }, b: { name: { a: 'b' } }, same: false },
  { it: 'sees a key without a value', a: { labels: { x: '' } }, b: {}, same: false },
  { it: 'sees one more key without a value', a: { labels: { x: 'y', z: '' } }, b: { labels: { x: 'y' } }, same: false },
  { it: 'sees another key without a value', a: { labels: { x: '' } }, b: { labels: { y: '' } }, same: false },
  { it: 'sees such a key further down', a: { inner: { labels: { x: '' } } }, b: { inner: {} }, same: false },
  { it: 'sees it where all else is empty', a: { inner: { name: '', labels: { x: '' } } }, b: {}, same: false },
  { it: 'sees a key of an empty object', a: { inner: { sizes: { x: {} } } }, b: { inner: { sizes: {} } }, same: false },
  {
    it: 'takes values of one key that are empty for the same',
    a: { labels: { x: '' } },
    b: { labels: { x: '' } },
    same: true,
  },
  { it: 'takes empty maps further down for the same', a: { inner: { labels: {} } }, b: {}, same: true },
  { it: 'sees a key named like a method', a: { limits: { toString: 1 } }, b: {}, same: false },
];
for (const { it, a, b, same } of cases) {
  test(`means ${it}`, () => {
    assert.equal(means(shape, a as object, b as object), same);
    assert.equal(means(shape, b as object, a as object), same);
  });
}
