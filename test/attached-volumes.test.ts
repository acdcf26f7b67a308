/** A volume that a controller attaches, through a real node and API server: in the kubelet's order, and without waiting for a poll. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { type VolumePlugin, agentSettings, connectCluster, nodeDefaults, startNode } from 'mountlet';
import { events, persistentVolumeClaims, persistentVolumes, pods, withShape } from 'mountlet/client';
import { startTestServer, temporaryDirectory } from 'mountlet/testing';
import { eventShape } from '../src/kube/kinds/event.ts';
import { nodeResource as nodes } from '../src/node/own-node.ts';

const volumeName = 'example.com/disk/disk-7';

const pod = {
  metadata: { name: 'web' },
  spec: {
    nodeName: 'here',
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'main',
        image: 'none',
        command: ['sh', '-c', 'cp /data/word /data/copy; exec sleep 1000'],
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
  },
};

/** Directories that pretend to be disks: `calls` has what was done, and what the node's status said then. */
function diskPlugin(rootDirectory: string, calls: string[], status: () => Promise<string>): VolumePlugin {
  const staged = join(rootDirectory, 'plugins/example.com/disk-7');
  const called = async (what: string): Promise<void> => void calls.push(`${what}: ${await status()}`);
  return {
    name: 'example.com/disk',
    contentName: 'mount',
    supportsMountOptions: true,
    // Whatever it says: no other kind of this node reads it.
    sourceOf: ({ persistentVolume }) => persistentVolume?.spec.hostPath,
    attributes: (_source, { readOnly }) => ({ readOnly }),
    attach: {
      canAttach: () => true,
      waitForAttach: async () => 'the-attachment',
    },
    deviceMount: {
      identityOf: () => 'disk-7',
      pathOf: () => staged,
      async mount({ devicePath, path }) {
        await called(`stage ${devicePath}`);
        mkdirSync(path, { recursive: true });
      },
      referencesTo: async () => [],
      async unmount(path) {
        await called('unstage');
        rmSync(path, { recursive: true });
      },
    },
    async setUp({ directory }) {
      mkdirSync(join(directory, 'mount'), { recursive: true });
      writeFileSync(join(directory, 'mount/word'), 'attached');
      return { changed: true, files: 0, hidden: [] };
    },
    async tearDown({ directory }) {
      await called('tear down');
      rmSync(directory, { recursive: true, force: true });
    },
    reconstruct: () => undefined,
  };
}

async function startedWorld(t: TestContext, configuration: Parameters<typeof agentSettings>[0] = {}) {
  const server = await startTestServer();
  const cluster = await connectCluster({ kubeconfig: server.kubeconfig });
  const { client } = cluster;
  const stop = new AbortController();
  const rootDirectory = temporaryDirectory(t);
  const calls: string[] = [];
  const here = () => client.get(nodes, { name: 'here' }, new AbortController().signal);
  const status = async (): Promise<string> => {
    const { volumesInUse = [], volumesAttached = [] } = (await here()).status ?? {};
    return `in use [${volumesInUse.join()}], attached [${volumesAttached.map(({ name }) => name).join()}]`;
  };
  const node = await startNode(
    agentSettings({ address: '127.0.0.1', port: 0, ...configuration }, { nodeName: 'here', rootDirectory }),
    {
      ...nodeDefaults,
      cluster: cluster.access,
      plugins: () => [diskPlugin(rootDirectory, calls, status)],
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
  const storage = { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'] };
  const data = {
    metadata: { name: 'data' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, volumeName: 'pv' },
  };
  const { metadata } = await cluster.objects(persistentVolumeClaims, 'default').create(data);
  const claimRef = { namespace: 'default', name: 'data', uid: metadata.uid ?? '' };
  const volume = { metadata: { name: 'pv' }, spec: { ...storage, hostPath: { path: '/disk-7' }, claimRef } };
  await client.create(persistentVolumes, {}, volume, stop.signal);
  const claim = { namespace: 'default', name: 'data', subresource: 'status', type: 'merge' } as const;
  await client.patch(persistentVolumeClaims, claim, { status: { phase: 'Bound', ...storage } }, stop.signal);
  const setAttached = (names: readonly string[]) =>
    client.patch(
      nodes,
      { name: 'here', subresource: 'status', type: 'merge' },
      { status: { volumesAttached: names.map((name) => ({ name, devicePath: '' })) } },
      stop.signal,
    );
  const run = () => cluster.objects(pods, 'default').create(pod);
  return { client, calls, here, status, setAttached, run, rootDirectory, signal: stop.signal };
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await setTimeout(20);
}

test(
  'a volume is attached after the node says that it uses it, and let go after it does not',
  { timeout: 240_000 },
  async (t) => {
    const { client, calls, status, setAttached, run, rootDirectory, signal } = await startedWorld(t);
    const { metadata } = await run();
    await until(async () => (await status()) === `in use [${volumeName}], attached []`);
    assert.deepEqual(calls, [], 'nothing is done before the controller has attached it');
    await setAttached([volumeName]);
    const volume = join(rootDirectory, 'pods', metadata.uid ?? '', 'volumes/example.com~disk/pv');
    const copy = join(volume, 'mount/copy');
    // The name is there before the bytes.
    await until(() => existsSync(copy) && readFileSync(copy, 'utf8') === 'attached');
    await client.delete(pods, { namespace: 'default', name: 'web' }, {}, signal);
    await until(async () => (await status()) === `in use [], attached [${volumeName}]`);
    const said = `in use [${volumeName}], attached [${volumeName}]`;
    assert.deepEqual(calls, [`stage the-attachment: ${said}`, `tear down: ${said}`, `unstage: ${said}`]);
    assert.equal(existsSync(volume), false);
  },
);

test('a node that no controller may attach to says so in an Event of the pod', { timeout: 240_000 }, async (t) => {
  const { client, calls, here, run, signal } = await startedWorld(t, { enableControllerAttachDetach: false });
  await run();
  const failed = async (): Promise<readonly (string | undefined)[]> => {
    const { items } = await client.list(withShape(events, eventShape), { namespace: 'default' }, signal);
    return items.filter(({ reason }) => reason === 'FailedAttachVolume').map(({ message }) => message);
  };
  await until(async () => (await failed()).length > 0);
  assert.deepEqual(await failed(), [
    'AttachVolume.Attach failed for volume "pv" : attaching volumes from the kubelet is not supported; a controller does it where enableControllerAttachDetach is true',
  ]);
  const { annotations = {} } = (await here()).metadata;
  assert.equal(annotations['volumes.kubernetes.io/controller-managed-attach-detach'], undefined);
  assert.deepEqual(calls, []);
});
