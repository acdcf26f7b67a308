/**
 * A volume between two nodes, each in process, mount and network namespaces of its own: it is where it is allowed to be, when a
 * node is slow to let go of it, when the controllers die, and when a node does. What waits for minutes is in
 * csi-two-nodes.long.test.ts.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CsiNodes, csiNodesSkip } from './csi-nodes.ts';
import { eventually } from './kubectl-program.ts';

const ends: (() => unknown)[] = [];
let started: CsiNodes | undefined;
const theNodes = (): CsiNodes => started ?? assert.fail('the nodes were not started');

describe('a volume between two nodes', { skip: csiNodesSkip }, () => {
  before(async () => {
    started = await CsiNodes.start((act) => void ends.unshift(act), 'a', 'b');
  });
  after(async () => {
    for (const end of ends) await end();
  });

  test('it moves with its data when the first node no longer uses it, and its next pod is refused until then', async () => {
    const nodes = theNodes();
    const { kubectl } = nodes;
    const volume = await nodes.claim('moving');
    await nodes.pod('first', 'a', 'moving');
    await kubectl.running('first');
    assert.equal(await nodes.written('first'), 'first');
    nodes.faults('a', { method: 'NodeUnstageVolume', volume, code: 'UNAVAILABLE' });
    await nodes.pod('second', 'b', 'moving');
    const name = await kubectl.ok('get pvc moving -o jsonpath={.spec.volumeName}');
    const refusal = `Waiting for detach for volume "${name}" Volume is already used by pod(s) first`;
    await eventually(async () => assert.deepEqual(await nodes.refusals('second'), [refusal]));

    await kubectl.ok('delete pod first');
    await eventually(() => assert.ok(nodes.calls('NodeUnstageVolume', volume, 'a').length >= 2));
    assert.match(await nodes.inUse('a'), new RegExp(`\\^${volume}$`));
    assert.equal(await nodes.attachments('moving'), 'a', 'no pod uses it, but the node does');
    assert.deepEqual(nodes.calls('ControllerUnpublishVolume', volume, 'a'), []);

    nodes.faults('a');
    await kubectl.running('second');
    assert.equal(await nodes.written('second'), 'first second');
    assert.equal(await nodes.attachments('moving'), 'b');
    assert.deepEqual(await nodes.refusals('second'), [refusal], 'once');
    const done = nodes.log.calls().filter((call) => call.volume === volume && call.code === 'OK');
    const steps = ['NodeUnstageVolume', 'ControllerUnpublishVolume', 'ControllerPublishVolume', 'NodeStageVolume'];
    assert.deepEqual(
      done.flatMap(({ method, node }) => (steps.includes(method) ? [`${method} ${node}`] : [])).slice(-4),
      steps.map((step, index) => `${step} host-${index < 2 ? 'a' : 'b'}`),
    );
  });

  test('one for many nodes is on both at once', async () => {
    const nodes = theNodes();
    const { kubectl } = nodes;
    const volume = await nodes.claim('common', 'ReadWriteMany');
    await nodes.pod('left', 'a', 'common');
    await kubectl.running('left');
    await nodes.written('left');
    await nodes.pod('right', 'b', 'common');
    await kubectl.running('right');
    assert.equal(await nodes.written('right'), 'left right');
    assert.equal(await nodes.written('left'), 'left right');
    assert.equal(await nodes.attachments('common'), 'a b');
    const published = nodes.log.inUse().filter((use) => use.startsWith(`${volume} published on `));
    assert.equal(published.length, 2);
    await kubectl.ok('delete pod left');
    await eventually(async () => assert.equal(await nodes.attachments('common'), 'b'));
    assert.equal(await nodes.written('right'), 'left right');
    await kubectl.ok('delete pod right');
    await eventually(async () => assert.equal(await nodes.attachments('common'), ''));
  });

  for (const [it, moment] of [
    ['before the driver has begun', 'before'],
    ['when the driver is done and has not answered', 'after'],
  ] as const) {
    test(`it moves when the controllers are killed in the middle of its detach and of its attach, ${it}`, async () => {
      const nodes = theNodes();
      const { kubectl } = nodes;
      const claim = `killed-${moment}`;
      const volume = await nodes.claim(claim);
      await nodes.pod(`${claim}-b`, 'b', claim);
      await kubectl.running(`${claim}-b`);
      await nodes.written(`${claim}-b`);
      const steps = [
        ['ControllerUnpublishVolume', 'b'],
        ['ControllerPublishVolume', 'a'],
      ] as const;
      nodes.faults('control', ...steps.map(([method]) => ({ method, volume, moment, times: 1, end: 'hang' }) as const));
      await nodes.pod(`${claim}-a`, 'a', claim);
      await kubectl.ok(`delete pod ${claim}-b`);
      for (const [method, node] of steps) {
        const isAsked = (): unknown => nodes.calls(method, volume, node).find(({ code }) => code !== undefined);
        await eventually(() => assert.ok(isAsked(), `${method} was not called`));
        await nodes.killControllers();
        await nodes.startControllers();
      }
      await kubectl.running(`${claim}-a`);
      assert.equal(await nodes.written(`${claim}-a`), `${claim}-b ${claim}-a`);
      assert.equal(await nodes.attachments(claim), 'a');
      await kubectl.ok(`delete pod ${claim}-a`);
    });
  }

  test('it stays on a node that has ended until the node is out of service, and is not touched when it is back', async () => {
    const nodes = theNodes();
    const { kubectl } = nodes;
    const volume = await nodes.claim('lost');
    await nodes.pod('before', 'a', 'lost');
    await kubectl.running('before');
    await nodes.written('before');
    await nodes.killNode('a');
    await kubectl.ok('delete pod before --force');
    await nodes.pod('after', 'b', 'lost');
    const name = await kubectl.ok('get pvc lost -o jsonpath={.spec.volumeName}');
    const held =
      'Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node';
    const refusal = `Waiting for detach for volume "${name}" ${held}`;
    await eventually(async () => assert.deepEqual(await nodes.refusals('after'), [refusal]));
    await nodes.killControllers();
    await nodes.startControllers();
    // New controllers have looked at it when they refuse it again.
    await eventually(async () => assert.deepEqual(await nodes.refusals('after'), [refusal, refusal]));
    assert.equal(await nodes.attachments('lost'), 'a');
    assert.deepEqual(nodes.calls('ControllerUnpublishVolume', volume, 'a'), []);

    await kubectl.ok('taint node a node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
    await kubectl.running('after');
    assert.equal(await nodes.written('after'), 'before after');
    assert.equal(await nodes.attachments('lost'), 'b');

    await nodes.startNode('a');
    await kubectl.ok('taint node a node.kubernetes.io/out-of-service-');
    await eventually(async () => assert.equal(await nodes.inUse('a'), ''));
    assert.equal(await nodes.written('after'), 'before after');
    assert.equal(await nodes.attachments('lost'), 'b');
  });

  test('nothing of them stays, and none was ever used on two nodes', () => theNodes().assertNothingStays());
});
