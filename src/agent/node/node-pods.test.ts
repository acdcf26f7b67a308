/** The pod loop against the real API server, as a node that may do only what nodes may; containers are in memory. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { issueClientCertificate } from '../../apiserver/identity/certificates.ts';
import { systemClock } from '../../base/clock.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { namespaces, nodes, pods } from '../../client/api/resource-reference.ts';
import { type Pod, defaultPod } from '../../kube/kinds/pod/pod.ts';
import type { PodNotice } from '../../pods/loop/loop-parts.ts';
import { PodLoop } from '../../pods/loop/pod-loop.ts';
import { asStaticPod } from '../../pods/sources/manifests-folder.ts';
import { FakeRuntime } from '../../testing/fakes/fake-runtime.ts';
import { MemoryContainerFiles, RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { nodeIdentity, runningApiServer } from '../../testing/servers/test-api-server.ts';
import {
  emptyVolumes,
  silentNetwork,
  testDns,
  testNodeSettings,
  viewDeps,
} from '../../testing/worlds/container-world.ts';
import { apiPods, checkResolvConf, podLists } from './node-pods.ts';

const { signal } = new AbortController();

test('a pod that is gone is gone also where the server refuses it, as a pod of no node, to this one', async (t) => {
  const server = await runningApiServer(t);
  const client = server.client({}, nodeIdentity(server, 'here'));
  const place = { namespace: 'default', name: 'web' };
  await assert.rejects(client.get(pods, place, signal), /no relationship found between node 'here' and this object/);
  assert.equal(await apiPods(client).get('default', 'web', signal), undefined);
});

interface World {
  readonly admin: ApiClient;
  readonly runtime: FakeRuntime;
  readonly notices: PodNotice[];
  readonly until: (isTrue: (pods: readonly Pod[]) => boolean) => Promise<readonly Pod[]>;
}

async function aWorld(t: TestContext, staticPods: readonly Pod[] = []): Promise<World> {
  const server = await runningApiServer(t);
  const admin = server.client();
  await admin.create(namespaces, {}, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }, signal);
  const node = await admin.create(nodes, {}, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'here' } }, signal);
  const identity = issueClientCertificate(server.authority, {
    user: 'system:node:here',
    groups: ['system:nodes'],
    now: Date.now(),
    days: 1,
  });
  const client = server.client({}, identity);
  const runtime = new FakeRuntime(systemClock);
  const notices: PodNotice[] = [];
  const reflection = { clock: systemClock, random: Math.random, notify: () => {} };
  const loop = new PodLoop(
    {
      runtime,
      clock: systemClock,
      random: Math.random,
      events: new RecordedEvents(),
      nodeEvents: { record: () => {} },
      api: apiPods(client),
      files: new MemoryContainerFiles(),
      volumes: emptyVolumes,
      registrations: { registerPod: () => {}, unregisterPod: () => {} },
      network: silentNetwork,
      nodeLogins: [],
      view: viewDeps,
      dns: testDns,
      node: () => ({
        owner: { name: 'here', uid: node.metadata.uid ?? '' },
        hostIPs: ['192.0.2.1'],
      }),
      admit: () => ({}),
      runtimeClasses: { knownHandler: () => undefined, runtimeHandler: () => Promise.resolve(undefined) },
      notify: (notice) => notices.push(notice),
      sources: {
        api: (ended) => podLists({ ...reflection, client }, 'here', ended),
        file: async function* () {
          yield staticPods;
        },
      },
    },
    { ...testNodeSettings, resyncMs: 60_000, idleIsReady: true },
  );
  const stop = new AbortController();
  const running = loop.run(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  return {
    admin,
    runtime,
    notices,
    async until(isTrue) {
      for await (const list of podLists({ ...reflection, client: admin }, 'here', signal))
        if (isTrue(list)) return list;
      return assert.fail('the watch ended');
    },
  };
}

const manifest = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'web', namespace: 'shop' },
  spec: {
    nodeName: 'here',
    automountServiceAccountToken: false,
    containers: [{ name: 'main', image: 'nginx:1.8' }],
  },
};
const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;

test('a pod of the real API server runs, crashes, is deleted and is gone, and the server takes every word of it', async (t) => {
  const { admin, runtime, notices, until } = await aWorld(t);
  const { uid = '' } = (await admin.create(pods, { namespace: 'shop' }, manifest, signal)).metadata;
  const [running] = await until(([pod]) => pod !== undefined && isReady(pod));
  assert.equal(running?.status?.phase, 'Running');
  assert.equal(running?.status?.podIP, '10.1.0.1');
  assert.equal(running?.status?.containerStatuses?.[0]?.containerID, 'fake://c1');
  runtime.exit(uid, 'main', 1);
  await until(([pod]) => pod?.status?.containerStatuses?.[0]?.restartCount === 1);
  runtime.exit(uid, 'main', 1);
  const [crashing] = await until(
    ([pod]) => pod?.status?.containerStatuses?.[0]?.state?.waiting?.reason === 'CrashLoopBackOff',
  );
  assert.equal(crashing !== undefined && isReady(crashing), false);
  await admin.delete(pods, { namespace: 'shop', name: 'web' }, undefined, signal);
  await until((list) => list.length === 0);
  assert.deepEqual(
    notices.filter((notice) => !('message' in notice && notice.message.startsWith('back-off'))),
    [],
  );
});

test('a static pod has a mirror at the real API server that shows its status, and comes back when deleted', async (t) => {
  const written = { ...manifest, metadata: { name: 'static', namespace: 'shop' } };
  const { admin, notices, until } = await aWorld(t, [
    defaultPod(asStaticPod(written, { nodeName: 'here', file: 'f' })),
  ]);
  const [mirror] = await until(([pod]) => pod !== undefined && isReady(pod));
  assert.equal(mirror?.metadata.name, 'static-here');
  const uid = mirror?.metadata.uid;
  const options = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0 };
  await admin.delete(pods, { namespace: 'shop', name: 'static-here' }, options, signal);
  await until(([pod]) => pod !== undefined && pod.metadata.uid !== uid && isReady(pod));
  assert.deepEqual(notices, []);
});

test("what pods cannot have of the machine's resolv.conf is an Event of the node", async (t) => {
  const path = join(temporaryDirectory(t), 'resolv.conf');
  const said = async (text: string, clusterDomain = 'cluster.local'): Promise<string[]> => {
    const messages: string[] = [];
    writeFileSync(path, text);
    await checkResolvConf(
      { record: ({ reason, message }) => messages.push(`${reason}: ${message}`) },
      { resolvConf: path, clusterDomain },
    );
    return messages.map((message) => message.replaceAll(path, 'FILE'));
  };
  const line = (paths: number, characters: number): string =>
    `search ${Array.from({ length: paths }, (_, index) => String(index).padEnd(characters, 'x')).join(' ')}\n`;
  assert.deepEqual(await said(line(29, 5)), []);
  assert.deepEqual(await said(line(30, 5), ''), [], 'pods need none for the cluster');
  const contains = "CheckLimitsForResolvConf: Resolv.conf file 'FILE' contains search line";
  assert.deepEqual(await said(line(30, 5)), [`${contains} consisting of more than 29 domains!`]);
  assert.deepEqual(await said(line(10, 250)), [`${contains} which length is more than allowed 2048 chars!`]);
  assert.deepEqual(await said(line(1, 254)), [
    'CheckLimitsForResolvConf: Resolv.conf file "FILE" contains a search path which length is more than allowed 253 chars!',
  ]);
  assert.deepEqual(await said('#'.repeat(10 * 1024 ** 2 + 1)), [
    'CheckLimitsForResolvConf: Cannot read FILE: the file is larger than 10485760 bytes',
  ]);
});
