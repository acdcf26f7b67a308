/** How a rollout moves: single decisions, proportions, and any rollout to its end within its limits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Deployment, deploymentKind } from '../../kube/kinds/workloads/deployment.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import { statusOf } from './deployment-status.ts';
import { type Rollout, type RolloutStep, limitsOf, planRollout, rolloutOf } from './rollout.ts';

const annotation = (name: string): string => `deployment.kubernetes.io/${name}`;

function template(version: string): Deployment['spec']['template'] {
  return { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', image: version }] } };
}

function deployment(version: string, spec: Partial<Deployment['spec']> = {}): Deployment {
  return deploymentKind.complete({
    metadata: { name: 'web', uid: 'd', generation: 1 },
    spec: { selector: { matchLabels: { app: 'web' } }, template: template(version), ...spec },
  });
}

interface SetParts {
  readonly size: number;
  readonly available?: number;
  readonly revision?: number | string;
  readonly desired?: number;
  readonly max?: number;
  readonly age?: number;
}

function set(
  version: string,
  { size, available = size, revision = 1, desired = size, max, age = 0 }: SetParts,
): ReplicaSet {
  return {
    metadata: {
      name: `web-${version}`,
      uid: version,
      generation: 1,
      creationTimestamp: `2026-01-01T00:00:0${9 - age}Z`,
      annotations: {
        [annotation('revision')]: String(revision),
        [annotation('desired-replicas')]: String(desired),
        ...(max !== undefined && { [annotation('max-replicas')]: String(max) }),
      },
    },
    spec: { replicas: size, template: template(version) },
    status: { replicas: size, readyReplicas: available, availableReplicas: available, observedGeneration: 1 },
  };
}

const show = (steps: readonly RolloutStep[]): string =>
  steps
    .map((step) => {
      if (step.kind === 'create') return `create ${step.replicas}`;
      const name = step.set.metadata.name.slice('web-'.length);
      return step.kind === 'scale' ? `${name}=${step.replicas}` : `${step.kind} ${name}`;
    })
    .join(', ');

const rolling = (maxSurge: number | string, maxUnavailable: number | string): Partial<Deployment['spec']> => ({
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } },
});
const recreate: Partial<Deployment['spec']> = { strategy: { type: 'Recreate' } };
const old = (parts: SetParts): ReplicaSet => set('old', { age: 5, ...parts });
const fresh = (parts: SetParts): ReplicaSet => set('new', { revision: 2, ...parts });

const cases: readonly {
  readonly it: string;
  readonly spec?: Partial<Deployment['spec']>;
  readonly sets?: readonly ReplicaSet[];
  readonly hasOldPods?: boolean;
  readonly status?: Deployment['status'];
  readonly plan: string;
}[] = [
  { it: 'creates the first set with all pods', spec: { replicas: 3 }, plan: 'create 3' },
  {
    it: 'creates the next set with as many pods as may be too many',
    spec: { replicas: 10, ...rolling('25%', '25%') },
    sets: [old({ size: 10 })],
    plan: 'create 3',
  },
  {
    it: 'takes from the old as many as may be missing',
    spec: { replicas: 10, ...rolling('25%', '25%') },
    sets: [old({ size: 10 }), fresh({ size: 3, available: 0, desired: 10 })],
    plan: 'old=8',
  },
  {
    it: 'takes those first that are not available, the oldest set first',
    spec: { replicas: 10, ...rolling(0, 2) },
    sets: [
      set('older', { size: 4, available: 3, age: 9, desired: 10 }),
      old({ size: 6, available: 6, desired: 10 }),
      fresh({ size: 0, desired: 10 }),
    ],
    plan: 'older=2',
  },
  {
    it: 'waits while what is new is not available',
    spec: { replicas: 10, ...rolling(2, 0) },
    sets: [old({ size: 10 }), fresh({ size: 2, available: 0, desired: 10 })],
    plan: '',
  },
  {
    it: 'removes sets beyond the history when it is complete, the lowest revision first',
    spec: { replicas: 1, revisionHistoryLimit: 1 },
    sets: [
      set('a', { size: 0, revision: 3, age: 9 }),
      set('b', { size: 0, age: 8 }),
      set('new', { size: 1, revision: 4 }),
    ],
    status: { replicas: 1, updatedReplicas: 1, availableReplicas: 1, observedGeneration: 1 },
    plan: 'remove b',
  },
  {
    it: 'gives a set that comes back the highest revision first of all',
    spec: { replicas: 3 },
    sets: [set('new', { size: 0, revision: 1, age: 9 }), old({ size: 3, revision: 2 })],
    plan: 'revise new',
  },
  { it: 'makes no new set while it is paused', spec: { replicas: 3, paused: true }, plan: '' },
  {
    it: 'scales while it is paused',
    spec: { replicas: 5, paused: true },
    sets: [old({ size: 3 })],
    plan: 'old=5',
  },
  {
    it: 'ends all old pods before there are new ones',
    spec: { replicas: 3, ...recreate },
    sets: [old({ size: 3 })],
    plan: 'old=0',
  },
  {
    it: 'waits for the last old pod',
    spec: { replicas: 3, ...recreate },
    sets: [old({ size: 0, desired: 3 })],
    hasOldPods: true,
    plan: '',
  },
  { it: 'then creates all new ones', spec: { replicas: 3, ...recreate }, sets: [old({ size: 0 })], plan: 'create 3' },
  {
    it: 'shares a number that grows in proportion, the rest for the largest',
    spec: { replicas: 30, ...rolling(3, 2) },
    sets: [old({ size: 8, desired: 10, max: 13 }), fresh({ size: 5, available: 0, desired: 10, max: 13 })],
    plan: 'old=20, new=13',
  },
  {
    it: 'shares a number that shrinks',
    spec: { replicas: 5, ...rolling(3, 2) },
    sets: [old({ size: 8, desired: 10, max: 13 }), fresh({ size: 5, available: 0, desired: 10, max: 13 })],
    plan: 'old=5, new=3',
  },
  {
    it: 'takes all pods away',
    spec: { replicas: 0, ...rolling(3, 2) },
    sets: [old({ size: 8, desired: 10, max: 13 }), fresh({ size: 5, available: 0, desired: 10, max: 13 })],
    plan: 'old=0, new=0',
  },
];
for (const { it, spec, sets = [], hasOldPods = false, status, plan } of cases) {
  test(`a rollout ${it}`, () => {
    const wanted = { ...deployment('new', spec), ...(status && { status }) };
    assert.equal(show(planRollout(rolloutOf(wanted, sets), hasOldPods)), plan);
  });
}

const limits = [
  { replicas: 10, spec: rolling('25%', '25%'), surge: 3, unavailable: 2 },
  { replicas: 1, spec: rolling('25%', '25%'), surge: 1, unavailable: 0 },
  { replicas: 3, spec: rolling(0, '10%'), surge: 0, unavailable: 1 },
  { replicas: 2, spec: rolling(5, 5), surge: 5, unavailable: 2 },
  { replicas: 5, spec: recreate, surge: 0, unavailable: 0 },
];
for (const { replicas, spec, surge, unavailable } of limits) {
  test(`of ${replicas} pods ${JSON.stringify(spec.strategy)} lets ${surge} be too many and ${unavailable} missing`, () => {
    assert.deepEqual(limitsOf(deployment('new', { replicas, ...spec })), { surge, unavailable });
  });
}

for (const [brought, next] of [
  ['3546343826724305832', '3546343826724305833'],
  ['9223372036854775807', '9223372036854775807'],
  ['99999999999999999999', '1'],
  ['-7', '1'],
] as const) {
  test(`after an old set with revision ${brought} comes ${next}`, () => {
    const [step] = planRollout(
      rolloutOf(deployment('new', { replicas: 1 }), [old({ size: 1, revision: brought })]),
      false,
    );
    assert.equal(step?.kind === 'create' && step.annotations?.[annotation('revision')], next);
  });
}

/** Carries out steps as the server would, and lets pods come and go as the controller of ReplicaSets would. */
class Model {
  deployment: Deployment;
  sets: ReplicaSet[] = [];
  #made = 0;

  constructor(first: Deployment) {
    this.deployment = first;
  }

  get rollout(): Rollout {
    return rolloutOf(this.deployment, this.sets);
  }

  plan(): readonly RolloutStep[] {
    const hasOldPods = this.rollout.oldSets.some(({ status }) => (status?.replicas ?? 0) > 0);
    const steps = planRollout(this.rollout, hasOldPods);
    for (const step of steps) this.#carryOut(step);
    const status = statusOf(this.rollout, { isCreated: false, creationFailure: undefined }, 0);
    this.deployment = { ...this.deployment, status };
    return steps;
  }

  /** One set hears of its size, or one of its pods becomes available. */
  advance(index: number, becomesAvailable: boolean): void {
    this.sets = this.sets.map((one, at) => {
      if (at !== index % this.sets.length) return one;
      const size = one.spec.replicas ?? 0;
      const available = Math.min(size, (one.status?.availableReplicas ?? 0) + (becomesAvailable ? 1 : 0));
      const { generation = 1 } = one.metadata;
      const counts = { replicas: size, readyReplicas: available, availableReplicas: available };
      return { ...one, status: { ...counts, observedGeneration: generation } };
    });
  }

  #carryOut(step: RolloutStep): void {
    if (step.kind === 'create') {
      this.#made += 1;
      const metadata = {
        name: `web-${this.#made}`,
        uid: String(this.#made),
        generation: 1,
        creationTimestamp: new Date(this.#made * 1000).toISOString(),
        annotations: step.annotations,
      };
      this.sets.push({ metadata, spec: { replicas: step.replicas, template: this.deployment.spec.template } });
    } else if (step.kind === 'remove') this.sets = this.sets.filter((one) => one !== step.set);
    else {
      const replicas = step.kind === 'scale' ? step.replicas : step.set.spec.replicas;
      const { generation = 1 } = step.set.metadata;
      const metadata = { ...step.set.metadata, annotations: step.annotations, generation: generation + 1 };
      const spec = { ...step.set.spec, ...(replicas !== undefined && { replicas }) };
      this.sets = this.sets.map((one) => (one === step.set ? { ...one, metadata, spec } : one));
    }
  }

  settle(): void {
    for (let turn = 0; ; turn += 1) {
      assert.ok(turn < 2_000, 'it never settles');
      const steps = this.plan();
      const before = JSON.stringify(this.sets);
      for (const index of this.sets.keys()) this.advance(index, true);
      if (steps.length === 0 && JSON.stringify(this.sets) === before) return;
    }
  }
}

const part = fc.oneof(fc.integer({ min: 0, max: 6 }), fc.constantFrom('0%', '10%', '25%', '50%', '100%'));
const change = fc.oneof(
  fc.record({ kind: fc.constant('image' as const), image: fc.constantFrom('a', 'b', 'c') }),
  fc.record({ kind: fc.constant('size' as const), replicas: fc.integer({ min: 0, max: 12 }) }),
  fc.record({ kind: fc.constant('pods' as const), index: fc.nat(9), isAvailable: fc.boolean() }),
  fc.constant({ kind: 'plan' as const }),
);

test('any rollout stays within its limits, and leaves nothing to plan in the end', () => {
  const isOpen = (value: number | string): boolean => value !== 0 && value !== '0%';
  fc.assert(
    fc.property(part, part, fc.array(change, { maxLength: 60 }), (maxSurge, maxUnavailable, changes) => {
      fc.pre(isOpen(maxSurge) || isOpen(maxUnavailable));
      const model = new Model(deployment('a', { replicas: 4, ...rolling(maxSurge, maxUnavailable) }));
      model.settle();
      for (const one of changes) {
        const { metadata, spec } = model.deployment;
        const next = (changed: Partial<Deployment['spec']>): void => {
          const generation = (metadata.generation ?? 0) + 1;
          model.deployment = {
            ...model.deployment,
            metadata: { ...metadata, generation },
            spec: { ...spec, ...changed },
          };
        };
        if (one.kind === 'image') next({ template: deployment(one.image).spec.template });
        else if (one.kind === 'size') {
          next({ replicas: one.replicas });
          // A changed number moves the limits with it.
          model.settle();
        } else if (one.kind === 'pods') model.advance(one.index, one.isAvailable);
        else {
          const { surge, unavailable } = limitsOf(model.deployment);
          const { replicas = 1 } = model.deployment.spec;
          const available = (): number =>
            model.sets.reduce((sum, { status }) => sum + (status?.availableReplicas ?? 0), 0);
          const size = (): number => model.sets.reduce((sum, each) => sum + (each.spec.replicas ?? 0), 0);
          const [availableBefore, sizeBefore] = [available(), size()];
          const steps = model.plan();
          assert.ok(size() <= Math.max(sizeBefore, replicas + surge), `too many after ${show(steps)}`);
          // What a smaller set still shows as available may be what it takes away.
          const least = model.sets.reduce(
            (sum, { spec: { replicas: wanted = 0 }, status }) => sum + Math.min(wanted, status?.availableReplicas ?? 0),
            0,
          );
          assert.ok(least >= Math.min(availableBefore, replicas - unavailable), `too few after ${show(steps)}`);
        }
      }
      model.settle();
      const { replicas = 1, template: last } = model.deployment.spec;
      const sizes = model.sets.filter(({ spec }) => (spec.replicas ?? 0) > 0);
      assert.deepEqual(
        sizes.map(({ spec }) => spec.replicas),
        replicas === 0 ? [] : [replicas],
      );
      if (replicas > 0) assert.equal(sizes[0]?.spec.template.spec.containers[0]?.image, last.spec.containers[0]?.image);
      assert.ok(model.sets.length <= 3, 'one set for each template');
      const revisions = model.sets.map(({ metadata }) => metadata.annotations?.[annotation('revision')]);
      assert.equal(new Set(revisions).size, revisions.length, 'each revision once');
    }),
    { numRuns: 400 },
  );
});
