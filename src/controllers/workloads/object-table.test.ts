import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Timers } from '../../base/timers.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerReference } from '../../kube/schema/meta.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import type { Cluster, Kind, ObjectChange } from '../cluster/cluster.ts';
import { ObjectTable } from './object-table.ts';

const kind: Kind = { group: '', version: 'v1', kind: 'Pod', plural: 'pods', namespaced: true };
const cluster: Partial<Cluster> = { keyOf: (_kind, namespace, name) => `${namespace}/${name}` };

function pod(name: string, version: number, more: Partial<KubeObject['metadata']> = {}): KubeObject {
  return { metadata: { name, namespace: 'a', uid: `uid-${name}`, resourceVersion: String(version), ...more } };
}

function newTable(): {
  readonly table: ObjectTable;
  readonly clock: FakeClock;
  readonly timers: Timers;
  readonly see: (object: KubeObject, type?: ObjectChange['type']) => void;
} {
  const clock = new FakeClock(0);
  const timers = new Timers(clock);
  const table = new ObjectTable(kind, { cluster: cluster as Cluster, clock, timers });
  const see = (object: KubeObject, type: ObjectChange['type'] = 'put'): void =>
    table.see({ key: table.keyOf(object), object, type, isInitial: false, mentions: () => true });
  return { table, clock, timers, see };
}

const ending = { deletionTimestamp: '2026-01-01T00:00:00Z' };

test('what was created is there before the watch reports it, and belongs to its controller', () => {
  const { table, see } = newTable();
  const ownerReferences = [controllerReference('apps/v1', 'ReplicaSet', { name: 'web', uid: 'set' })];
  table.created(pod('one', 5, { ownerReferences }));
  assert.deepEqual(names(table.controlledBy('set')), ['one']);
  see(pod('one', 5, { ownerReferences }));
  see(pod('one', 6));
  assert.deepEqual([names(table.controlledBy('set')), names(table.orphansIn('a'))], [[], ['one']]);
});

test('what was created and has gone before the answer came is not shown again', () => {
  const { table, see } = newTable();
  see(pod('one', 5));
  see(pod('one', 5), 'delete');
  table.created(pod('one', 5));
  assert.equal(table.get('a/one'), undefined);
});

test('a successor of the same name is shown although the watch still reports its predecessor', () => {
  const { table, see } = newTable();
  see(pod('one', 5));
  table.created(pod('one', 8, { uid: 'second' }));
  see(pod('one', 6));
  see(pod('one', 7), 'delete');
  assert.equal(table.get('a/one')?.metadata.uid, 'second');
});

test('what was deleted counts as ending until the watch says so, also after a change that came before', () => {
  const { table, see } = newTable();
  see(pod('one', 5));
  table.deleted(pod('one', 5));
  see(pod('one', 6));
  assert.notEqual(table.get('a/one')?.metadata.deletionTimestamp, undefined);
  see(pod('one', 7, ending));
  assert.equal(table.get('a/one')?.metadata.resourceVersion, '7');
  see(pod('one', 8), 'delete');
  assert.equal(table.get('a/one'), undefined);
});

test('what was changed is shown until something newer than the version it was made from is reported', () => {
  const { table, see } = newTable();
  see(pod('one', 5));
  table.changed(pod('one', 6, { labels: { a: 'b' } }));
  see(pod('one', 6));
  assert.deepEqual(table.get('a/one')?.metadata.labels, { a: 'b' });
  see(pod('one', 7));
  assert.equal(table.get('a/one')?.metadata.labels, undefined);
});

test('what the watch never reports is believed for five minutes', async () => {
  const { table, clock, timers } = newTable();
  const stop = new AbortController();
  const running = timers.run(stop.signal);
  const reported: (string | undefined)[] = [];
  table.follow((_key, object) => void reported.push(object?.metadata.name));
  table.created(pod('one', 5));
  await clock.advance(299_000);
  assert.deepEqual(names(table.inNamespace('a')), ['one']);
  await clock.advance(2_000);
  assert.deepEqual([names(table.inNamespace('a')), reported], [[], ['one', undefined]]);
  stop.abort();
  await running;
});

function names(objects: readonly KubeObject[]): readonly string[] {
  return objects.map(({ metadata }) => metadata.name);
}
