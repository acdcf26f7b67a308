import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperatingError } from '../../base/errors.ts';
import type { NodeSelectorTerm } from '../kinds/storage/node-selector.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import { type SelectableNode, nodeSelectorMatches, requireNodeAffinity } from './node-affinity.ts';

const node = { name: 'edge-1', labels: { zone: 'a', cores: '8', empty: '' } };

function volume(terms?: readonly NodeSelectorTerm[]): PersistentVolume {
  const nodeAffinity = terms === undefined ? {} : { nodeAffinity: { required: { nodeSelectorTerms: terms } } };
  return { metadata: { name: 'disk' }, spec: { local: { path: '/srv' }, ...nodeAffinity } };
}

const labelled = (key: string, operator: string, ...values: string[]): NodeSelectorTerm => ({
  matchExpressions: [{ key, operator, values }],
});
const named = (operator: string, ...values: string[]): NodeSelectorTerm => ({
  matchFields: [{ key: 'metadata.name', operator, values }],
});

const cases: { it: string; terms?: readonly NodeSelectorTerm[]; on?: SelectableNode; fits: boolean }[] = [
  { it: 'says nothing about nodes', fits: true },
  { it: 'has no terms', terms: [], fits: false },
  { it: 'has only an empty term', terms: [{}], fits: false },
  { it: 'has an empty term beside one that holds', terms: [{}, labelled('zone', 'In', 'a')], fits: true },
  { it: 'is In one of several zones', terms: [labelled('zone', 'In', 'b', 'a')], fits: true },
  { it: 'is In another zone', terms: [labelled('zone', 'In', 'b')], fits: false },
  { it: 'is In a zone the node has no label for', terms: [labelled('rack', 'In', 'a')], fits: false },
  { it: 'is NotIn the zone', terms: [labelled('zone', 'NotIn', 'a')], fits: false },
  { it: 'is NotIn a zone the node has no label for', terms: [labelled('rack', 'NotIn', 'a')], fits: true },
  { it: 'wants a label that exists', terms: [labelled('zone', 'Exists')], fits: true },
  { it: 'wants a label that exists and is empty', terms: [labelled('empty', 'Exists')], fits: true },
  { it: 'wants a label that is only on every object', terms: [labelled('toString', 'Exists')], fits: false },
  { it: 'wants a label that does not exist', terms: [labelled('rack', 'DoesNotExist')], fits: true },
  { it: 'does not want a label that exists', terms: [labelled('zone', 'DoesNotExist')], fits: false },
  { it: 'wants more than 4 cores', terms: [labelled('cores', 'Gt', '4')], fits: true },
  { it: 'wants more than 8 cores', terms: [labelled('cores', 'Gt', '8')], fits: false },
  { it: 'wants fewer than 16 cores', terms: [labelled('cores', 'Lt', '16')], fits: true },
  { it: 'compares a word', terms: [labelled('zone', 'Gt', '1')], fits: false },
  { it: 'compares with two numbers', terms: [labelled('cores', 'Gt', '1', '2')], fits: false },
  { it: 'has a negation without values', terms: [labelled('zone', 'NotIn')], fits: false },
  { it: 'has an unknown operator', terms: [labelled('zone', 'Like', 'a')], fits: false },
  { it: 'names the node', terms: [named('In', 'edge-1')], fits: true },
  { it: 'names another node', terms: [named('In', 'edge-2')], fits: false },
  { it: 'excludes the node by name', terms: [named('NotIn', 'edge-1')], fits: false },
  { it: 'names two nodes in one field', terms: [named('In', 'edge-1', 'edge-2')], fits: false },
  { it: 'asks whether the name exists', terms: [named('Exists')], fits: false },
  {
    it: 'asks for a field that nodes do not have',
    terms: [{ matchFields: [{ key: 'spec.x', operator: 'In', values: ['a'] }] }],
    fits: false,
  },
  { it: 'names a node, to one without a name', terms: [named('In', 'edge-2')], on: { labels: {} }, fits: true },
  {
    it: 'wants labels and a name, of which the name is wrong',
    terms: [{ ...labelled('zone', 'In', 'a'), ...named('In', 'edge-2') }],
    fits: false,
  },
  {
    it: 'wants two labels in one term, of which one is wrong',
    terms: [
      {
        matchExpressions: [
          { key: 'zone', operator: 'In', values: ['a'] },
          { key: 'cores', operator: 'In', values: ['4'] },
        ],
      },
    ],
    fits: false,
  },
  {
    it: 'wants two labels in two terms, of which one is wrong',
    terms: [labelled('zone', 'In', 'b'), labelled('cores', 'In', '8')],
    fits: true,
  },
];
for (const { it, terms, on = node, fits } of cases) {
  test(`a volume that ${it} is ${fits ? 'reached' : 'not reached'} from the node`, () => {
    if (fits) return assert.doesNotThrow(() => requireNodeAffinity(volume(terms), on));
    assert.throws(() => requireNodeAffinity(volume(terms), on), {
      name: OperatingError.name,
      message: 'no matching NodeSelectorTerms',
    });
  });
}

const expression = fc.record({
  key: fc.constantFrom('zone', 'cores', 'rack'),
  operator: fc.constantFrom('In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt', ''),
  values: fc.array(fc.constantFrom('a', '8', '9')),
});

test('one more term never loses a node, one more expression never wins one', () => {
  const term = fc.record({ matchExpressions: fc.array(expression, { minLength: 1 }) });
  fc.assert(
    fc.property(fc.array(term), term, expression, (terms, more, stricter) => {
      const before = nodeSelectorMatches({ nodeSelectorTerms: terms }, node);
      if (before) assert.ok(nodeSelectorMatches({ nodeSelectorTerms: [...terms, more] }, node));
      const stricterTerms = terms.map(({ matchExpressions }) => ({
        matchExpressions: [...matchExpressions, stricter],
      }));
      if (!before) assert.ok(!nodeSelectorMatches({ nodeSelectorTerms: stricterTerms }, node));
    }),
  );
});
