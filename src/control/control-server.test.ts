import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadSystemCalls } from '../linux/system-calls.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { readVolumes } from './control-client.ts';
import { startControlServer } from './control-server.ts';
import type { VolumeQuery, VolumeView } from './volume-view.ts';

const uid = process.geteuid?.() ?? 0;
const { signal } = new AbortController();
const view: VolumeView = {
  apiVersion: 'mountlet.dev/v1alpha1',
  kind: 'Volume',
  metadata: { name: 'web.config', namespace: 'shop' },
  spec: { podName: 'web', podUid: 'u', volumeName: 'config' },
  status: { state: 'Waiting', message: 'no such thing' },
};

/** A root whose path is longer than that of any socket may be. */
async function serve(
  t: TestContext,
  volumes: (query: VolumeQuery) => Promise<readonly VolumeView[]>,
  peerUid = loadSystemCalls().peerUid,
): Promise<string> {
  const root = join(temporaryDirectory(t), 'a'.repeat(100), 'b'.repeat(100));
  mkdirSync(root, { recursive: true });
  t.after(await startControlServer({ root, uid, peerUid }, { volumes }));
  return root;
}

test('a client reads what the node says, however long the path of its root is', async (t) => {
  const root = await serve(t, async ({ namespace = 'all' }) => [
    { ...view, metadata: { name: 'web.config', namespace } },
  ]);
  assert.deepEqual(await readVolumes(root, { namespace: 'a&b=c' }, signal), [
    { ...view, metadata: { name: 'web.config', namespace: 'a&b=c' } },
  ]);
  assert.equal((await readVolumes(root, {}, signal))?.[0]?.metadata.namespace, 'all');
});

test('what goes wrong in the node is said to the client', async (t) => {
  const root = await serve(t, () => Promise.reject(new Error('out of paper')));
  await assert.rejects(readVolumes(root, {}, signal), { message: `Cannot ask the node in "${root}": out of paper` });
});

test('another user is not answered, even if the socket could be opened', async (t) => {
  const root = await serve(
    t,
    async () => [view],
    () => uid + 1,
  );
  await assert.rejects(readVolumes(root, {}, signal), { reason: 'NodeUnreachable' });
});

test('without a server there is no node; a second server takes the place of one that ended', async (t) => {
  const root = temporaryDirectory(t);
  const settings = { root, uid, peerUid: loadSystemCalls().peerUid };
  assert.equal(await readVolumes(root, {}, signal), undefined);
  const close = await startControlServer(settings, { volumes: async () => [] });
  await close();
  assert.equal(await readVolumes(root, {}, signal), undefined);
  t.after(await startControlServer(settings, { volumes: async () => [view] }));
  assert.deepEqual(await readVolumes(root, {}, signal), [view]);
});
