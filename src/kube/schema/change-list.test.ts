import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeList } from './equality.ts';
import { any, list, map, object, quantity, string } from './schema.ts';

const shape = object({ name: string, items: list(object({ key: string })), limits: map(quantity), more: list(any) });

test('changeList names each field that differs, old before new', () => {
  const old = { name: 'a', items: [{ key: 'x' }, { key: 'y' }], limits: { cpu: '1' } };
  const changed = { name: 'b', items: [{ key: 'x' }], limits: { cpu: '1000m', memory: '1Gi' } };
  const lines = ['- name: "a"', '+ name: "b"', '- items[1]: {"key":"y"}', '+ limits.memory: "1Gi"'];
  assert.equal(changeList(shape, old, changed), lines.join('\n'));
});

test('changeList names a key of a map whose value is empty', () => {
  const labels = object({ labels: map(string) });
  assert.equal(changeList(labels, { labels: { a: '' } }, { labels: { b: '' } }), '- labels.a: ""\n+ labels.b: ""');
});

test('changeList is empty for what means the same', () => {
  assert.equal(changeList(shape, { name: '' }, { items: [] }), '');
});

test('changeList stops after twenty changes and says how many are left', () => {
  const many = Array.from({ length: 30 }, (_, index) => index + 1);
  const changed = changeList(shape, { more: many }, { more: many.map((value) => value + 1) }).split('\n');
  assert.equal(changed.length, 41);
  assert.equal(changed.at(-1), '… and 10 more changes');
});
