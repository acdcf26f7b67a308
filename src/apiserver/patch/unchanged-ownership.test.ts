import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import type { JsonObject } from './json-value.ts';
import { managedFieldsOf, readManaged, withManagedFields, writeManaged } from './managed-fields.ts';
import { ownershipAfter, trackUpdate, withUnchangedOwners } from './track-update.ts';

const value = fc.constantFrom('1', '2');
const content = fc.oneof(
  { weight: 3, arbitrary: fc.record({ a: value, b: value }) },
  { weight: 1, arbitrary: fc.dictionary(fc.constantFrom('a', 'b', 'c'), value) },
);
const write = fc.record({
  manager: fc.constantFrom('kubectl', 'kubectl', 'kubectl', ''),
  data: content,
  labels: content,
  seconds: fc.integer({ min: -1, max: 5 }),
  subresource: fc.constantFrom('', '', '', 'status'),
  sendsBooks: fc.boolean(),
});

function objectOf(data: Record<string, string>, labels: Record<string, string>): JsonObject {
  return { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'web', labels: { ...labels } }, data: { ...data } };
}

test('where it answers, it answers what reading and printing the books again would', () => {
  let answers = 0;
  fc.assert(
    fc.property(fc.array(write, { minLength: 2, maxLength: 8 }), (writes) => {
      let nowMs = Date.UTC(2026, 7, 20);
      let live: JsonObject | undefined;
      for (const { manager, data, labels, seconds, subresource, sendsBooks } of writes) {
        nowMs += seconds * 1000;
        const books = sendsBooks && live !== undefined ? managedFieldsOf(live) : undefined;
        const object = withManagedFields(objectOf(data, labels), books as readonly JsonObject[] | undefined);
        const update = { shape: configMapShape, manager, apiVersion: 'v1', subresource, nowMs, live, object };
        const short = withUnchangedOwners(update);
        if (short !== undefined) {
          answers += 1;
          const before = readManaged(live && managedFieldsOf(live)) ?? new Map();
          assert.deepEqual(short, withManagedFields(object, writeManaged(ownershipAfter(update, before))));
        }
        live = trackUpdate(update);
      }
    }),
  );
  assert.ok(answers > 10, 'the short way was taken');
});

const live = trackUpdate({
  shape: configMapShape,
  manager: 'kubectl',
  apiVersion: 'v1',
  nowMs: 0,
  live: undefined,
  object: objectOf({ a: '1' }, {}),
});
const refusals = [
  { it: 'a field that is new', object: objectOf({ a: '1', b: '1' }, {}) },
  { it: 'a field that goes', object: objectOf({}, {}) },
  { it: 'another manager', object: objectOf({ a: '2' }, {}), manager: 'other' },
  { it: 'books that are reset', object: { ...objectOf({ a: '2' }, {}), metadata: { name: 'web', managedFields: [] } } },
  { it: 'a clock that went back', object: objectOf({ a: '2' }, {}), nowMs: -5000 },
];
for (const { it, object, manager = 'kubectl', nowMs = 1000 } of refusals) {
  test(`it leaves ${it} to others`, () => {
    assert.equal(
      withUnchangedOwners({ shape: configMapShape, manager, apiVersion: 'v1', nowMs, live, object }),
      undefined,
    );
  });
}

test('a value of its own gets a later time and nothing else', () => {
  const object = objectOf({ a: '2' }, {});
  const tracked = withUnchangedOwners({
    shape: configMapShape,
    manager: 'kubectl',
    apiVersion: 'v1',
    nowMs: 1000,
    live,
    object,
  });
  const [entry] = managedFieldsOf(live) as JsonObject[];
  const later = { ...entry, time: '1970-01-01T00:00:01Z' };
  assert.deepEqual(tracked, withManagedFields(object, [later]));
});
