/** Every write and every change of the disk in a story of claims, struck before and after; and many random histories. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClaimStory, checkCrashes, faultKinds } from '../../testing/worlds/claim-crashes.ts';
import { checkRandomClaims } from '../../testing/worlds/random-claims.ts';

for (const { isCutShort, ...kind } of faultKinds) {
  const victim = { party: 'the party that makes it', all: 'everything', server: 'the answer' }[kind.victim];
  const end = isCutShort ? ', and the user deletes everything meanwhile' : '';
  test(`${victim} is lost ${kind.moment} every write${end}`, { timeout: 900_000 }, async (t) => {
    const points = await ClaimStory.tell();
    const count = await checkCrashes(points.map((_, at) => ({ fault: { point: at + 1, ...kind }, isCutShort })));
    t.diagnostic(`${count} points`);
    assert.ok(count > 200);
  });
}

test('random histories, of another seed each time', { timeout: 900_000 }, async (t) => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`seed ${seed}`);
  await checkRandomClaims(4_000, seed);
});
