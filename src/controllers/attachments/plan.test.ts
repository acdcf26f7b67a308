/** Decisions about one volume: a table of them, and what holds for all. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type AttachmentFacts,
  type PlanContext,
  type Step,
  belongsInList,
  operationMsMax,
  planVolume,
} from './plan.ts';

const now = 1_000_000;
const context: PlanContext = { nowMs: now, isForOneNode: true, unmountMsMax: 360_000 };
const idle: AttachmentFacts = {
  node: 'a',
  isDesired: true,
  state: 'none',
  problem: undefined,
  operation: undefined,
  retryAtMs: 0,
  listAtMs: 0,
  undesiredSinceMs: now,
  isRefusalReported: false,
  isListed: false,
  isInUse: false,
  isNodePresent: true,
  isNodeManaged: true,
  isNodeReady: true,
  isNodeOutOfService: false,
};
const attached: AttachmentFacts = { ...idle, state: 'attached', isListed: true };
const left: AttachmentFacts = { ...attached, isDesired: false };
const asked = { kind: 'attach', sinceMs: now - 1_000 } as const;
const askedLongAgo = { kind: 'attach', sinceMs: now - operationMsMax } as const;

interface Case {
  readonly it: string;
  /** One that differs from `idle` in these, or all of them. */
  readonly facts: Partial<AttachmentFacts> | readonly [AttachmentFacts, AttachmentFacts];
  readonly plan: string;
  readonly context?: Partial<PlanContext>;
}

const cases: readonly Case[] = [
  { it: 'attaches what a pod uses', facts: {}, plan: 'attach a' },
  { it: 'attaches nothing to a node that does it by itself', facts: { isNodeManaged: false }, plan: '' },
  { it: 'waits for the time of a retry', facts: { retryAtMs: now + 5 }, plan: 'at +5' },
  { it: 'waits for the driver', facts: { state: 'uncertain', operation: asked }, plan: 'at +119000' },
  {
    it: 'waits for the driver for 2 min',
    facts: { state: 'uncertain', operation: askedLongAgo },
    plan: 'attachFailed a',
  },
  { it: 'takes up what an earlier process asked for', facts: { state: 'uncertain' }, plan: 'attach a' },
  { it: 'reports what the driver says', facts: { state: 'uncertain', problem: 'no' }, plan: 'attachFailed a: no' },
  { it: 'reports an empty problem too', facts: { state: 'uncertain', problem: '' }, plan: 'attachFailed a: ' },
  { it: 'lists what is attached', facts: { state: 'attached', operation: asked }, plan: 'list a, attached a' },
  { it: 'leaves alone what is as it should be', facts: attached, plan: '' },
  {
    it: 'takes off the list what is not attached',
    facts: { state: 'uncertain', operation: asked, isListed: true },
    plan: 'list a, at +119000',
  },
  {
    it: 'keeps on the list what is in use',
    facts: { state: 'uncertain', operation: asked, isListed: true, isInUse: true },
    plan: 'at +119000',
  },
  {
    it: 'reports an attachment that is being deleted',
    facts: { state: 'ending' },
    plan: 'attachFailed a: volume attachment is being deleted',
  },
  {
    it: 'waits for its own detaching',
    facts: { state: 'ending', operation: { kind: 'detach', sinceMs: now } },
    plan: 'at +120000',
  },
  { it: 'detaches what no pod uses', facts: left, plan: 'detach a' },
  { it: 'detaches what is only listed', facts: { ...left, state: 'listed' }, plan: 'detach a' },
  {
    it: 'detaches what was never confirmed',
    facts: { ...left, state: 'uncertain', isListed: false },
    plan: 'detach a',
  },
  {
    it: 'leaves a ready node what it uses, however long',
    facts: { ...left, isInUse: true, undesiredSinceMs: 0 },
    plan: '',
  },
  {
    it: 'leaves a silent node what it uses for 6 min',
    facts: { ...left, isInUse: true, isNodeReady: false },
    plan: 'at +360000',
  },
  {
    it: 'takes it after that',
    facts: { ...left, isInUse: true, isNodeReady: false, undesiredSinceMs: now - 360_000 },
    plan: 'detach a forced',
  },
  {
    it: 'leaves it where that is off',
    facts: { ...left, isInUse: true, isNodeReady: false, undesiredSinceMs: 0 },
    context: { unmountMsMax: undefined },
    plan: '',
  },
  {
    it: 'takes it at once from a node out of service',
    facts: { ...left, isInUse: true, isNodeOutOfService: true },
    plan: 'detach a forced',
  },
  { it: 'asks a silent node that uses it no more', facts: { ...left, isNodeReady: false }, plan: 'detach a' },
  { it: 'forgets what is gone', facts: { ...idle, isDesired: false }, plan: 'forget a' },
  { it: 'gives a new volume to one of two nodes', facts: [idle, { ...idle, node: 'b' }], plan: 'attach a, refuse b' },
  {
    it: 'gives it to both where many may have it',
    facts: [idle, { ...idle, node: 'b' }],
    context: { isForOneNode: false },
    plan: 'attach a, attach b',
  },
  { it: 'refuses once', facts: [attached, { ...idle, node: 'b', isRefusalReported: true }], plan: '' },
  ...(['listed', 'uncertain', 'attached', 'ending'] as const).map((state) => ({
    it: `gives a volume that is ${state} elsewhere to no other node`,
    facts: [
      { ...left, state, isInUse: true },
      { ...idle, node: 'b' },
    ] as const,
    plan: 'refuse b',
  })),
];
for (const { it, facts, plan, context: special } of cases) {
  test(`planVolume ${it}`, () => {
    const all = 0 in facts ? facts : [{ ...idle, ...facts }];
    assert.equal(show(planVolume(all, { ...context, ...special })), plan);
  });
}

function show({ steps, lookAgainAtMs }: ReturnType<typeof planVolume>): string {
  const texts = steps.map((step) => {
    const why = 'why' in step && step.why !== undefined ? `: ${step.why}` : '';
    return `${step.kind} ${step.node}${why}${step.kind === 'detach' && step.isForced ? ' forced' : ''}`;
  });
  return [...texts, ...(lookAgainAtMs === undefined ? [] : [`at +${lookAgainAtMs - now}`])].join(', ');
}

const anyFacts = fc
  .record({
    isDesired: fc.boolean(),
    state: fc.constantFrom('none', 'listed', 'uncertain', 'attached', 'ending'),
    problem: fc.constantFrom(undefined, 'no'),
    operation: fc.constantFrom(undefined, asked, askedLongAgo, { kind: 'detach', sinceMs: now } as const),
    retryAtMs: fc.constantFrom(0, now - 1, now + 5_000),
    listAtMs: fc.constantFrom(0, now - 1, now + 5_000),
    undesiredSinceMs: fc.constantFrom(now, now - 400_000),
    isRefusalReported: fc.boolean(),
    isInUse: fc.boolean(),
    isListed: fc.boolean(),
    isNodePresent: fc.boolean(),
    isNodeReady: fc.boolean(),
    isNodeOutOfService: fc.boolean(),
  })
  .map((facts): AttachmentFacts => ({
    ...idle,
    ...facts,
    isListed: facts.isNodePresent && (facts.state === 'listed' || (facts.state !== 'none' && facts.isListed)),
  }));

/** What a step leads to when nothing fails, the driver does what it is asked, and no time passes. */
function after(step: Step): Partial<AttachmentFacts> {
  switch (step.kind) {
    case 'attach':
      return { state: 'attached', operation: asked };
    case 'attached':
      return { operation: undefined, retryAtMs: 0 };
    case 'attachFailed':
      return { operation: undefined, retryAtMs: now + 500 };
    case 'refuse':
      return { isRefusalReported: true };
    case 'detach':
      return { state: 'none', isListed: false, operation: undefined };
    case 'detachFailed':
      return { operation: undefined };
    case 'forget':
    case 'list':
      return {};
  }
}

function carriedOut(one: AttachmentFacts, all: readonly Step[]): readonly AttachmentFacts[] {
  const steps = all.filter(({ node }) => node === one.node);
  if (steps.some(({ kind }) => kind === 'forget')) return [];
  const facts: AttachmentFacts = Object.assign({}, one, ...steps.map(after));
  if (!steps.some(({ kind }) => kind === 'list')) return [facts];
  const isListed = belongsInList(facts);
  // A state that lives by the list alone ends with it.
  return [{ ...facts, isListed, ...(facts.state === 'listed' && !isListed && { state: 'none' }) }];
}

test('a plan that is carried out leaves, after some rounds, nothing to plan', () => {
  fc.assert(
    fc.property(fc.array(anyFacts, { minLength: 1, maxLength: 3 }), fc.boolean(), (facts, isForOneNode) => {
      let all: readonly AttachmentFacts[] = facts.map((one, at) => ({ ...one, node: `n${at}` }));
      for (let round = 0; round < 8; round += 1) {
        const { steps } = planVolume(all, { ...context, isForOneNode });
        if (steps.length === 0) return;
        all = all.flatMap((one) => carriedOut(one, steps));
      }
      assert.fail(show(planVolume(all, { ...context, isForOneNode })));
    }),
    { numRuns: 3_000 },
  );
});

test('a volume for one node is never given to a second one, in whatever state the first one has it', () => {
  fc.assert(
    fc.property(fc.array(anyFacts, { minLength: 2, maxLength: 4 }), (facts) => {
      let all: readonly AttachmentFacts[] = facts.map((one, at) => ({ ...one, node: `n${at}` }));
      const countOf = (): number => all.filter(({ state }) => state !== 'none').length;
      for (let round = 0; round < 6; round += 1) {
        const before = countOf();
        const { steps } = planVolume(all, context);
        all = all.flatMap((one) => carriedOut(one, steps));
        assert.ok(countOf() <= Math.max(1, before));
      }
    }),
    { numRuns: 3_000 },
  );
});

test('what a node uses is detached only from one that is out of service, or silent for 6 min', () => {
  fc.assert(
    fc.property(anyFacts, (one) => {
      const { steps } = planVolume([one], context);
      if (!one.isInUse || !steps.some(({ kind }) => kind === 'detach')) return;
      assert.ok(!one.isDesired);
      assert.ok(one.isNodeOutOfService || (!one.isNodeReady && now - one.undesiredSinceMs >= 360_000));
    }),
    { numRuns: 3_000 },
  );
});
