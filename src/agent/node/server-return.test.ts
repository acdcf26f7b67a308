/** An API server that was away for a minute: everything of a node that talks to it is back within two seconds of its return. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import {
  configMaps,
  events as eventResource,
  leases,
  nodes,
  pods,
  runtimeClasses,
} from '../../client/api/resource-reference.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { EventRecorder } from '../../node/event-recorder.ts';
import { StatusManager } from '../../pods/status/status-manager.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { runningApiServer } from '../../testing/servers/test-api-server.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { agentSettings } from './agent-settings.ts';
import { NodeObjects } from './node-objects.ts';
import { apiPods, podLists } from './node-pods.ts';
import { NodePresence, connectNode } from './node-presence.ts';

const { signal } = new AbortController();
const settings = agentSettings({}, { nodeName: 'here', rootDirectory: '/tmp' });
const pod: Pod = aPod({
  metadata: { name: 'web', namespace: 'default' },
  nodeName: 'here',
  volumes: [{ name: 'config', configMap: { name: 'config' } }],
});

/** The parts of a node that talk to an API server, on a clock of their own, and the server. */
async function aNode(t: TestContext) {
  const store = memoryStore();
  const first = await runningApiServer(t, store);
  const clock = new FakeClock();
  const reached = {
    endpoint: {
      url: new URL(first.url),
      trust: () => Promise.resolve({ authorityPem: first.authorityPem, isInsecure: false as const }),
    },
    credentials: fixedCredentials({ headers: {}, identity: first.admin }),
  };
  const clients = connectNode(reached, clock, settings);
  const pause = (ms: number, over: AbortSignal): Promise<void> => clients.general.pause(ms, over);
  const stop = new AbortController();
  const running: Promise<unknown>[] = [];
  const run = (part: { run(over: AbortSignal): Promise<void> }): void => void running.push(part.run(stop.signal));
  t.after(async () => {
    stop.abort();
    await clock.advance(10_000);
    await Promise.all(running);
    await clients.close();
  });
  const deps = { clients, client: clients.general, clock, pause, random: () => 0.5, notify: () => {} };
  return {
    ...deps,
    first,
    run,
    presence: {
      run: (over: AbortSignal) =>
        new NodePresence(
          {
            ...deps,
            events: { record: () => {} },
            runtimeVersion: 'test://1',
            problems: () => [],
            isUnderDiskPressure: () => false,
            runtime: { images: undefined },
          },
          settings,
        ).run({ port: 10_250, volumesInUse: () => [], reportedInUse: () => {} }, over),
    },
    restart: () => runningApiServer(t, store, first),
    /** Time passes, and what is under way on real connections gets its turn. */
    async pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 500) {
        await clock.advance(500);
        await settle(20);
      }
    },
    /** The rest of the two seconds: half for noticing, half for everything else. No more time passes while this waits. */
    async within2s(isDone: () => Promise<boolean>) {
      for (const ms of [1_000, 1_000]) {
        await clock.advance(ms);
        for (let turns = 0; turns < 50; turns += 1) await settle(20);
      }
      while (!(await isDone())) await settle(20);
    },
  };
}

test('after a minute without it', { timeout: 240_000 }, async (t) => {
  const node = await aNode(t);
  const { clients, clock, pause, random, notify, first } = node;
  const admin = first.client();
  await admin.create(
    configMaps,
    { namespace: 'default' },
    { metadata: { name: 'config' }, data: { key: 'one' } },
    signal,
  );
  await admin.create(pods, { namespace: 'default' }, { metadata: { name: 'web' }, spec: pod.spec }, signal);

  await admin.create(runtimeClasses, {}, { metadata: { name: 'kata' }, handler: 'kata-qemu' }, signal);

  const lists: number[] = [];
  node.run({
    async run(over) {
      for await (const _ of podLists({ client: clients.general, clock, pause, random, notify }, 'here', over))
        lists.push(clock.now());
    },
  });
  node.run(node.presence);
  const objects = new NodeObjects({ ...node, ownNode: () => undefined }, settings);
  const changes: string[] = [];
  node.run(objects);
  node.run({
    async run(over) {
      for await (const { name } of objects.configMaps.changes(over)) changes.push(name);
    },
  });
  objects.registerPod(pod);
  const recorder = new EventRecorder(
    { ...node, client: clients.events, uuid: randomUUID },
    { nodeName: 'here', flushMs: 2_000 },
  );
  node.run(recorder);
  const statuses = new StatusManager({
    ...node,
    api: apiPods(clients.general),
    pods: { apiPodOf: () => stored },
    couldHaveRunningContainers: () => true,
  });
  const stored = (await admin.get(pods, { namespace: 'default', name: 'web' }, signal)) as unknown as Pod;
  node.run(statuses);
  const renewedAt = async (client = admin): Promise<unknown> => {
    const lease = await client
      .get(leases, { namespace: 'kube-node-lease', name: 'here' }, signal)
      .catch(() => undefined);
    return (lease as { spec?: { renewTime?: string } } | undefined)?.spec?.renewTime;
  };
  while (lists.length === 0 || (await renewedAt()) === undefined) await settle(20);
  while ((await objects.configMaps.get('default', 'config', signal).catch(() => undefined)) === undefined)
    await node.pass(500);

  while (objects.knownHandler('kata') === undefined) await settle(20);
  assert.equal(await objects.runtimeHandler('none', signal), undefined, 'there is no such class');

  await first.close();
  assert.equal(await objects.runtimeHandler('kata', signal), 'kata-qemu', 'containers restart without it');
  const object = { apiVersion: 'v1', kind: 'Pod', name: 'web', namespace: 'default', uid: stored.metadata.uid ?? '' };
  recorder.record({ object, type: 'Normal', reason: 'Away', message: 'recorded while it was away' });
  statuses.set(stored, { phase: 'Running', message: 'set while it was away' });
  await node.pass(60_000);

  const second = await node.restart();
  const observer = second.client();
  const listed = lists.length;
  const config = { metadata: { name: 'config' }, data: { key: 'two' } };
  await observer.update(configMaps, { namespace: 'default', name: 'config' }, config, signal);
  changes.length = 0;
  const before = await renewedAt(observer);
  await node.within2s(async () => {
    const { items } = await observer.list(eventResource, { namespace: 'default' }, signal);
    const now = (await observer.get(pods, { namespace: 'default', name: 'web' }, signal)) as unknown as Pod;
    return (
      lists.length > listed &&
      changes.includes('config') &&
      items.some((event) => (event as { reason?: string }).reason === 'Away') &&
      now.status?.phase === 'Running' &&
      (await renewedAt(observer)) !== before
    );
  });
});

test('when it was away for the first minute of a node', { timeout: 240_000 }, async (t) => {
  const node = await aNode(t);
  await node.first.close();
  node.run(node.presence);
  await node.pass(60_000);
  const second = await node.restart();
  const observer = second.client();
  await node.within2s(async () => {
    const { items } = await observer.list(nodes, {}, signal);
    const held = await observer.list(leases, { namespace: 'kube-node-lease' }, signal);
    return items.length === 1 && held.items.length === 1;
  });
  assert.equal((await observer.list(nodes, {}, signal)).items[0]?.metadata.name, 'here');
});
