import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aConfigMap, aPod } from '../../testing/fakes/builders.ts';
import { configMaps } from '../resources/configuration.ts';
import { pods } from '../resources/pod.ts';
import { partialObjectMetadata, tableOf } from './table.ts';

const now = Date.parse('2026-01-01T00:00:10Z');
const options = { version: 'v1', includeObject: 'Metadata', withColumns: true, now } as const;
const web = aConfigMap({
  name: 'web',
  data: { a: '1' },
  metadata: { name: 'web', creationTimestamp: '2026-01-01T00:00:00Z' },
});

test('a table has all columns, wide ones too, and a cell for each', () => {
  const table = tableOf(pods, [aPod()], { resourceVersion: '7' }, options);
  assert.equal(table.kind, 'Table');
  assert.equal(table.apiVersion, 'meta.k8s.io/v1');
  assert.deepEqual(table.metadata, { resourceVersion: '7' });
  assert.deepEqual(
    table.columnDefinitions.map(({ name, priority }) => `${name} ${priority}`),
    [
      'Name 0',
      'Ready 0',
      'Status 0',
      'Restarts 0',
      'Age 0',
      'IP 1',
      'Node 1',
      'Nominated Node 1',
      'Readiness Gates 1',
      'Environment 1',
      'Idle 1',
    ],
  );
  assert.equal(table.rows[0]?.cells.length, table.columnDefinitions.length);
});

test('a column says its type, its format and what it shows', () => {
  const [name] = tableOf(configMaps, [], {}, options).columnDefinitions;
  assert.deepEqual(Object.keys(name ?? {}), ['name', 'type', 'format', 'description', 'priority']);
  assert.equal(name?.format, 'name');
});

test('a row carries the metadata of its object, all of the object, or nothing', () => {
  const row = (includeObject: 'None' | 'Metadata' | 'Object') =>
    tableOf(configMaps, [web], {}, { ...options, includeObject }).rows[0];
  assert.deepEqual(row('Metadata'), {
    cells: ['web', 1, '10s'],
    object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: web.metadata },
  });
  assert.deepEqual(row('Object')?.object, web);
  assert.deepEqual(row('None'), { cells: ['web', 1, '10s'] });
});

test('columns may be left out, and the older version differs in name alone', () => {
  const table = tableOf(configMaps, [web], {}, { ...options, version: 'v1beta1', withColumns: false });
  assert.deepEqual(table.columnDefinitions, []);
  assert.equal(table.apiVersion, 'meta.k8s.io/v1beta1');
  assert.equal(table.rows[0]?.object?.apiVersion, 'meta.k8s.io/v1beta1');
});

test('a row of an ended pod says so', () => {
  const conditions = (phase: string) => tableOf(pods, [aPod({ status: { phase } })], {}, options).rows[0]?.conditions;
  const completed = { type: 'Completed', status: 'True' };
  assert.deepEqual(conditions('Succeeded'), [
    { ...completed, reason: 'Succeeded', message: 'The pod has completed successfully.' },
  ]);
  assert.deepEqual(conditions('Failed'), [{ ...completed, reason: 'Failed', message: 'The pod failed.' }]);
  assert.equal(conditions('Running'), undefined);
});

test('metadata alone, of one object', () => {
  const partial = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: web.metadata };
  assert.deepEqual(partialObjectMetadata(web, 'v1'), partial);
});
