import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { tmpfsSizeBytes } from './tmpfs-size.ts';

const cases = [
  { it: 'the node alone', node: 100n, pod: 0n, limit: 0n, size: 100n },
  { it: 'a smaller pod limit', node: 100n, pod: 50n, limit: 0n, size: 50n },
  { it: 'a smaller size limit', node: 100n, pod: 0n, limit: 20n, size: 20n },
  { it: 'the smaller of both', node: 100n, pod: 50n, limit: 20n, size: 20n },
  { it: 'a size limit above the pod limit', node: 100n, pod: 50n, limit: 70n, size: 50n },
  { it: 'limits above the node', node: 100n, pod: 500n, limit: 700n, size: 100n },
  { it: 'a node that tells nothing', node: 0n, pod: 50n, limit: 20n, size: 0n },
];
for (const { it, node, pod, limit, size } of cases) {
  test(`emptyDir invariant 63: the size of a tmpfs with ${it}`, () => {
    const bounds = { nodeAllocatableBytes: node, podLimitBytes: pod, sizeLimitBytes: limit };
    assert.equal(tmpfsSizeBytes(bounds), size);
  });
}

test('emptyDir invariant 63: the size is the smallest bound that is not zero', () => {
  const bytes = fc.bigInt({ min: 0n, max: 1n << 50n });
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: 1n << 50n }), bytes, bytes, (node, pod, limit) => {
      const smallest = [node, pod, limit].filter((bound) => bound > 0n).reduce((a, b) => (a < b ? a : b));
      assert.equal(tmpfsSizeBytes({ nodeAllocatableBytes: node, podLimitBytes: pod, sizeLimitBytes: limit }), smallest);
    }),
  );
});
