/** Every fault of csi-crashes.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { messageOf } from '../../base/errors.ts';
import { faultKinds } from '../../testing/worlds/claim-crashes.ts';
import { tellCsiStory } from '../../testing/worlds/csi-story.ts';

test('a death at any write or call, or a lost answer, changes nothing of how it ends', async () => {
  const points = (await tellCsiStory()).length;
  const wrong: string[] = [];
  for (const { isCutShort, ...fault } of faultKinds) {
    for (let point = 1; point <= points; point += 1) {
      const story = { fault: { ...fault, point }, isCutShort };
      await tellCsiStory(story).catch((error: unknown) => wrong.push(messageOf(error)));
    }
  }
  assert.deepEqual(wrong, []);
});
