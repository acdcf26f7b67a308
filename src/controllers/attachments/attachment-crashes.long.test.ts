/** Every write of a story of attachments, struck before and after. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAttachmentCrashes } from '../../testing/worlds/attachment-crashes.ts';

test('the loss of a party, of all, or of an answer at any write leaves every volume where it belongs', async (t) => {
  const count = await checkAttachmentCrashes(() => true);
  t.diagnostic(`${count} points`);
  assert.ok(count > 200);
});
