import { ttlMsOfNode } from '../objects/cached-objects.ts';
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import type { Node } from '../kube/kinds/node.ts';
import { nodeIdentity, runningApiServer } from '../testing/servers/test-api-server.ts';
import { OwnNode, nodeResource } from './own-node.ts';

const { signal } = new AbortController();

interface World {
  readonly admin: ApiClient;
  readonly own: OwnNode;
  /** What `current()` is when it is as the test wants it. */
  readonly when: (isWanted: (node: Node | undefined) => boolean) => Promise<Node | undefined>;
}

async function following(t: TestContext): Promise<World> {
  const server = await runningApiServer(t);
  const client = server.client({}, nodeIdentity(server, 'here'));
  const own = new OwnNode('here', { client, clock: systemClock, random: Math.random, notify: () => {} });
  const end = new AbortController();
  const running = own.run(end.signal);
  t.after(async () => {
    end.abort();
    await running;
  });
  const when: World['when'] = (isWanted) =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isWanted(own.current())) return;
        stop();
        resolve(own.current());
      };
      const stop = own.subscribe(look);
      look();
    });
  return { admin: server.client(), own, when };
}

test('a node follows its own Node with its own credentials: made, changed, deleted and made again', async (t) => {
  const { admin, own, when } = await following(t);
  assert.equal(own.current(), undefined);
  await assert.rejects(own.read(signal), { name: 'NotFoundError' });
  const made = await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  assert.equal((await when((node) => node !== undefined))?.metadata.uid, made.metadata.uid);
  assert.equal((await own.read(signal)).metadata.uid, made.metadata.uid);
  await admin.delete(nodeResource, { name: 'here' }, undefined, signal);
  await when((node) => node === undefined);
  const again = await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  assert.equal((await when((node) => node !== undefined))?.metadata.uid, again.metadata.uid);
});

test('the time to live that the cluster writes to the Node is the one the managers get', async (t) => {
  const { admin, when } = await following(t);
  await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  // In a cluster of one node, copies are not used at all.
  assert.equal(ttlMsOfNode(await when((node) => ttlMsOfNode(node) !== undefined)), 0);
});

test('the answer to a write counts before the watch delivers it, and never after something newer', () => {
  const unused = { get: never, list: never, watch: never };
  const own = new OwnNode('here', { client: unused, clock: systemClock, random: () => 0, notify: () => {} });
  const version = (resourceVersion: string): Node => ({ metadata: { name: 'here', uid: 'u', resourceVersion } });
  own.saw(version('9'));
  own.saw(version('10'));
  own.saw(version('8'));
  assert.equal(own.current()?.metadata.resourceVersion, '10');
});

function never(): never {
  throw new Error('nobody asks the server here');
}
