/** examples/volume-kind.ts in a real node: a volume kind that no file of src/ knows. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { agentSettings, connectCluster, nodeDefaults, standardPlugins, startNode } from 'mountlet';
import { pods } from 'mountlet/client';
import { startTestServer, temporaryDirectory } from 'mountlet/testing';
import { templatePlugin } from '../examples/volume-kind.ts';

const pod = {
  metadata: { name: 'web', labels: { tier: 'silver' } },
  spec: {
    nodeName: 'here',
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image: 'none',
        command: ['sh', '-c', 'cp /greeting/motd /seen/copy && mv /seen/copy /seen/motd; exec sleep 1000'],
        volumeMounts: [
          { name: 'greeting', mountPath: '/greeting' },
          { name: 'seen', mountPath: '/seen' },
        ],
      },
    ],
    volumes: [
      { name: 'seen', emptyDir: {} },
      {
        name: 'greeting',
        csi: { driver: 'template.example.com', volumeAttributes: { motd: 'This is {name}, {tier} tier.' } },
      },
    ],
  },
};

test('a volume kind from outside is mounted in a pod and follows its labels', { timeout: 240_000 }, async (t) => {
  const server = await startTestServer();
  const cluster = await connectCluster({ kubeconfig: server.kubeconfig });
  const stop = new AbortController();
  const rootDirectory = temporaryDirectory(t);
  const node = await startNode(
    agentSettings({ address: '127.0.0.1', port: 0 }, { nodeName: 'here', rootDirectory }),
    {
      ...nodeDefaults,
      cluster: cluster.access,
      plugins: (parts) => [...standardPlugins(parts), templatePlugin()],
      drains: true,
    },
    stop.signal,
  );
  t.after(async () => {
    stop.abort();
    await node.ended;
    await node.close();
    await cluster.close();
    await server.close();
  });
  const notices = node.notices.follow(stop.signal)[Symbol.asyncIterator]();
  const until = async (kind: string): Promise<void> => {
    for (;;) {
      const { value, done } = await notices.next();
      assert.equal(done, false, `${kind} did not come`);
      if (value?.kind === kind) return;
    }
  };

  const { metadata } = await cluster.objects(pods, 'default').create(pod);
  const volumes = join(rootDirectory, 'pods', metadata.uid ?? '', 'volumes');
  const seen = join(volumes, 'kubernetes.io~empty-dir', 'seen', 'motd');
  while (!existsSync(seen)) await setTimeout(20);
  assert.equal(readFileSync(seen, 'utf8'), 'This is web, silver tier.', 'as its container sees it');

  const patch = { metadata: { labels: { tier: 'gold' } } };
  await cluster.client.patch(pods, { namespace: 'default', name: 'web', type: 'merge' }, patch, stop.signal);
  await until('VolumeRefreshed');
  const file = join(volumes, 'example.com~template', 'greeting', 'motd');
  assert.equal(readFileSync(file, 'utf8'), 'This is web, gold tier.');
});

test('the example has fewer than 60 lines', () => {
  const text = readFileSync(new URL('../../examples/volume-kind.ts', import.meta.url), 'utf8');
  assert.ok(text.split('\n').length < 60);
});
