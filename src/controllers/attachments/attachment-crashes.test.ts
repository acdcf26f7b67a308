/** Attachments survive what happens to those who look after them. The long test strikes at every point; here it is a sample. */
import { test } from 'node:test';
import { checkAttachmentCrashes, tellOfAttachments } from '../../testing/worlds/attachment-crashes.ts';

test('volumes move between nodes as they should, also where every update meets a conflict', async () => {
  await tellOfAttachments();
  await tellOfAttachments({ conflicts: true });
});

test('a crash at a write, before or after it, changes nothing about where volumes end', async () => {
  await checkAttachmentCrashes((number) => number % 29 === 0);
});
