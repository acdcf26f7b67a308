/** `mountlet up` and the driver of its volumes are killed while claims are used. The long test does it at every write and call. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { needsFileSystem } from '../src/testing/machine/devices.ts';
import { CsiKills, moments, places, victims } from './fixtures/csi-kills.ts';
import { withNode } from './up-program.ts';

const seed = Number(process.env['SEED'] ?? 1);
const skip = withNode.skip === false ? needsFileSystem('xfs', 'xfs_growfs') : withNode.skip;

test('killed at some writes and calls, volumes of a driver keep their data and leave nothing', { skip }, async (t) => {
  const kills = new CsiKills(t);
  t.diagnostic(`seed ${seed}`);
  for (const [index, place] of places.entries()) {
    const kill = fc.record({
      place: fc.constant(place),
      point: fc.integer({ min: 1, max: 40 }),
      moment: fc.constantFrom(...moments),
      victim: fc.constantFrom(...victims),
    });
    for (const one of fc.sample(kill, { seed, numRuns: index + 1 })) {
      const point = await kills.check(one);
      t.diagnostic(`killed ${one.victim} ${one.moment} ${place} ${point}`);
      assert.ok(point !== undefined);
    }
  }
});
