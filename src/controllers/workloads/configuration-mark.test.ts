import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { UsedObject } from '../../kube/references/used-keys.ts';
import {
  type SeenContent,
  changedSince,
  isComplete,
  markOf,
  planFollowing,
  rolloutTimes,
} from './configuration-mark.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

function seen(content: Partial<ConfigMap> | undefined, use: Partial<UsedObject> = {}): SeenContent {
  const unless: UsedObject = {
    kind: 'ConfigMap',
    name: 'web',
    keys: undefined,
    isRequired: true,
    requiredKeys: new Set(),
  };
  const used = { ...unless, ...use };
  return { used, found: content && { metadata: { name: used.name, resourceVersion: '5' }, ...content } };
}

const before = { data: { a: '1', b: '1' } };
const onlyA = { keys: new Set(['a']) };
const marks: readonly {
  readonly it: string;
  readonly was: readonly SeenContent[];
  readonly is: readonly SeenContent[];
  readonly changed: readonly string[];
}[] = [
  { it: 'the same', was: [seen(before)], is: [seen(before)], changed: [] },
  { it: 'a used key', was: [seen(before, onlyA)], is: [seen({ data: { a: '2', b: '1' } }, onlyA)], changed: ['web'] },
  { it: 'an unused key', was: [seen(before, onlyA)], is: [seen({ data: { a: '1', c: '1' } }, onlyA)], changed: [] },
  {
    it: 'a label',
    was: [seen(before)],
    is: [seen({ ...before, metadata: { name: 'web', labels: { x: 'y' } } })],
    changed: [],
  },
  {
    it: 'a new key where all are used',
    was: [seen(before)],
    is: [seen({ data: { ...before.data, c: '' } })],
    changed: ['web'],
  },
  {
    it: 'the same bytes in another place',
    was: [seen(before)],
    is: [seen({ data: { a: '1' }, binaryData: { b: base64('1') } })],
    changed: [],
  },
  { it: 'one that goes', was: [seen(before)], is: [seen(undefined)], changed: ['web'] },
  { it: 'an empty one that comes', was: [seen(undefined)], is: [seen({})], changed: ['web'] },
  { it: 'the keys that are used', was: [seen(before, onlyA)], is: [seen({ data: { a: '2', b: '2' } })], changed: [] },
  { it: 'another object', was: [seen(before)], is: [seen(before), seen(before, { name: 'new' })], changed: [] },
  {
    it: 'a Secret that differs in how it is written',
    was: [seen({ data: { a: 'aGk=' } }, { kind: 'Secret' })],
    is: [seen({ data: { a: 'aG\nk=' } }, { kind: 'Secret' })],
    changed: [],
  },
];
for (const { it, was, is, changed } of marks) {
  test(`a mark notices: ${it}`, () => {
    const found = changedSince(markOf('key', was).text, markOf('key', is));
    assert.deepEqual(found === 'unknown' ? found : found.map(({ used }) => used.name), changed);
    assert.equal(changedSince(markOf('key', was).text, markOf('other', is)), 'unknown');
  });
}

test('a mark that is absent or of nothing known is unknown, and says nothing of what it was made from', () => {
  const mark = markOf('key', [seen({ data: { password: 'hunter2' } })]);
  for (const text of [undefined, '', 'true', ':', '\u0000']) assert.equal(changedSince(text, mark), 'unknown');
  assert.doesNotMatch(JSON.stringify([mark.text, mark.short]), /web|password|hunter/);
  assert.match(mark.text, /^[\w-]{8}:[\w-]{8}=[\w-]{16}$/);
});

test('pods start when all is there that they require', () => {
  const required = { requiredKeys: new Set(['a']) };
  assert.equal(isComplete([seen(before, required), seen(undefined, { isRequired: false })]), true);
  assert.equal(isComplete([seen(undefined)]), false);
  assert.equal(isComplete([seen({ data: { b: '1' } }, required)]), false);
  assert.equal(isComplete([seen({ binaryData: { a: '' } }, required)]), true);
});

const minute = 60_000;
const plans: readonly (Partial<Parameters<typeof planFollowing>[0]> & {
  readonly it: string;
  readonly nowMs?: number;
  readonly plan: string;
})[] = [
  { it: 'waits for quiet', nowMs: 1_000, plan: 'wait 2000' },
  { it: 'starts when it is quiet', nowMs: 2_000, plan: 'rollout' },
  { it: 'waits for the last of a burst', lastMs: 20_000, nowMs: 21_000, plan: 'wait 22000' },
  { it: 'and not for ever', lastMs: 29_500, nowMs: 30_000, plan: 'rollout' },
  { it: 'waits for another rollout', isRolling: true, nowMs: minute, plan: 'wait 600000' },
  { it: 'which may be one that never ends', isRolling: true, nowMs: 10 * minute, plan: 'rollout' },
  { it: 'waits without an end while it is paused', isPaused: true, nowMs: 100 * minute, plan: 'wait' },
  { it: 'keeps a minute between two', rolloutsMs: [-30_000], nowMs: 5_000, plan: 'wait 30000' },
  { it: 'starts nine in an hour', rolloutsMs: nineTimes(), nowMs: 40 * minute, plan: 'rollout' },
  { it: 'and ten, and no more', rolloutsMs: [...nineTimes(), 20 * minute], nowMs: 40 * minute, plan: 'wait 3600000' },
  { it: 'has it in pods of a later template', templateVersion: '6', nowMs: 0, plan: 'mark' },
  { it: 'has it not in pods of an earlier template', templateVersion: '4', nowMs: 2_000, plan: 'rollout' },
  {
    it: 'knows no version of what is gone',
    changed: [seen(undefined)],
    templateVersion: '6',
    nowMs: 2_000,
    plan: 'rollout',
  },
];
function nineTimes(): readonly number[] {
  return Array.from({ length: 9 }, (_, index) => index * 2 * minute);
}
for (const { it, nowMs = 0, plan, ...facts } of plans) {
  test(`a workload ${it}`, () => {
    const unless = { changed: [seen(before)], firstMs: 0, lastMs: 0, templateVersion: undefined, rolloutsMs: [] };
    const found = planFollowing({ ...unless, isPaused: false, isRolling: false, ...facts }, nowMs);
    const until = found.kind === 'wait' && found.untilMs !== undefined ? ` ${found.untilMs}` : '';
    assert.equal(`${found.kind}${until}`, plan);
  });
}

test('times are those of the last hour, whatever the annotation says', () => {
  const now = Date.parse('2026-11-19T12:00:00Z');
  const text = '2026-11-19T10:59:59Z,2026-11-19T11:30:00Z,nonsense,,2026-11-19T12:00:01Z,2026-11-19T12:00:00Z';
  assert.deepEqual(rolloutTimes(text, now), [now - 30 * minute, now]);
  assert.deepEqual(rolloutTimes(undefined, now), []);
});
