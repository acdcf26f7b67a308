/** A million reads by a container of subPaths that follow their volume, and a kill at every call that changes something. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { needsExchange } from './fixtures/followed-volume.ts';
import { checkKilledLoss, checkKilledPrepare, checkKilledUpdate } from './fixtures/sub-path-kills.ts';
import { checkReaders } from './fixtures/sub-path-readers.ts';
import { whyNoStrace } from './fixtures/traced-write.ts';

const skip = needsExchange();
const noStrace = whyNoStrace();
/** More than any of them is made; the count ends where a kill meets no call. */
const callsMax = 64;

test('a million reads find whole versions only', { skip }, (t) => checkReaders(t, 1_000_000));

for (const shows of [1, 2] as const) {
  const first = shows === 1 ? 'the first update' : 'an update';
  for (const call of [
    'open_tree',
    'mount_setattr',
    'move_mount',
    ...(shows === 2 ? ['umount2'] : []),
    'rename',
    'unlink',
  ]) {
    test(`${first} killed at every ${call}`, { skip }, async (t) => {
      if (noStrace !== undefined) return t.skip(noStrace);
      let when = 1;
      while (when < callsMax && (await checkKilledUpdate(t, { call, when }, shows))) when += 1;
      assert.ok(when > 1 && when < callsMax, `${when - 1} kills`);
    });
  }
}

for (const call of ['open_tree', 'move_mount', 'umount2', 'rename', 'mkdir', 'chmod', 'unlink', 'rmdir']) {
  test(`an update without the directory killed at every ${call}`, { skip }, async (t) => {
    if (noStrace !== undefined) return t.skip(noStrace);
    let when = 1;
    while (when < callsMax && (await checkKilledLoss(t, { call, when }))) when += 1;
    assert.ok(when > 1 && when < callsMax, `${when - 1} kills`);
  });
}

for (const again of [false, true]) {
  const calls = [
    'mkdir',
    'chmod',
    'fchown',
    'rename',
    'write',
    ...(again ? ['umount2', 'unlink', 'rmdir'] : ['mount']),
  ];
  for (const call of calls) {
    test(`${again ? 'another' : 'the first'} preparation killed at every ${call}`, { skip }, async (t) => {
      if (noStrace !== undefined) return t.skip(noStrace);
      let when = 1;
      while (when < callsMax && (await checkKilledPrepare(t, { call, when }, again))) when += 1;
      assert.ok(when > 1 && when < callsMax, `${when - 1} kills`);
    });
  }
}
