/** `mountlet up` is killed while claims are bound, used and deleted. The long test does it at every effect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ClaimKills, type Moment } from './fixtures/claim-kills.ts';
import { withNode } from './up-program.ts';

const seed = Number(process.env['SEED'] ?? 1);

test(
  'killed at some commits and changes of directories, claims keep their data and end as they should',
  withNode,
  async (t) => {
    const kills = await ClaimKills.open(t);
    const kill = fc.tuple(fc.integer({ min: 2, max: 60 }), fc.constantFrom<Moment[]>('before', 'after'));
    t.diagnostic(`seed ${seed}`);
    for (const [point, moment] of fc.sample(kill, { seed, numRuns: 2 })) {
      const effect = await kills.check(point, moment);
      t.diagnostic(`killed ${moment} ${effect}`);
      assert.ok(effect !== undefined);
    }
  },
);
