import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../base/errors.ts';
import { faultKinds } from '../../testing/worlds/claim-crashes.ts';
import { tellCsiStory } from '../../testing/worlds/csi-story.ts';

test('volumes of a driver are made, attached, grown, detached and deleted, also where every write meets a conflict', async () => {
  const points = await tellCsiStory();
  const calls = points.flatMap((point) => /^csi: call (\w+)/.exec(point)?.[1] ?? []);
  assert.deepEqual(calls, [
    'createVolume',
    'createVolume',
    'controllerPublishVolume',
    'controllerExpandVolume',
    'controllerUnpublishVolume',
    'deleteVolume',
  ]);
  await tellCsiStory({ conflicts: true });
});

/** All of them are in csi-crashes.long.test.ts. */
const every = 23;

test('a death at a write or at a call, or a lost answer, changes nothing of how it ends', async () => {
  const points = (await tellCsiStory()).length;
  const wrong: string[] = [];
  let count = 0;
  for (const [index, { isCutShort, ...fault }] of faultKinds.entries()) {
    for (let point = 1 + (index % every); point <= points; point += every) {
      count += 1;
      await tellCsiStory({ fault: { ...fault, point }, isCutShort }).catch((error: unknown) =>
        wrong.push(messageOf(error)),
      );
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(count > 20, String(count));
});
