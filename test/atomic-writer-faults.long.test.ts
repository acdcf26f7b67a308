/** Kills and fails an atomic write at every single system call of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { checkFault, inPairs } from './fixtures/fault-checks.ts';
import { callPoints, changingCalls, scenarios, whyNoStrace } from './fixtures/traced-write.ts';

const noStrace = whyNoStrace();
const isRoot = process.getuid?.() === 0;

const all = {
  ...scenarios,
  // Ownership calls are made only with a group, and only root may give away any.
  ...(isRoot && {
    'an update with a group': { before: { a: '1', 'd/b': '1' }, warm: false, next: { a: '2', n: '2' }, group: 4242 },
  }),
};

for (const [name, scenario] of Object.entries(all)) {
  for (const fault of ['signal=KILL', 'error=ENOSPC', 'error=EIO', 'error=EACCES']) {
    test(`${name} with ${fault} at every call`, async (t) => {
      if (noStrace !== undefined) return t.skip(noStrace);
      const base = temporaryDirectory(t);
      const points = await callPoints(scenario, base);
      const chosen = fault === 'signal=KILL' ? points.filter(({ call }) => changingCalls.includes(call)) : points;
      assert.ok(chosen.length > 10);
      await inPairs(chosen, (point) => checkFault(scenario, base, point, fault));
    });
  }
}
