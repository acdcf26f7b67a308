/** `mountlet up` and the driver of its volumes are killed at every API write and every call of the driver. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsFileSystem } from '../src/testing/machine/devices.ts';
import { CsiKills, moments, places, victims } from './fixtures/csi-kills.ts';
import { withNode } from './up-program.ts';

/** Which victim comes first: three runs with three of them have every victim at every point. */
const seed = Number(process.env['SEED'] ?? 1);
const from = Number(process.env['FROM'] ?? 1);
const skip = withNode.skip === false ? needsFileSystem('xfs', 'xfs_growfs') : withNode.skip;
/** More than a life has, on a slow machine too, where the node reports in between. */
const pointsMax = 400;

for (const place of places) {
  for (const [index, moment] of moments.entries()) {
    test(
      `killed ${moment} every ${place}, volumes of a driver keep their data and leave nothing`,
      { skip },
      async (t) => {
        const kills = new CsiKills(t);
        let point = from;
        for (; point < pointsMax; point += 1) {
          const victim = victims[(seed + index + point) % victims.length] ?? 'both';
          const what = await kills.check({ place, point, moment, victim });
          if (what === undefined) break;
          t.diagnostic(`killed ${victim} ${moment} ${what}`);
        }
        assert.ok(point > 30 && point < pointsMax, `${point} points`);
      },
    );
  }
}
