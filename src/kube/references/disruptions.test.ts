import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { BudgetStatus, PodDisruptionBudget } from '../kinds/policy/pod-disruption-budget.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import {
  allowsUnhealthy,
  counted,
  disruptionLastsMs,
  disruptionRefusal,
  expectedPods,
  isReady,
  podMatcher,
  uncounted,
  withDisruption,
} from './disruptions.ts';

const now = Date.parse('2026-01-01T00:00:00Z');

function budgetOf(spec: NonNullable<PodDisruptionBudget['spec']>, status?: Partial<BudgetStatus>): PodDisruptionBudget {
  const none = { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 };
  return { metadata: { name: 'b', generation: 1 }, spec, status: { ...none, ...status } };
}

function podOf(name: string, ready = true, deletionTimestamp?: string): Pod {
  return {
    metadata: { name, labels: { app: 'web' }, ...(deletionTimestamp !== undefined && { deletionTimestamp }) },
    spec: { containers: [] },
    status: { conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
  };
}

const bounds = [
  { spec: { minAvailable: 2 }, scale: 9, pods: 3, expected: { expectedPods: 3, desiredHealthy: 2 } },
  { spec: { minAvailable: '50%' }, scale: 5, pods: 3, expected: { expectedPods: 5, desiredHealthy: 3 } },
  { spec: { maxUnavailable: 1 }, scale: 5, pods: 3, expected: { expectedPods: 5, desiredHealthy: 4 } },
  { spec: { maxUnavailable: '30%' }, scale: 5, pods: 3, expected: { expectedPods: 5, desiredHealthy: 3 } },
  { spec: { maxUnavailable: 9 }, scale: 5, pods: 3, expected: { expectedPods: 5, desiredHealthy: 0 } },
  { spec: {}, scale: 5, pods: 3, expected: { expectedPods: 0, desiredHealthy: 0 } },
];
for (const { spec, scale, pods, expected } of bounds) {
  test(`${JSON.stringify(spec)} of ${scale} wanted and ${pods} pods`, () =>
    assert.deepEqual(expectedPods(budgetOf(spec), scale, pods), expected));
}

test('pods that are not ready, end, or were given up a moment ago do not count', () => {
  const old = new Date(now - disruptionLastsMs - 1).toISOString();
  const given = new Date(now - 1_000).toISOString();
  const budget = budgetOf({ minAvailable: 1 }, { disruptedPods: { c: given, d: old, gone: given } });
  const pods = [podOf('a'), podOf('b', false), podOf('c'), podOf('d'), podOf('e', true, given)];
  const { status } = counted(budget, pods, { expectedPods: 5, desiredHealthy: 1 }, now);
  assert.deepEqual(
    { ...status, conditions: undefined },
    {
      expectedPods: 5,
      desiredHealthy: 1,
      currentHealthy: 2,
      disruptionsAllowed: 1,
      observedGeneration: 1,
      disruptedPods: { c: given },
      conditions: undefined,
    },
  );
  assert.deepEqual(status?.conditions, [
    {
      lastTransitionTime: '2026-01-01T00:00:00Z',
      message: '',
      observedGeneration: 1,
      reason: 'SufficientPods',
      status: 'True',
      type: 'DisruptionAllowed',
    },
  ]);
});

test('counting twice changes nothing, and what cannot be counted allows nothing', () => {
  const once = counted(
    budgetOf({ minAvailable: 1 }),
    [podOf('a'), podOf('b')],
    { expectedPods: 2, desiredHealthy: 1 },
    now,
  );
  assert.equal(counted(once, [podOf('a'), podOf('b')], { expectedPods: 2, desiredHealthy: 1 }, now + 9_000), once);
  const failed = uncounted(once, 'found no controllers for pod "a"', now);
  assert.deepEqual(disruptionRefusal(failed), {
    kind: 'violated',
    why: 'The disruption budget b does not allow evicting pods currently because it failed sync: found no controllers for pod "a"',
  });
});

const refusals = [
  { it: 'before its pods were counted', status: { observedGeneration: 0 }, refusal: { kind: 'notCounted' } },
  {
    it: 'when too few are healthy',
    status: { observedGeneration: 1, desiredHealthy: 2, currentHealthy: 2 },
    refusal: { kind: 'violated', why: 'The disruption budget b needs 2 healthy pods and has 2 currently' },
  },
  { it: 'never while some may go', status: { observedGeneration: 1, disruptionsAllowed: 1 }, refusal: undefined },
];
for (const { it, status, refusal } of refusals) {
  test(`a budget refuses ${it}`, () => assert.deepEqual(disruptionRefusal(budgetOf({}, status)), refusal));
}

test('a pod that is not ready may go where nothing gets worse', () => {
  assert.equal(allowsUnhealthy(budgetOf({}, { desiredHealthy: 2, currentHealthy: 1 })), false);
  assert.equal(allowsUnhealthy(budgetOf({}, { desiredHealthy: 2, currentHealthy: 2 })), true);
  assert.equal(allowsUnhealthy(budgetOf({ unhealthyPodEvictionPolicy: 'AlwaysAllow' })), true);
});

test('no selector selects nothing, an empty one everything', () => {
  assert.equal(podMatcher(budgetOf({}))(podOf('a')), false);
  assert.equal(podMatcher(budgetOf({ selector: {} }))(podOf('a')), true);
  assert.equal(podMatcher(budgetOf({ selector: { matchLabels: { app: 'db' } } }))(podOf('a')), false);
});

test('in whatever order pods are evicted, counted, deleted and lost, no more of them go than the bound allows', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('evict' as const), pod: fc.nat(5) }),
    fc.record({ kind: fc.constant('count' as const), pod: fc.constant(0) }),
    fc.record({ kind: fc.constant('unready' as const), pod: fc.nat(5) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.integer({ min: 1, max: 6 }), (steps, minAvailable) => {
      const ready = new Map([...Array(6).keys()].map((index) => [`p${index}`, true]));
      let budget = budgetOf({ minAvailable });
      const count = (): void => {
        const pods = [...ready].map(([name, is]) => podOf(name, is));
        budget = counted(budget, pods, expectedPods(budget, 0, pods.length), now);
      };
      count();
      for (const { kind, pod } of steps) {
        const name = `p${pod}`;
        if (kind === 'count') count();
        else if (kind === 'unready') {
          // The budget hears of it at the next count; an eviction before that is the race the bound cannot see.
          if (ready.has(name)) ready.set(name, false);
          count();
        } else if (ready.get(name) === true && disruptionRefusal(budget) === undefined) {
          budget = withDisruption(budget, name, now);
          ready.delete(name);
          const healthy = [...ready].filter(([, is]) => is).length;
          assert.ok(healthy >= minAvailable, `${healthy} of ${minAvailable}`);
        }
      }
    }),
  );
  assert.equal(isReady(podOf('a', false)), false);
});
