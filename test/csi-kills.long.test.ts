/** `mountlet up` and the driver of its volumes are killed at every API write and every call of the driver. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsFileSystem } from '../src/testing/machine/devices.ts';
import { CsiKills, moments, places, victims } from './fixtures/csi-kills.ts';
import { withNode } from './up-program.ts';

const from = Number(process.env['FROM'] ?? 1);
const skip = withNode.skip === false ? needsFileSystem('xfs', 'xfs_growfs') : withNode.skip;
/** More than a life has, on a slow machine too, where the node reports in between. */
const pointsMax = 400;

for (const place of places) {
  for (const moment of moments) {
    for (const victim of victims) {
      test(
        `${victim} killed ${moment} every ${place}, volumes of a driver keep their data and leave nothing`,
        { skip },
        async (t) => {
          const kills = new CsiKills(t);
          let point = from;
          for (; point < pointsMax; point += 1) {
            const what = await kills.check({ place, point, moment, victim });
            if (what === undefined) break;
            t.diagnostic(`killed ${moment} ${what}`);
          }
          assert.ok(point > 30 && point < pointsMax, `${point} points`);
        },
      );
    }
  }
}
