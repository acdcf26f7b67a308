/** Claims survive what happens to those who look after them. The long test strikes at every point; here it is a sample. */
import { test } from 'node:test';
import fc from 'fast-check';
import { ClaimStory, checkCrashes, faultKinds } from '../../testing/worlds/claim-crashes.ts';
import { checkRandomClaims } from '../../testing/worlds/random-claims.ts';

const seed = Number(process.env['SEED'] ?? 1);

test('claims of every kind live and end as they should, also where every update meets a conflict', async () => {
  await ClaimStory.tell();
  await ClaimStory.tell({ conflicts: true });
});

test('a crash at a write, before or after it, changes nothing about how claims end', async (t) => {
  const points = await ClaimStory.tell();
  const fault = fc.record({ point: fc.integer({ min: 1, max: points.length }), kind: fc.constantFrom(...faultKinds) });
  const sample = fc.sample(fault, { seed, numRuns: 24 });
  t.diagnostic(`seed ${seed}: ${sample.map(({ point }) => point).join()} of ${points.length} points`);
  await checkCrashes(
    sample.map(({ point, kind: { isCutShort, ...kind } }) => ({ fault: { point, ...kind }, isCutShort })),
  );
});

test('whatever users do, and whoever is killed meanwhile, claims and volumes end in order', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await checkRandomClaims(100, seed);
});
