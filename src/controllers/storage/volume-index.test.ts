import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { aClaim, aVolume } from '../../testing/fakes/storage-builders.ts';
import { VolumeIndex, misfit } from './volume-index.ts';

const modes = ['ReadWriteOnce', 'ReadOnlyMany', 'ReadWriteMany'];
const someModes = fc.subarray(modes, { minLength: 1 });
const volume = fc.record({
  name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
  size: fc.integer({ min: 1, max: 5 }),
  accessModes: someModes,
  storageClassName: fc.constantFrom('', 'gold'),
  phase: fc.constantFrom('Available', 'Available', 'Released'),
  isGone: fc.boolean(),
});

test('the index finds what a walk through all volumes finds, after any history of changes', () => {
  fc.assert(
    fc.property(
      fc.array(volume, { maxLength: 30 }),
      fc.integer({ min: 1, max: 5 }),
      someModes,
      (changes, size, wanted) => {
        const index = new VolumeIndex();
        for (const { name, size: bytes, isGone, ...parts } of changes) {
          index.set(name, isGone ? undefined : aVolume(name, { ...parts, size: `${bytes}` }));
        }
        const claim = aClaim({ size: `${size}`, accessModes: wanted, storageClassName: 'gold' });
        const fitting = [...index.all()]
          .filter((one) => one.status?.phase === 'Available' && misfit(one, claim) === undefined)
          .map(({ metadata, spec }) => ({
            name: metadata.name,
            rank: [spec.accessModes?.length ?? 0, Number(spec.capacity?.['storage'] ?? 0)] as const,
          }));
        const best = fitting.toSorted((a, b) => a.rank[0] - b.rank[0] || a.rank[1] - b.rank[1])[0]?.rank;
        const found = index.find(claim)?.metadata.name;
        assert.deepEqual(fitting.find(({ name }) => name === found)?.rank, best);
      },
    ),
  );
});
