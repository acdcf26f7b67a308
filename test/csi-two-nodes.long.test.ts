/**
 * Nodes that end and do not come back, with the time that Kubernetes gives them: one keeps its volume for as long as a node may
 * be silent, the other until an administrator says that it is out of service. About eight minutes.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { CsiNodes, csiNodesSkip } from './csi-nodes.ts';
import { eventually } from './kubectl-program.ts';

const ends: (() => unknown)[] = [];
after(async () => {
  for (const end of ends) await end();
});

/** Kubernetes', which has no setting for it. */
const unmountMs = 6 * 60_000;

test(
  'volumes of nodes that have ended move by the out-of-service taint, with their pods, or when their time is over, and not before',
  { skip: csiNodesSkip },
  async () => {
    const nodes = await CsiNodes.start((act) => void ends.unshift(act), 'a', 'b', 'c');
    const { kubectl } = nodes;
    const volumes = { silent: await nodes.claim('silent'), tainted: await nodes.claim('tainted') };
    await nodes.pod('silent-a', 'a', 'silent');
    await nodes.pod('tainted-c', 'c', 'tainted');
    await kubectl.running('silent-a', 'tainted-c');
    for (const name of ['silent-a', 'tainted-c']) await nodes.written(name);
    for (const name of ['a', 'c']) await nodes.killNode(name);
    for (const name of ['a', 'c']) await kubectl.ok(`wait node/${name} --for=condition=Ready=Unknown --timeout=120s`);

    // A pod of a silent node stays until the node says that it has ended, or somebody else does.
    const beforeMs = performance.now();
    await kubectl.ok('delete pod silent-a --force');
    await nodes.pod('silent-b', 'b', 'silent');
    await nodes.pod('tainted-b', 'b', 'tainted');
    for (const name of ['silent-b', 'tainted-b'])
      await eventually(async () => assert.equal((await nodes.refusals(name)).length, 1));
    assert.deepEqual([await nodes.attachments('silent'), await nodes.attachments('tainted')], ['a', 'c']);

    await kubectl.ok('taint node c node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
    await kubectl.ok('wait pod/tainted-c --for=delete --timeout=60s');
    await kubectl.running('tainted-b');
    assert.equal(await nodes.written('tainted-b'), 'tainted-c tainted-b');
    assert.equal(await nodes.attachments('silent'), 'a');

    const { code } = await kubectl.run(['wait', 'pod/silent-b', '--for=condition=Ready', '--timeout=60s']);
    assert.equal(code, 1, 'a minute later it waits still');
    for (let looks = 0; looks < 4 && (await nodes.attachments('silent')) === 'a'; looks += 1) {
      await kubectl.run(['wait', 'pod/silent-b', '--for=condition=Ready', '--timeout=100s']);
    }
    await kubectl.running('silent-b');
    assert.ok(performance.now() - beforeMs >= unmountMs, 'it was not taken from the node before its time');
    assert.equal(await nodes.written('silent-b'), 'silent-a silent-b');
    assert.equal(await nodes.attachments('silent'), 'b');
    for (const [claim, node] of [
      ['silent', 'a'],
      ['tainted', 'c'],
    ] as const)
      assert.equal(nodes.calls('ControllerUnpublishVolume', volumes[claim], node).length, 1);
    assert.equal((await nodes.refusals('silent-b')).length, 1);

    // What they left on their disks goes when they are back.
    await kubectl.ok('taint node c node.kubernetes.io/out-of-service-');
    for (const name of ['a', 'c']) await nodes.startNode(name);
    await nodes.assertNothingStays();
  },
);
