/** What a StatefulSet does next with the pods it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type StatefulSet, statefulSetKind } from '../../kube/kinds/workloads/stateful-set.ts';
import { type SetView, planStatefulSet, startsAsBefore } from './stateful-set-plan.ts';

const nowMs = Date.parse('2026-01-01T10:00:00Z');

function setOf(spec: Partial<StatefulSet['spec']>): StatefulSet {
  return statefulSetKind.complete({
    metadata: { name: 'web', uid: 'u', generation: 1 },
    spec: { replicas: 3, template: { spec: { containers: [] } }, ...spec },
  });
}

/** `old`, `new`: ready since ten seconds. With `?` it is not ready, with `…` it ends, with `!` it has failed. */
function podOf(ordinal: string, text: string): Pod {
  const [, revision = '', state = ''] = /^(\w+)(.?)$/.exec(text) ?? [];
  const lastTransitionTime = new Date(nowMs - 10_000).toISOString();
  return {
    metadata: {
      name: `web-${ordinal}`,
      uid: `u-${ordinal}`,
      labels: { 'controller-revision-hash': revision },
      ...(state === '…' && { deletionTimestamp: '2026-01-01T10:00:30Z' }),
    },
    spec: { containers: [] },
    status: {
      phase: state === '!' ? 'Failed' : 'Running',
      conditions: [{ type: 'Ready', status: state === '' || state === '…' ? 'True' : 'False', lastTransitionTime }],
    },
  };
}

function viewOf(spec: Partial<StatefulSet['spec']>, pods: Readonly<Record<string, string>>): SetView {
  const all = Object.entries(pods).map(([ordinal, text]) => podOf(ordinal, text));
  return { set: setOf(spec), pods: all, current: 'old', update: 'new', nowMs };
}

function show(view: SetView): string {
  const { create, remove } = planStatefulSet(view);
  return [...create.map((ordinal) => `+${ordinal}`), ...remove.map(({ metadata }) => metadata.name.slice(3))].join(' ');
}

type Spec = Partial<StatefulSet['spec']>;
const parallel: Spec = { podManagementPolicy: 'Parallel' };
const rolling = (rollingUpdate: object): Spec => ({ updateStrategy: { type: 'RollingUpdate', rollingUpdate } });
const onDelete: Spec = { updateStrategy: { type: 'OnDelete' } };

const cases: readonly {
  readonly it: string;
  readonly spec?: Spec;
  readonly pods?: Readonly<Record<string, string>>;
  readonly plan: string;
}[] = [
  { it: 'creates its first pod', plan: '+0' },
  { it: 'creates the next when that one is ready', pods: { 0: 'new' }, plan: '+1' },
  { it: 'waits while one is not ready', pods: { 0: 'new', 1: 'new?' }, plan: '' },
  { it: 'waits while one ends', pods: { 0: 'new…', 1: 'new' }, plan: '' },
  {
    it: 'waits until one has been ready for as long as it should',
    spec: { minReadySeconds: 11 },
    pods: { 0: 'new' },
    plan: '',
  },
  { it: 'goes on when it has been', spec: { minReadySeconds: 10 }, pods: { 0: 'new' }, plan: '+1' },
  { it: 'fills a gap first', pods: { 0: 'new', 2: 'new' }, plan: '+1' },
  { it: 'makes one that failed again', pods: { 0: 'new', 1: 'new!', 2: 'new' }, plan: '-1' },
  { it: 'begins at another number', spec: { ordinals: { start: 5 } }, pods: { 5: 'new' }, plan: '+6' },
  { it: 'creates all at once if it may', spec: parallel, pods: { 1: 'new?' }, plan: '+0 +2' },

  { it: 'removes the highest first', pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new', 4: 'new' }, plan: '-4' },
  { it: 'removes one at a time', pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new', 4: 'new…' }, plan: '' },
  { it: 'removes none while one that stays is not ready', pods: { 0: 'new?', 1: 'new', 2: 'new', 3: 'new' }, plan: '' },
  {
    it: 'removes the highest, whatever a lower one that goes is',
    pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new?', 4: 'new' },
    plan: '-4',
  },
  {
    it: 'removes none of two that are not ready until somebody looks',
    pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new?', 4: 'new?' },
    plan: '',
  },
  { it: 'removes the one that is not ready', pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new', 4: 'new?' }, plan: '-4' },
  {
    it: 'removes all at once if it may',
    spec: parallel,
    pods: { 0: 'new?', 1: 'new', 2: 'new', 3: 'new', 4: 'new…', 5: 'new' },
    plan: '-5 -3',
  },
  {
    it: 'removes what is below its first number',
    spec: { ordinals: { start: 1 } },
    pods: { 0: 'new', 1: 'new', 2: 'new', 3: 'new' },
    plan: '-0',
  },

  { it: 'rolls from the highest down', pods: { 0: 'old', 1: 'old', 2: 'old' }, plan: '-2' },
  { it: 'rolls on when the new one is ready', pods: { 0: 'old', 1: 'old', 2: 'new' }, plan: '-1' },
  { it: 'waits while the new one is not ready', pods: { 0: 'old', 1: 'old', 2: 'new?' }, plan: '' },
  { it: 'waits while the old one ends', pods: { 0: 'old', 1: 'old', 2: 'old…' }, plan: '' },
  { it: 'waits while an old one that is not its turn is not ready', pods: { 0: 'old?', 1: 'old', 2: 'old' }, plan: '' },
  // 2.6.5: the version that never got ready is replaced by hand, also where its template was taken back.
  { it: 'stays stuck at a version that never gets ready', pods: { 0: 'old', 1: 'old', 2: 'broken?' }, plan: '' },
  { it: 'goes on when that pod was deleted by hand', pods: { 0: 'old', 1: 'old' }, plan: '+2' },
  {
    it: 'rolls no lower than its partition',
    spec: rolling({ partition: 2 }),
    pods: { 0: 'old', 1: 'old', 2: 'new' },
    plan: '',
  },
  {
    it: 'rolls what is above its partition',
    spec: rolling({ partition: 1 }),
    pods: { 0: 'old', 1: 'old', 2: 'new' },
    plan: '-1',
  },
  {
    it: 'counts its partition from its first number',
    spec: { ...rolling({ partition: 2 }), ordinals: { start: 4 } },
    pods: { 4: 'old', 5: 'old', 6: 'old' },
    plan: '-6',
  },
  { it: 'leaves its update to others', spec: onDelete, pods: { 0: 'old', 1: 'old', 2: 'old' }, plan: '' },
  { it: 'creates new ones anyway', spec: onDelete, pods: { 0: 'old', 1: 'old' }, plan: '+2' },
  {
    it: 'replaces as many at once as may be missing',
    spec: rolling({ maxUnavailable: 2 }),
    pods: { 0: 'old', 1: 'old', 2: 'old' },
    plan: '-2 -1',
  },
  {
    it: 'counts a share down, and at least one',
    spec: { ...rolling({ maxUnavailable: '60%' }) },
    pods: { 0: 'old', 1: 'old', 2: 'old' },
    plan: '-2',
  },
  { it: 'replaces one at a time in parallel too', spec: parallel, pods: { 0: 'old', 1: 'old', 2: 'old' }, plan: '-2' },
  {
    it: 'replaces what is old and broken first, in parallel',
    spec: parallel,
    pods: { 0: 'old?', 1: 'old', 2: 'new' },
    plan: '-0',
  },
  {
    it: 'counts what is broken and new as missing, in parallel',
    spec: parallel,
    pods: { 0: 'old', 1: 'old', 2: 'new?' },
    plan: '',
  },
];
for (const { it, spec = {}, pods = {}, plan } of cases) {
  test(`a StatefulSet ${it}`, () => assert.equal(show(viewOf(spec, pods)), plan));
}

test('a StatefulSet that is being deleted does nothing', () => {
  const view = viewOf({}, { 0: 'old' });
  const metadata = { ...view.set.metadata, deletionTimestamp: '2026-01-01T10:00:00Z' };
  assert.equal(show({ ...view, set: { ...view.set, metadata } }), '');
});

test('below its partition a new pod is of the version from before', () => {
  const set = setOf(rolling({ partition: 2 }));
  assert.deepEqual(
    [0, 1, 2].map((ordinal) => startsAsBefore({ set }, ordinal)),
    [true, true, false],
  );
  assert.equal(startsAsBefore({ set: setOf(onDelete) }, 0), false);
});

test('whatever pods there are, an ordered set takes one step at a time, and never one that makes two pods missing', () => {
  const pods = fc.dictionary(
    fc.integer({ min: 0, max: 5 }).map(String),
    fc.constantFrom('old', 'new', 'old?', 'new?', 'old…', 'new…', 'old!'),
  );
  fc.assert(
    fc.property(pods, fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 4 }), (given, replicas, partition) => {
      const view = viewOf({ replicas, ...rolling({ partition }) }, given);
      const { create, remove } = planStatefulSet(view);
      assert.ok(create.length + remove.length <= 1);
      const isBad = ([, text]: readonly [string, string]): boolean => !/^\w+$/.test(text);
      const bad = Object.entries(given).filter((entry) => Number(entry[0]) < replicas && isBad(entry));
      const missing = Array.from({ length: replicas }, (_, at) => given[at]).filter((text) => text === undefined);
      // A pod that is wanted and ready goes only while all the others are there and ready.
      const victim = remove.find(({ metadata }) => /^\w+$/.test(given[metadata.name.slice(4)] ?? ''));
      if (victim !== undefined && Number(victim.metadata.name.slice(4)) < replicas) {
        assert.deepEqual([bad, missing], [[], []]);
      }
    }),
  );
});
