import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { podShape } from '../../kube/kinds/pod/pod.ts';
import { type FieldSet, pathText } from './field-set.ts';
import { type Json, type JsonObject, isList, isObject } from './json-value.ts';
import { type Owner, managedFieldsOf, readManaged, withManagedFields } from './managed-fields.ts';
import { type Update, trackUpdate } from './track-update.ts';

const start = Date.parse('2026-08-01T10:00:00Z');
const cm = (data: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  metadata: { name: 'web', ...metadata },
  data,
});

function track(live: JsonObject | undefined, object: JsonObject, options: Partial<Update> = {}): JsonObject {
  return trackUpdate({ shape: configMapShape, apiVersion: 'v1', manager: 'm', nowMs: start, ...options, live, object });
}
function entriesOf(object: JsonObject): JsonObject[] {
  const entries = managedFieldsOf(object);
  return isList(entries) ? entries.filter(isObject) : [];
}
function owners(object: JsonObject): string[] {
  const managed = readManaged(managedFieldsOf(object)) ?? new Map<string, Owner>();
  return [...managed.values()].map(({ manager, time, fields }) => `${manager} ${time ?? ''}: ${texts(fields)}`);
}
const texts = (fields: FieldSet): string => [...fields.paths()].map(pathText).join(' ');

test('who creates an object owns all of it but what the server decides', () => {
  const object = track(undefined, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    ...cm(
      { a: '1' },
      {
        namespace: 'n',
        uid: 'u',
        generation: 1,
        resourceVersion: '5',
        creationTimestamp: 't',
        selfLink: '/',
        labels: { x: 'y' },
      },
    ),
  });
  assert.deepEqual(entriesOf(object), [
    {
      manager: 'm',
      operation: 'Update',
      apiVersion: 'v1',
      time: '2026-08-01T10:00:00Z',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:data': { '.': {}, 'f:a': {} }, 'f:metadata': { 'f:labels': { '.': {}, 'f:x': {} } } },
    },
  ]);
});

test('the manager that changes a field owns it alone; a new field belongs to its creator', () => {
  const live = track(undefined, cm({ a: '1', b: '1' }));
  const object = track(live, cm({ a: '2', b: '1', c: '1' }), { manager: 'n', nowMs: start + 1000 });
  assert.deepEqual(owners(object), [
    'm 2026-08-01T10:00:00Z: .data .data.b',
    'n 2026-08-01T10:00:01Z: .data.a .data.c',
  ]);
});

test('a removed field has no owner, and a manager without fields is removed too', () => {
  const live = track(track(undefined, cm({ a: '1' })), cm({ a: '1', b: '1' }), { manager: 'n' });
  assert.deepEqual(owners(track(live, cm({ a: '1' }))), ['m 2026-08-01T10:00:00Z: .data .data.a']);
  assert.deepEqual(owners(track(live, { metadata: { name: 'web' } })), []);
});

test('a write that changes nothing changes no time', () => {
  const live = track(undefined, cm({ a: '1' }));
  assert.deepEqual(track(live, cm({ a: '1' }, { resourceVersion: '9' }), { nowMs: start + 5000 })['metadata'], {
    name: 'web',
    resourceVersion: '9',
    managedFields: managedFieldsOf(live) ?? null,
  });
});

test('the same manager through a subresource or another version is another owner', () => {
  const live = track(undefined, cm({ a: '1' }));
  const status = track(live, cm({ a: '1', b: '1' }), { subresource: 'status' });
  const object = track(status, cm({ a: '1', b: '1', c: '1' }), { apiVersion: 'v2' });
  const identities = entriesOf(object).map(({ manager, apiVersion, subresource = null }) => [
    manager,
    apiVersion,
    subresource,
  ]);
  assert.deepEqual(identities, [
    ['m', 'v1', null],
    ['m', 'v1', 'status'],
    ['m', 'v2', null],
  ]);
});

test('a write without a name belongs to unknown', () => {
  assert.deepEqual(owners(track(undefined, cm({ a: '1' }), { manager: '' })), [
    'unknown 2026-08-01T10:00:00Z: .data .data.a',
  ]);
});

for (const reset of [[], [{}]]) {
  test(`sending ${JSON.stringify(reset)} resets managed fields, and updates do not bring them back`, () => {
    const live = track(undefined, cm({ a: '1' }));
    const object = track(live, cm({ a: '2' }, { managedFields: reset }));
    assert.equal(managedFieldsOf(object), undefined);
    assert.equal(managedFieldsOf(track(object, cm({ a: '3' }))), undefined);
  });
}

test('managed fields that a client sends count where they can be read, and only for the object itself', () => {
  const live = track(undefined, cm({ a: '1' }));
  const renamed = entriesOf(live).map((entry) => ({ ...entry, manager: 'renamed' }));
  assert.deepEqual(owners(track(live, cm({ a: '1' }, { managedFields: renamed }))), [
    'renamed 2026-08-01T10:00:00Z: .data .data.a',
  ]);
  assert.deepEqual(
    owners(track(live, cm({ a: '1' }, { managedFields: renamed }), { subresource: 'status' })),
    owners(live),
  );
  const broken: Json[] = [
    ...[{ operation: 'Eat' }, { fieldsType: 'V2' }, { apiVersion: '' }, { fieldsV1: { x: {} } }, { fieldsV1: 1 }].map(
      (change) => [{ ...renamed[0], ...change }],
    ),
    'text',
    [1],
    [{ ...renamed[0], fieldsV1: JSON.parse(`${'{"f:a":'.repeat(5000)}{}${'}'.repeat(5000)}`) as Json }],
  ];
  for (const managedFields of broken) {
    assert.deepEqual(owners(track(live, cm({ a: '1' }, { managedFields }))), owners(live));
  }
});

test('more than ten updaters are put together, the oldest first, and no field loses its owner', () => {
  let object = track(undefined, cm({ k0: '1' }), { manager: 'm0' });
  for (let index = 1; index <= 14; index += 1) {
    const data = Object.fromEntries(Array.from({ length: index + 1 }, (_, key) => [`k${key}`, '1']));
    object = track(object, withManagedFields(cm(data), entriesOf(object)), {
      manager: `m${index}`,
      nowMs: start + index * 1000,
    });
  }
  const list = owners(object);
  assert.equal(list.length, 10);
  assert.equal(
    list[0],
    'ancient-changes 2026-08-01T10:00:05Z: .data .data.k0 .data.k1 .data.k2 .data.k3 .data.k4 .data.k5',
  );
  assert.equal(list.at(-1), 'm14 2026-08-01T10:00:14Z: .data.k14');
});

test('indistinguishable items do not stop a write', () => {
  const live = track(undefined, { metadata: { name: 'web' }, spec: { nodeName: 'n' } }, { shape: podShape });
  const object = track(
    live,
    { metadata: { name: 'web' }, spec: { nodeName: 'n' }, status: { conditions: [null] } },
    { shape: podShape },
  );
  assert.deepEqual(managedFieldsOf(object), managedFieldsOf(live));
});

const anyData = fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), fc.constantFrom('1', '2'));
test('after any writes each field of the data has an owner, and nothing else has one', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('m', 'n'), anyData), { minLength: 1, maxLength: 6 }), (writes) => {
      let object: JsonObject | undefined;
      // A label that is never touched keeps the tracking going when all data are gone.
      for (const [manager, data] of writes) object = track(object, cm(data, { labels: { keep: 'x' } }), { manager });
      const last = writes.at(-1)?.[1] ?? {};
      const owned = owners(object ?? {}).flatMap((owner) => owner.split(' '));
      const keys = owned.filter((path) => path.startsWith('.data.')).toSorted();
      assert.deepEqual(
        keys,
        Object.keys(last)
          .map((key) => `.data.${key}`)
          .toSorted(),
      );
    }),
  );
});

/** Steps are counted where all of them pass: every node of a set of fields is put into a Map. */
function stepsFor(managers: number, t: TestContext): number {
  const managedFields = Array.from({ length: managers }, (_, index) => ({
    manager: `m${index}`,
    operation: 'Update',
    apiVersion: 'v1',
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:data': { [`f:k${index}`]: {} } },
  }));
  const object = { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'web', managedFields }, data: { a: '1' } };
  const set = t.mock.method(Map.prototype, 'set');
  trackUpdate({ shape: configMapShape, manager: 'kubectl', apiVersion: 'v1', nowMs: 0, live: undefined, object });
  const steps = set.mock.callCount();
  set.mock.restore();
  return steps;
}

test('ten times as many managers take about ten times as many steps', (t) => {
  const [few, many] = [stepsFor(200, t), stepsFor(2_000, t)];
  assert.ok(many < 16 * few, `${few} steps became ${many}`);
});
