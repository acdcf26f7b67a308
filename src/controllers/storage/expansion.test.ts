import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyStrategicMergePatch } from '../../apiserver/patch/strategic-merge-patch.ts';
import {
  type PersistentVolumeClaim,
  claimKind,
  persistentVolumeClaimShape,
} from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import {
  type ClaimStatusPatch,
  finished,
  inProgress,
  infeasible,
  resizeStatusOf,
  storageOf,
} from '../../kube/references/claim-resize.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import { aClaim, aVolume } from '../../testing/fakes/storage-builders.ts';
import {
  type Expander,
  type ExpansionStep,
  begun,
  decideExpansion,
  enlarged,
  handedToNode,
  settled,
} from './expansion.ts';

const preResize = 'volume.alpha.kubernetes.io/pre-resize-capacity';
const nodeAlone: Expander = { growsStorage: false, hasFailed: false };
const driver: Expander = { growsStorage: true, hasFailed: false };

interface Parts {
  readonly asks: string;
  readonly has?: string;
  readonly allocated?: string;
  readonly status?: string;
}

function claimOf({ asks, has = '1Gi', allocated, status }: Parts): PersistentVolumeClaim {
  return {
    ...aClaim({ size: asks, volumeName: 'disk' }),
    status: {
      phase: 'Bound',
      capacity: { storage: has },
      ...(allocated && { allocatedResources: { storage: allocated } }),
      ...(status && { allocatedResourceStatuses: { storage: status } }),
    },
  };
}

const diskOf = (size: string, before?: string): PersistentVolume =>
  aVolume('disk', {
    size,
    for: 'data@uid-data',
    ...(before && { metadata: { annotations: { [preResize]: before } } }),
  });

function show(step: ExpansionStep): string {
  return step.kind === 'grow' ? `grow to ${step.size.toString()}${step.isRetry ? ', later' : ''}` : step.kind;
}

interface Case extends Parts {
  readonly it: string;
  readonly volume: string;
  readonly by?: Expander;
  readonly step: string;
}

const rule: readonly Case[] = [
  { it: 'takes what is asked for', asks: '2Gi', volume: '1Gi', step: 'grow to 2Gi' },
  { it: 'leaves a claim that has what it asks for', asks: '1Gi', volume: '1Gi', step: 'none' },
  { it: 'leaves a claim that has more than it asks for', asks: '1Gi', has: '4Gi', volume: '4Gi', step: 'none' },
  ...['ControllerResizeInProgress', 'NodeResizePending', 'NodeResizeInProgress'].map((status) => ({
    it: `ends what was begun before it takes a larger size (${status})`,
    asks: '5Gi',
    allocated: '3Gi',
    volume: '1Gi',
    status,
    step: 'grow to 3Gi',
  })),
  ...['NodeResizePending', 'NodeResizeInProgress'].map((status) => ({
    it: `lets the node end before it takes a larger size (${status})`,
    asks: '5Gi',
    allocated: '3Gi',
    volume: '3Gi',
    status,
    step: 'none',
  })),
  {
    it: 'takes another size when the driver has failed for good',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '1Gi',
    status: 'ControllerResizeInProgress',
    by: { ...driver, hasFailed: true },
    step: 'grow to 2Gi',
  },
  {
    it: 'keeps the size while the driver may still be at work',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '1Gi',
    status: 'ControllerResizeInProgress',
    by: driver,
    step: 'grow to 5Gi',
  },
  {
    it: 'takes another size when the driver refused the last one',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '1Gi',
    status: 'ControllerResizeInfeasible',
    step: 'grow to 2Gi',
  },
  {
    it: 'waits before it asks the driver for the same size again',
    asks: '5Gi',
    allocated: '5Gi',
    volume: '1Gi',
    status: 'ControllerResizeInfeasible',
    step: 'grow to 5Gi, later',
  },
  {
    it: 'has the node try again when an even larger size is asked for',
    asks: '9Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status: 'NodeResizeInfeasible',
    step: 'grow to 5Gi, later',
  },
  ...['NodeResizePending', 'NodeResizeInProgress'].map((status) => ({
    it: `leaves the node at work when less is asked for (${status})`,
    asks: '2Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status,
    step: 'none',
  })),
  {
    it: 'takes a smaller size after the node refused, where nothing has grown',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status: 'NodeResizeInfeasible',
    step: 'grow to 2Gi',
  },
  {
    it: 'keeps the size after the node refused, where the driver has grown the storage',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status: 'NodeResizeInfeasible',
    by: driver,
    step: 'grow to 5Gi, later',
  },
  {
    it: 'waits before the node tries the same size again',
    asks: '5Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status: 'NodeResizeInfeasible',
    step: 'grow to 5Gi, later',
  },
  ...['ControllerResizeInProgress', 'ControllerResizeInfeasible'].map((status) => ({
    it: `ends what was begun when less is asked for meanwhile (${status})`,
    asks: '2Gi',
    allocated: '5Gi',
    volume: '5Gi',
    status,
    step: status === 'ControllerResizeInProgress' ? 'grow to 5Gi' : 'grow to 5Gi, later',
  })),
  {
    it: 'goes on with a size that has lost its status',
    asks: '2Gi',
    allocated: '5Gi',
    volume: '5Gi',
    step: 'grow to 5Gi',
  },
  {
    it: 'takes the next size after an earlier one was reached',
    asks: '5Gi',
    has: '2Gi',
    allocated: '2Gi',
    volume: '2Gi',
    step: 'grow to 5Gi',
  },
];
for (const { it, volume, by = nodeAlone, step, ...parts } of rule) {
  test(`an expansion ${it}`, () => {
    assert.equal(show(decideExpansion(claimOf(parts), diskOf(volume), by)), step);
  });
}

test('a claim that is not bound, or whose volume is not bound to it, does not grow', () => {
  const claim = claimOf({ asks: '2Gi' });
  const decide = (changed: Partial<PersistentVolumeClaim>, volume = diskOf('1Gi')): string =>
    show(decideExpansion({ ...claim, ...changed }, volume, nodeAlone));
  assert.equal(decide({ status: { ...claim.status, phase: 'Lost' } }), 'none');
  assert.equal(decide({}, aVolume('disk', { for: 'data@another' })), 'none');
  assert.equal(decide({}, aVolume('disk')), 'none');
  assert.equal(decide({}, aVolume('other', { for: 'data@uid-data' })), 'none');
});

test('a volume loses its mark when the claim can use all of it, and nothing else happens', () => {
  const volume = diskOf('2Gi', '1Gi');
  for (const asks of ['2Gi', '5Gi']) {
    assert.equal(show(decideExpansion(claimOf({ asks, has: '2Gi' }), volume, nodeAlone)), 'settle');
  }
  assert.deepEqual(settled(volume).metadata.annotations, {});
  assert.equal(
    show(decideExpansion(claimOf({ asks: '2Gi', has: '1Gi', allocated: '2Gi' }), volume, driver)),
    'grow to 2Gi',
  );
});

test('beginning drops what was said of an earlier size and leaves the rest', () => {
  const now = Date.UTC(2026, 0, 1);
  const other = { type: 'Unused', status: 'True' };
  const before = claimOf({ asks: '2Gi', allocated: '5Gi', status: 'NodeResizeInfeasible' });
  const conditions = [{ type: 'NodeResizeError', status: 'True' }, other];
  const claim = begun({ ...before, status: { ...before.status, conditions } }, Quantity.parse('2Gi'), 'me', now);
  assert.deepEqual(claim.status?.conditions, [
    other,
    { type: 'Resizing', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' },
  ]);
  assert.deepEqual(claim.status?.allocatedResources, { storage: '2Gi' });
  assert.deepEqual(claim.metadata.annotations, { 'volume.kubernetes.io/storage-resizer': 'me' });
  assert.equal(begun(claim, Quantity.parse('2Gi'), 'me', now + 1000), claim);
  const pending = handedToNode(claim, Quantity.parse('2Gi'), now);
  assert.equal(resizeStatusOf(pending), 'NodeResizePending');
  assert.deepEqual(
    pending.status?.conditions?.map(({ type }) => type),
    ['Unused', 'Resizing', 'FileSystemResizePending'],
  );
  // A condition that holds already stays as it is.
  const refused = patched(pending, infeasible(pending, 'no', now));
  const again = handedToNode(refused, Quantity.parse('2Gi'), now + 60_000);
  assert.deepEqual(again.status?.conditions, refused.status?.conditions);
  assert.equal(handedToNode(again, Quantity.parse('2Gi'), now), again);
});

test('a volume keeps the size from before through several attempts', () => {
  const claim = claimOf({ asks: '5Gi' });
  const first = enlarged(diskOf('1Gi'), claim, Quantity.parse('5Gi'));
  const second = enlarged(first, claim, Quantity.parse('2Gi'));
  assert.deepEqual(second.spec.capacity, { storage: '2Gi' });
  assert.deepEqual(second.metadata.annotations, { [preResize]: '1Gi' });
  assert.equal(enlarged(second, claim, Quantity.parse('2Gi')), second);
  const foreign = aVolume('disk', { for: 'data@another' });
  assert.equal(enlarged(foreign, claim, Quantity.parse('2Gi')), foreign);
});

function patched(claim: PersistentVolumeClaim, { status }: ClaimStatusPatch): PersistentVolumeClaim {
  return applyStrategicMergePatch(claim as never, { status } as never, persistentVolumeClaimShape) as never;
}

const gibibytes = (amounts: Readonly<Record<string, string | number>> | undefined): number =>
  Number(storageOf(amounts).value() / 1024n ** 3n);

/** A claim, its volume, and a node that can grow it up to a limit. Each part does one write at a time, and may stop before the next. */
class Machine {
  claim = claimOf({ asks: '1Gi' });
  volume = diskOf('1Gi');
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** What the API server refuses is not done. */
  ask(size: number): void {
    const resources = { requests: { storage: `${size}Gi` } };
    const next = { ...this.claim, spec: { ...this.claim.spec, resources } };
    if ((claimKind.validateUpdate?.(next, this.claim) ?? []).length === 0) this.#change({ claim: next });
  }

  /** Makes at most so many writes, then the process is gone. */
  control(writes: number, retries: boolean): void {
    const step = decideExpansion(this.claim, this.volume, nodeAlone);
    if (step.kind === 'settle') this.#change({ volume: settled(this.volume) });
    if (step.kind !== 'grow' || (step.isRetry && !retries)) return;
    if (writes > 0 && !step.isRetry) this.#change({ claim: begun(this.claim, step.size, 'me', 0) });
    if (writes > 1) this.#change({ volume: enlarged(this.volume, this.claim, step.size) });
    if (writes > 2) this.#change({ claim: handedToNode(this.claim, step.size, 0) });
  }

  /** `stops`: after it has said that it begins. */
  node(stops: boolean): void {
    const status = resizeStatusOf(this.claim);
    if (status !== 'NodeResizePending' && status !== 'NodeResizeInProgress') return;
    this.#change({ claim: patched(this.claim, inProgress(this.claim)) });
    if (stops) return;
    const size = storageOf(this.claim.status?.allocatedResources);
    const fits = gibibytes(this.claim.status?.allocatedResources) <= this.#limit;
    const patch = fits ? finished(this.claim, size) : infeasible(this.claim, 'too large', 0);
    this.#change({ claim: patched(this.claim, patch) });
  }

  /** Everything that can happen without a user. */
  settle(): void {
    for (let turns = 0; turns < 12; turns += 1) {
      this.control(3, false);
      this.node(false);
    }
  }

  #change(next: { claim?: PersistentVolumeClaim; volume?: PersistentVolume }): void {
    const [was, is] = [this.claim.status, next.claim?.status ?? this.claim.status];
    const onNode = ['NodeResizePending', 'NodeResizeInProgress'].includes(resizeStatusOf(this.claim));
    this.claim = next.claim ?? this.claim;
    this.volume = next.volume ?? this.volume;
    assert.ok(gibibytes(is?.capacity) >= gibibytes(was?.capacity), 'a claim never shrinks');
    assert.ok(gibibytes(this.volume.spec.capacity) >= gibibytes(is?.capacity), 'a volume has what its claim has');
    assert.ok(
      !onNode || is?.allocatedResources === was?.allocatedResources,
      'the node works on one size until it ends',
    );
    if (onNode && next.volume !== undefined) assert.fail('the volume stays as it is while the node works on it');
  }
}

const deed = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), size: fc.integer({ min: 1, max: 20 }) }),
  fc.record({ kind: fc.constant('control' as const), writes: fc.integer({ min: 0, max: 3 }), retries: fc.boolean() }),
  fc.record({ kind: fc.constant('node' as const), stops: fc.boolean() }),
);

test('whatever is asked for and wherever it stops, a claim ends with what it asks for or with a refusal on record', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(deed, { maxLength: 40 }), (limit, deeds) => {
      const machine = new Machine(limit);
      for (const one of deeds) {
        if (one.kind === 'ask') machine.ask(one.size);
        else if (one.kind === 'control') machine.control(one.writes, one.retries);
        else machine.node(one.stops);
      }
      machine.settle();
      const { spec, status } = machine.claim;
      const isRefused = resizeStatusOf(machine.claim) === 'NodeResizeInfeasible';
      if (isRefused) {
        assert.ok(gibibytes(status?.allocatedResources) > limit);
        assert.ok(status?.conditions?.some(({ type }) => type === 'NodeResizeError'));
        // The way out: a size that the node can have.
        machine.ask(limit);
        machine.settle();
      } else assert.ok(gibibytes(status?.capacity) >= gibibytes(spec.resources?.requests));
      assert.ok(gibibytes(machine.claim.status?.capacity) <= limit);
      if (gibibytes(machine.claim.spec.resources?.requests) > limit) return;
      assert.equal(resizeStatusOf(machine.claim), '');
      assert.equal(machine.volume.metadata.annotations?.[preResize], undefined);
      assert.equal(show(decideExpansion(machine.claim, machine.volume, nodeAlone)), 'none');
    }),
    { numRuns: 500 },
  );
});
