import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { EndpointSlice } from '../../kube/kinds/endpoint-slice.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { type SliceGroup, type SlicePlan, planSlices } from './slice-plan.ts';

const group = (port: number, count: number, ready = true, from = 0): SliceGroup => ({
  addressType: 'IPv4',
  ports: port === 0 ? [] : [{ name: '', port, protocol: 'TCP' }],
  endpoints: Array.from({ length: count }, (_, index) => ({
    addresses: [`10.0.${Math.floor((from + index) / 200)}.${(from + index) % 200}`],
    conditions: { ready },
    targetRef: { kind: 'Pod', name: `p${from + index}`, uid: `u${from + index}` },
  })),
});

let made = 0;
const sliceOf = (content: SliceGroup, labels = {}): EndpointSlice => ({
  metadata: { name: `s${(made += 1)}`, labels },
  ...content,
});

function carriedOut(existing: readonly EndpointSlice[], { create, update, remove }: SlicePlan): EndpointSlice[] {
  const changed = new Map(update.map(({ slice, group: next }) => [slice.metadata.name, next]));
  const kept = existing.filter((slice) => !remove.includes(slice));
  return [
    ...kept.map((slice) => ({ ...slice, ...changed.get(slice.metadata.name) })),
    ...create.map((one) => sliceOf(one)),
  ];
}

const isCurrent = (): boolean => true;
const countOf = ({ create, update, remove }: SlicePlan): number[] => [create.length, update.length, remove.length];

test('carried out, a plan leaves nothing to plan, and the slices say all of what they should, once', () => {
  const world = fc.array(fc.tuple(fc.constantFrom(0, 80, 90), fc.nat(250), fc.boolean(), fc.nat(100)), {
    maxLength: 3,
  });
  const unique = (drawn: readonly (readonly [number, number, boolean, number])[]): SliceGroup[] => {
    const byPort = new Map(drawn.map((one) => [one[0], one]));
    return [...byPort.values()].map(([port, count, ready, from]) => group(port, count, ready, from));
  };
  fc.assert(
    fc.property(world, world, (first, second) => {
      let slices: EndpointSlice[] = [];
      for (const wanted of [unique(first), unique(second)]) {
        slices = carriedOut(slices, planSlices(wanted, slices, isCurrent));
        assert.deepEqual(countOf(planSlices(wanted, slices, isCurrent)), [0, 0, 0]);
        const flat = (all: readonly Pick<SliceGroup, 'ports' | 'endpoints'>[]): string[] =>
          all.flatMap(({ ports, endpoints }) => endpoints.map((one) => canonicalJson([ports, one]))).sort();
        const said = slices.map(({ ports = [], endpoints = [] }) => ({ ports, endpoints }));
        assert.deepEqual(flat(said), flat(wanted));
        assert.ok(slices.every(({ endpoints = [] }) => endpoints.length <= 100));
      }
    }),
    { numRuns: 60 },
  );
});

const cases = [
  { it: 'makes one slice for each hundred', before: [], wanted: [group(80, 250)], writes: [3, 0, 0] },
  { it: 'keeps an empty slice for a service without pods', before: [], wanted: [group(0, 0)], writes: [1, 0, 0] },
  {
    it: 'fills the empty slice when the first pod comes',
    before: [group(0, 0)],
    wanted: [group(80, 1)],
    writes: [0, 1, 0],
  },
  { it: 'adds where there is room', before: [group(80, 60)], wanted: [group(80, 100)], writes: [0, 1, 0] },
  { it: 'leaves a full slice alone', before: [group(80, 100)], wanted: [group(80, 101)], writes: [1, 0, 0] },
  { it: 'writes a change of state', before: [group(80, 2, false)], wanted: [group(80, 2)], writes: [0, 1, 0] },
  {
    it: 'removes what nobody has any more',
    before: [group(80, 1), group(90, 1)],
    wanted: [group(80, 1)],
    writes: [0, 0, 1],
  },
];
for (const { it, before, wanted, writes } of cases) {
  test(`planSlices ${it}`, () => {
    const existing = before.map((one) => sliceOf(one));
    assert.deepEqual(countOf(planSlices(wanted, existing, isCurrent)), writes);
  });
}

test('a slice whose labels are not those of its service any more is written', () => {
  const existing = [sliceOf(group(80, 1), { old: 'label' })];
  assert.deepEqual(countOf(planSlices([group(80, 1)], existing, () => false)), [0, 1, 0]);
});
