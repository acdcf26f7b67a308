/** SubPaths that follow their volume: seen from a container that never stops reading, and killed at each kind of step. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsExchange } from './fixtures/followed-volume.ts';
import { checkKilledLoss, checkKilledPrepare, checkKilledUpdate } from './fixtures/sub-path-kills.ts';
import { checkReaders } from './fixtures/sub-path-readers.ts';
import { whyNoStrace } from './fixtures/traced-write.ts';

const skip = needsExchange();
const noStrace = whyNoStrace();

for (const under of [undefined, '/dev/shm']) {
  test(`a container sees whole versions only, and never goes back (${under ?? 'temporary directory'})`, { skip }, (t) =>
    checkReaders(t, 10_000, under),
  );
}

// The long test does it at every call.
const steps = [
  { call: 'rename', when: 2, is: 'after the swap, before anything of the subPaths was changed' },
  { call: 'move_mount', when: 1, is: 'before the new mount is put beneath' },
  { call: 'umount2', when: 1, is: 'between the two steps of an exchange' },
  { call: 'rename', when: 3, is: 'after the exchange of the first subPath' },
  { call: 'umount2', when: 2, is: 'between the two steps of the exchange of a directory' },
  { call: 'unlink', when: 1, is: 'before the old version is deleted' },
];
for (const { is, ...kill } of steps) {
  test(`killed ${is}, it leaves whole versions, and the next update goes on from there`, { skip }, async (t) => {
    if (noStrace !== undefined) return t.skip(noStrace);
    assert.equal(await checkKilledUpdate(t, kill, 2), true);
  });
}

test(
  'killed while it prepares, it leaves nothing that the next start of the container does not repair',
  { skip },
  async (t) => {
    if (noStrace !== undefined) return t.skip(noStrace);
    assert.equal(await checkKilledPrepare(t, { call: 'mount', when: 2 }, false), true);
    assert.equal(await checkKilledPrepare(t, { call: 'rename', when: 1 }, true), true);
  },
);

test('killed while a directory is kept that left the volume, it leaves that whole', { skip }, async (t) => {
  if (noStrace !== undefined) return t.skip(noStrace);
  assert.equal(await checkKilledLoss(t, { call: 'umount2', when: 2 }), true);
});
