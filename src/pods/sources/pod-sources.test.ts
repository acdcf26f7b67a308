import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { mergePods } from './pod-sources.ts';

type MergedPods = ReturnType<typeof mergePods>;

function pod(uid: string, parts: PodParts = {}): Pod {
  return aPod({ ...parts, metadata: { uid, name: `pod-${uid}`, ...parts.metadata } });
}

function show({ updates }: MergedPods): string[] {
  return updates.map(({ kind, pods }) => `${kind} ${pods.map(({ metadata }) => metadata.uid).join(',')}`.trim());
}

/** Merges the lists one after another and shows what the last one changed. */
function merge(...lists: readonly (readonly Pod[])[]): MergedPods {
  let known: MergedPods['known'] | undefined;
  let merged: MergedPods | undefined;
  for (const [index, list] of lists.entries()) {
    merged = mergePods(known, list, 'api', `seen-${index}`);
    known = merged.known;
  }
  assert.ok(merged);
  return merged;
}

const running = { phase: 'Running' };
const cases: readonly { it: string; lists: readonly (readonly Pod[])[]; shows: readonly string[] }[] = [
  { it: 'yields one empty add for a first empty list', lists: [[]], shows: ['add'] },
  { it: 'yields nothing for a later empty list', lists: [[], []], shows: [] },
  { it: 'adds what is new', lists: [[pod('a')], [pod('a'), pod('b')]], shows: ['add b'] },
  {
    it: 'takes two pods of one name in different namespaces',
    lists: [[pod('a', { metadata: { name: 'x' } }), pod('b', { metadata: { name: 'x', namespace: 'bank' } })]],
    shows: ['add a,b'],
  },
  {
    it: 'drops the second of the same name and namespace',
    lists: [[pod('a', { metadata: { name: 'x' } }), pod('b', { metadata: { name: 'x' } })]],
    shows: ['add a'],
  },
  {
    it: 'only reconciles when the status alone changed',
    lists: [[pod('a')], [pod('a', { status: running })]],
    shows: ['reconcile a'],
  },
  {
    it: 'updates when spec and status changed',
    lists: [[pod('a')], [pod('a', { status: running, containers: [aContainer({ image: 'other' })] })]],
    shows: ['update a'],
  },
  { it: 'yields nothing without a change', lists: [[pod('a')], [pod('a')]], shows: [] },
  {
    it: 'counts no bookkeeping of the API server',
    lists: [
      [pod('a')],
      [
        pod('a', {
          metadata: { resourceVersion: '9', finalizers: ['x/y'], creationTimestamp: '2026-01-01T00:00:00Z' },
        }),
      ],
    ],
    shows: [],
  },
  {
    it: 'updates when a label changed',
    lists: [[pod('a')], [pod('a', { metadata: { labels: { x: 'y' } } })]],
    shows: ['update a'],
  },
  {
    it: 'updates when an annotation was removed',
    lists: [[pod('a', { metadata: { annotations: { x: 'y' } } })], [pod('a')]],
    shows: ['update a'],
  },
  {
    it: 'deletes gracefully what has a deletionTimestamp',
    lists: [[pod('a')], [pod('a', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })]],
    shows: ['delete a'],
  },
  { it: 'removes what vanished', lists: [[pod('a'), pod('b')], [pod('b')]], shows: ['remove a'] },
  {
    it: 'reports in the order remove, add, update, delete, reconcile',
    lists: [
      [pod('gone'), pod('edited'), pod('dying'), pod('moved')],
      [
        pod('moved', { status: running }),
        pod('dying', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
        pod('edited', { metadata: { labels: { x: 'y' } } }),
        pod('new'),
      ],
    ],
    shows: ['remove gone', 'add new', 'update edited', 'delete dying', 'reconcile moved'],
  },
];
for (const { it, lists, shows } of cases) {
  test(`mergePods ${it}`, () => {
    assert.deepEqual(show(merge(...lists)), shows);
  });
}

test('mergePods: the time a pod was first seen survives its updates', () => {
  const { updates } = merge([pod('a')], [pod('a', { metadata: { labels: { x: 'y' } } })]);
  assert.deepEqual(updates[0]?.pods[0]?.metadata.annotations, {
    'kubernetes.io/config.source': 'api',
    'kubernetes.io/config.seen': 'seen-0',
  });
});

test('mergePods names the duplicates it left out', () => {
  const { duplicates } = merge([pod('a', { metadata: { name: 'x' } }), pod('b', { metadata: { name: 'x' } })]);
  assert.deepEqual(
    duplicates.map(({ metadata }) => metadata.uid),
    ['b'],
  );
});

const anyPods = fc
  .uniqueArray(fc.record({ uid: fc.constantFrom('a', 'b', 'c', 'd'), label: fc.constantFrom('1', '2') }), {
    selector: ({ uid }) => uid,
  })
  .map((list) => list.map(({ uid, label }) => pod(uid, { metadata: { labels: { label } } })));

test('mergePods carried out leaves exactly the pods of the last list, and a repetition changes nothing', () => {
  fc.assert(
    fc.property(fc.array(anyPods, { minLength: 1, maxLength: 6 }), (lists) => {
      let known: MergedPods['known'] | undefined;
      const carriedOut = new Map<string, string | undefined>();
      for (const list of lists) {
        const merged = mergePods(known, list, 'api', 'now');
        known = merged.known;
        for (const { kind, pods } of merged.updates) {
          for (const { metadata } of pods) {
            if (kind === 'remove') assert.ok(carriedOut.delete(metadata.uid ?? ''));
            else {
              assert.equal(carriedOut.has(metadata.uid ?? ''), kind !== 'add');
              carriedOut.set(metadata.uid ?? '', metadata.labels?.['label']);
            }
          }
        }
      }
      const last = lists.at(-1) ?? [];
      assert.deepEqual(
        carriedOut,
        new Map(last.map((one) => [one.metadata.uid ?? '', one.metadata.labels?.['label']])),
      );
      assert.deepEqual(mergePods(known, structuredClone(last), 'api', 'later').updates, []);
    }),
  );
});
