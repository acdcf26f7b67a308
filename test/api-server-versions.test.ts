/** A whole node at API servers that behave as Kubernetes 1.24 to 1.36 do: it registers, its pods run and go, and nothing is refused. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { agentSettings, nodeDefaults, startNode } from 'mountlet';
import { configMaps, pods } from 'mountlet/client';
import { temporaryDirectory } from 'mountlet/testing';
import { logLine } from '../src/agent/node/notices.ts';
import { systemClock } from '../src/base/clock.ts';
import { anonymous } from '../src/client/credentials/credentials.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import { nodeResource } from '../src/node/own-node.ts';
import { FakeRuntime } from '../src/testing/fakes/fake-runtime.ts';
import { versionedApiServer } from '../src/testing/servers/versioned-api-server.ts';

const { signal } = new AbortController();

const main = { name: 'main', image: 'web' };
const container = { ...main, volumeMounts: [{ name: 'config', mountPath: '/etc/config' }] };
const spec = (configMap: string): object => ({
  automountServiceAccountToken: false,
  dnsPolicy: 'Default',
  terminationGracePeriodSeconds: 0,
  containers: [container],
  volumes: [{ name: 'config', configMap: { name: configMap } }],
});

async function startedNode(t: TestContext, minor: number, manifests: readonly object[] = []) {
  const server = await versionedApiServer(t, minor);
  const rootDirectory = temporaryDirectory(t);
  const staticPodPath = join(rootDirectory, 'manifests');
  mkdirSync(staticPodPath);
  writeFileSync(join(staticPodPath, 'pods.yaml'), manifests.map((one) => JSON.stringify(one)).join('\n---\n'));
  const { authorityPem, url } = server.front;
  const runtime = Object.assign(new FakeRuntime(systemClock), { close: async () => {} });
  const warnings: string[] = [];
  const stop = new AbortController();
  const node = await startNode(
    agentSettings({ staticPodPath }, { nodeName: 'here', rootDirectory }),
    {
      ...nodeDefaults,
      cluster: {
        endpoint: { url: new URL(url), trust: async () => ({ authorityPem, isInsecure: false }) },
        credentials: anonymous,
        secretFiles: [],
      },
      openRuntime: async () => runtime,
      drains: true,
      notify(notice) {
        const { level, message } = logLine(notice) ?? { level: 'debug', message: '' };
        if (level === 'warning' || level === 'error') warnings.push(message);
      },
    },
    stop.signal,
  );
  const end = async (): Promise<void> => {
    stop.abort();
    await node.ended;
    await node.close();
  };
  t.after(end);
  const admin = server.api.client();
  const podNamed = async (name: string): Promise<Pod | undefined> => {
    const { items } = await admin.list(pods, { namespace: 'default' }, signal);
    return items.find(({ metadata }) => metadata.name === name) as Pod | undefined;
  };
  return { ...server, admin, podNamed, warnings, end };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await setTimeout(20);
}

for (const minor of [24, 27, 28, 31, 36]) {
  test(`a node at an API server of Kubernetes 1.${minor}`, { timeout: 240_000 }, async (t) => {
    const { admin, podNamed, refused, warnings, end } = await startedNode(t, minor);
    const place = { namespace: 'default' };
    const readyOf = ({ status }: Pick<Pod, 'status'>): string | undefined =>
      status?.conditions?.find(({ type }) => type === 'Ready')?.status;
    await until(async () => {
      const node = await admin.get(nodeResource, { name: 'here' }, signal).catch(() => undefined);
      return node !== undefined && readyOf(node) === 'True';
    });
    await admin.create(configMaps, place, { metadata: { name: 'web' }, data: { key: 'one' } }, signal);
    await admin.create(pods, place, { metadata: { name: 'web' }, spec: { ...spec('web'), nodeName: 'here' } }, signal);
    await until(async () => readyOf((await podNamed('web')) ?? {}) === 'True');
    const { podIP, podIPs, hostIPs } = (await podNamed('web'))?.status ?? {};
    assert.deepEqual([podIP, podIPs, hostIPs !== undefined], ['10.1.0.1', [{ ip: '10.1.0.1' }], minor >= 28]);
    await admin.delete(pods, { ...place, name: 'web' }, undefined, signal);
    await until(async () => (await podNamed('web')) === undefined);
    await end();
    assert.deepEqual([refused, warnings], [[], []]);
  });
}

test('a static pod is mirrored, and nothing that it names is asked for', { timeout: 240_000 }, async (t) => {
  const web = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: spec('absent') };
  const idle = { ...web, metadata: { name: 'idle' }, spec: { ...spec('absent'), volumes: [], containers: [main] } };
  const { podNamed, refused, requests, warnings, end } = await startedNode(t, 36, [web, idle]);
  await until(async () => (await podNamed('idle-here'))?.status?.phase === 'Running');
  await until(async () => warnings.length > 0);
  await end();
  assert.match(warnings[0] ?? '', /MountVolume.SetUp failed for volume "config" : configmap "absent" not found/);
  assert.deepEqual([refused, requests.filter((one) => one.includes('absent'))], [[], []]);
});
