import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerReference } from '../../kube/schema/meta.ts';
import { decideClaim, selecting } from './ownership.ts';
import { slowStart } from './pod-control.ts';

const ending = { deletionTimestamp: '2026-01-01T00:00:00Z' };
const by = (uid: string): KubeObject['metadata'] => ({
  name: 'pod',
  ownerReferences: [controllerReference('v1', 'ReplicationController', { name: 'web', uid })],
});
const free = { name: 'pod' };

const claims = [
  { it: 'never takes what another has', of: by('other'), matches: true, claim: 'ignore' },
  { it: 'keeps its own', of: by('me'), matches: true, claim: 'keep' },
  { it: 'keeps its own while it is being deleted', of: by('me'), matches: true, isEnding: true, claim: 'keep' },
  { it: 'gives up what it does not select', of: by('me'), matches: false, claim: 'release' },
  { it: 'gives nothing up while it is being deleted', of: by('me'), matches: false, isEnding: true, claim: 'ignore' },
  { it: 'adopts what has no controller', of: free, matches: true, claim: 'adopt' },
  { it: 'adopts nothing while it is being deleted', of: free, matches: true, isEnding: true, claim: 'ignore' },
  { it: 'adopts nothing that is being deleted', of: { ...free, ...ending }, matches: true, claim: 'ignore' },
  { it: 'leaves alone what it does not select', of: free, matches: false, claim: 'ignore' },
];
for (const { it, of, matches, claim, isEnding = false } of claims) {
  test(`a controller ${it}`, () => {
    const owner = { metadata: { name: 'web', uid: 'me', ...(isEnding && ending) } };
    assert.equal(decideClaim(owner, { metadata: of }, matches), claim);
  });
}

test('an empty selector chooses nothing', () => {
  assert.equal(selecting({})({ metadata: { name: 'pod', labels: { a: 'b' } } }), false);
  assert.equal(selecting({ matchLabels: { a: 'b' } })({ metadata: { name: 'pod', labels: { a: 'b' } } }), true);
});

test('what is refused is tried in the batches up to the first refusal, and no more', async () => {
  const tried: number[] = [];
  const act = async (index: number): Promise<void> => {
    tried.push(index);
    if (index === 4) throw new Error('full');
  };
  const { done, error } = await slowStart(100, act);
  assert.deepEqual([tried, done, String(error)], [[0, 1, 2, 3, 4, 5, 6], 6, 'Error: full']);
  assert.deepEqual(await slowStart(5, async () => {}), { done: 5, error: undefined });
});
