import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { evictionMs, silenced } from './node-life.ts';

const now = Date.parse('2026-01-01T00:10:00Z');
const taint = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' };
const tolerated = (tolerationSeconds?: number): object => ({
  key: taint.key,
  operator: 'Exists',
  ...(tolerationSeconds !== undefined && { tolerationSeconds }),
});

const cases = [
  { it: 'leaves at once where it does not tolerate a taint', tolerations: [], leaves: now },
  { it: 'leaves when the time since the taint is up', tolerations: [tolerated(900)], leaves: now + 300_000 },
  {
    it: 'leaves by the first toleration of a taint',
    tolerations: [tolerated(900), tolerated(700)],
    leaves: now + 300_000,
  },
  {
    it: 'counts from when it was first to leave where the taint has no time',
    tolerations: [tolerated(30)],
    taints: [{ key: taint.key, effect: taint.effect }],
    leaves: now + 30_000,
  },
  { it: 'stays where it tolerates the taint without end', tolerations: [tolerated()], leaves: undefined },
  { it: 'stays on a node without taints', tolerations: [], taints: [], leaves: undefined },
];
for (const { it, tolerations, taints = [taint], leaves } of cases) {
  test(`a pod ${it}`, () => assert.equal(evictionMs(aPod({ tolerations: tolerations as never }), taints, now), leaves));
}

test('a silent node is unknown, in words that say whether it ever spoke, and is so once', () => {
  const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: 'then' };
  const node: Node = { metadata: { name: 'n' }, status: { conditions: [ready, { type: 'Own', status: 'True' }] } };
  const silent = silenced(node, 'now');
  const shown = silent.status?.conditions?.map(({ type, status, reason = '' }) => `${type} ${status} ${reason}`.trim());
  assert.deepEqual(shown, [
    'Own True',
    'Ready Unknown NodeStatusUnknown',
    'MemoryPressure Unknown NodeStatusNeverUpdated',
    'DiskPressure Unknown NodeStatusNeverUpdated',
    'PIDPressure Unknown NodeStatusNeverUpdated',
  ]);
  assert.equal(silent.status?.conditions?.[1]?.lastHeartbeatTime, 'then');
  assert.equal(silenced(silent, 'later'), silent);
});
