/** `mountlet up` is killed at every commit and every change of a volume's directory in the life of claims. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClaimKills, type Moment } from './fixtures/claim-kills.ts';
import { withNode } from './up-program.ts';

/** More than a life has, on a slow machine too, where the node reports in between. */
const pointsMax = 400;

for (const moment of ['before', 'after'] satisfies Moment[]) {
  test(`killed ${moment} every effect, claims keep their data and end as they should`, withNode, async (t) => {
    const kills = await ClaimKills.open(t);
    let point = 1;
    for (; point < pointsMax; point += 1) {
      const effect = await kills.check(point, moment);
      if (effect === undefined) break;
      t.diagnostic(`killed ${moment} ${effect}`);
    }
    assert.ok(point > 50 && point < pointsMax, `${point} effects`);
  });
}
