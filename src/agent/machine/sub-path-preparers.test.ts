import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { LiveSubPaths } from '../../disk/pods/live-sub-paths.ts';
import { cleanSubPaths } from '../../disk/pods/sub-paths.ts';
import type { VolumeMount } from '../../kube/kinds/pod/container.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import { podDirectory } from '../../kube/values/node-layout.ts';
import { configMapPlugin } from '../../plugins/configmap.ts';
import { downwardApiPlugin } from '../../plugins/downwardapi.ts';
import type { VolumePlugin } from '../../plugins/plugin.ts';
import { secretPlugin } from '../../plugins/secret.ts';
import { type ContainerMount, type SubPathPreparer, buildMounts } from '../../pods/view/mounts.ts';
import { MountNamespace } from '../../testing/machine/mount-namespace.ts';
import { mountPointsBelow, needsMounts } from '../../testing/machine/temporary-directory.ts';
import { VolumeNode, podUid, testPod, visibleFiles } from '../../testing/worlds/volume-node.ts';
import { followingSubPaths } from './container-files.ts';

const mounts = systemMounts();
const replaceable = replaceableMounts(mounts);
const skip = replaceable.unavailable === undefined ? false : `needs to exchange mounts: ${replaceable.unavailable}`;
const { signal } = new AbortController();

interface FollowingNode {
  readonly node: VolumeNode;
  readonly subPaths: SubPathPreparer;
  readonly told: string[];
}

/** A node as an agent wires it: the writer's question goes to what follows. */
function followingNode(t: TestContext, exchange = replaceable): FollowingNode {
  const live = new LiveSubPaths({ mounts, replaceable: exchange, notify: () => undefined });
  const told: string[] = [];
  const node = new VolumeNode(t, {
    beforeRemoval: ({ podUid: uid, volumeName }) =>
      live.refresh({ podDirectory: podDirectory(node.root, uid), volumeName }),
  });
  const subPaths = followingSubPaths({ mounts, live, reportUnavailable: (message) => told.push(message) });
  return { node, subPaths, told };
}

async function mountsOf(
  { node, subPaths }: FollowingNode,
  plugin: VolumePlugin<never> | VolumePlugin,
  volumeMounts: readonly VolumeMount[],
): Promise<readonly ContainerMount[]> {
  const container = { name: 'app', volumeMounts };
  const { mounts: built } = await buildMounts(
    {
      pod: testPod({ containers: [container], hostNetwork: false }),
      container,
      environment: [{ name: 'KEY', value: 'key', secret: false, source: { kind: 'value', expands: [] } }],
      volumes: {
        get: (name) => ({
          kind: 'filesystem',
          hostPath: node.directoryOf(plugin, name),
          specName: name,
          readOnly: true,
          replaced: true,
        }),
      },
      podDirectory: podDirectory(node.root, podUid),
      podIPs: [],
      hostname: { name: 'web', domain: '' },
      runtimeSupportsRecursiveReadOnly: true,
    },
    { subPaths, hostsFiles: { readNode: async () => '', write: async () => '/hosts' } },
    signal,
  );
  return built;
}

async function start(
  t: TestContext,
  { node, subPaths }: FollowingNode,
  built: readonly ContainerMount[],
): Promise<MountNamespace> {
  const directory = join(node.root, 'container');
  mkdirSync(directory);
  const hostPaths = built.map(({ hostPath = '' }) => hostPath);
  const container = await MountNamespace.start(t, { directory, hostPaths });
  subPaths.started?.({ podDirectory: podDirectory(node.root, podUid), containerName: 'app' });
  return container;
}

const byKey: readonly VolumeMount[] = [
  { name: 'v', mountPath: '/a', subPath: 'key' },
  { name: 'v', mountPath: '/b', subPathExpr: '$(KEY)' },
];

test(
  'a ConfigMap and a Secret by subPath and subPathExpr follow, and tear-down leaves no mount',
  { skip },
  async (t) => {
    const kinds = [
      {
        volume: { name: 'v', configMap: { name: 'o', defaultMode: 0o644 } },
        plugin: ({ node }: FollowingNode) => configMapPlugin(node.configMaps, node.volumes) as VolumePlugin,
        set: ({ node }: FollowingNode, data: Record<string, string>) => node.setConfigMap('o', data),
      },
      {
        volume: { name: 'v', secret: { secretName: 'o', defaultMode: 0o644 } },
        plugin: ({ node }: FollowingNode) => secretPlugin(node.secrets, node.volumes) as VolumePlugin,
        set: ({ node }: FollowingNode, data: Record<string, string>) => node.setSecret('o', data),
      },
    ];
    for (const { volume, plugin: pluginOf, set } of kinds) {
      const world = followingNode(t);
      const plugin = pluginOf(world);
      set(world, { key: '0' });
      await world.node.setUp(plugin, volume);
      const built = await mountsOf(world, plugin, byKey);
      assert.deepEqual(
        built.map(({ propagation }) => propagation),
        ['HostToContainer', 'HostToContainer'],
      );
      const container = await start(t, world, built);
      for (const value of ['1', '2', '3']) {
        set(world, { key: value });
        await world.node.setUp(plugin, volume, { isRemount: true });
        assert.deepEqual([container.read(0), container.read(1)], [value, value]);
      }
      cleanSubPaths(podDirectory(world.node.root, podUid), 'v', mounts);
      await world.node.tearDown(plugin, 'v');
      assert.deepEqual(mountPointsBelow(world.node.root), []);
    }
  },
);

test('the labels of a pod by subPath follow', { skip }, async (t) => {
  const world = followingNode(t);
  const plugin = downwardApiPlugin(world.node.nodes, world.node.volumes) as VolumePlugin;
  const items = [{ path: 'labels', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.labels' } }];
  const volume = { name: 'v', downwardAPI: { items, defaultMode: 0o644 } } as Volume;
  await world.node.setUp(plugin, volume, { pod: testPod({}, { labels: { a: '1' } }) });
  const container = await start(
    t,
    world,
    await mountsOf(world, plugin, [{ name: 'v', mountPath: '/l', subPath: 'labels' }]),
  );
  await world.node.setUp(plugin, volume, { pod: testPod({}, { labels: { a: '2' } }), isRemount: true });
  assert.equal(container.read(0), 'a="2"');
});

test(
  'a key that is missing is made a directory and stays, as by the kubelet',
  { skip: needsMounts(mounts) },
  async (t) => {
    const world = followingNode(t);
    const plugin = configMapPlugin(world.node.configMaps, world.node.volumes) as VolumePlugin;
    world.node.setConfigMap('o', { other: '0' });
    await world.node.setUp(plugin, { name: 'v', configMap: { name: 'o', defaultMode: 0o644 } });
    const [mount] = await mountsOf(world, plugin, [{ name: 'v', mountPath: '/a', subPath: 'missing' }]);
    assert.equal(mount?.propagation, 'None');
    assert.equal(
      dirname(dirname(mount?.hostPath ?? '')),
      join(podDirectory(world.node.root, podUid), 'volume-subpaths', 'v'),
    );
  },
);

test(
  'where the kernel cannot, it is said once, and mounts are as the kubelet makes them',
  { skip: needsMounts(mounts) },
  async (t) => {
    const world = followingNode(t, { ...replaceable, unavailable: 'the kernel is too old' });
    const plugin = configMapPlugin(world.node.configMaps, world.node.volumes) as VolumePlugin;
    world.node.setConfigMap('o', { key: '0' });
    await world.node.setUp(plugin, { name: 'v', configMap: { name: 'o', defaultMode: 0o644 } });
    const built = await mountsOf(world, plugin, byKey);
    assert.deepEqual(
      built.map(({ propagation }) => propagation),
      ['None', 'None'],
    );
    assert.deepEqual(world.told, ['subPath mounts do not follow updates on this machine: the kernel is too old']);
  },
);

/** Possible damage to the directory of a live volume, and whether a container that mounts it can see the repair. */
const damages: readonly {
  readonly it: string;
  readonly remade: boolean;
  readonly make: (directory: string) => void;
}[] = [
  {
    it: 'a directory with files in place of ..data',
    remade: false,
    make(directory) {
      rmSync(join(directory, '..data'));
      mkdirSync(join(directory, '..data/deep'), { recursive: true });
      writeFileSync(join(directory, '..data/deep/file'), '');
    },
  },
  {
    it: 'a file in place of ..data',
    remade: false,
    make(directory) {
      rmSync(join(directory, '..data'));
      writeFileSync(join(directory, '..data'), '');
    },
  },
  {
    it: 'everything in it deleted',
    remade: false,
    make: (directory) =>
      readdirSync(directory).forEach((name) => rmSync(join(directory, name), { recursive: true, force: true })),
  },
  {
    it: 'the directory unmounted or deleted',
    remade: true,
    make(directory) {
      if (mounts.isMountPoint(directory)) mounts.unmount(directory, { lazy: true });
      else rmSync(directory, { recursive: true });
    },
  },
];

for (const { it, remade, make } of damages) {
  for (const kind of ['configMap', 'secret'] as const) {
    for (const next of ['1', '2']) {
      const when = next === '1' ? 'a sweep' : 'the next update';
      test(
        `${it}: ${when} repairs a ${kind}, in the container too unless the volume is reported as remade`,
        { skip },
        async (t) => {
          const world = followingNode(t);
          const { node } = world;
          const [plugin, volume]: [VolumePlugin, Volume] =
            kind === 'configMap'
              ? [
                  configMapPlugin(node.configMaps, node.volumes),
                  { name: 'v', configMap: { name: 'o', defaultMode: 0o644 } },
                ]
              : [
                  secretPlugin(node.secrets, node.volumes),
                  { name: 'v', secret: { secretName: 'o', defaultMode: 0o644 } },
                ];
          const set = (key: string): void => {
            node.setConfigMap('o', { key });
            node.setSecret('o', { key });
          };
          set('1');
          await node.setUp(plugin, volume);
          const whole = { name: 'v', mountPath: '/v' };
          const container = await start(t, world, await mountsOf(world, plugin, [whole, ...byKey]));
          const directory = node.directoryOf(plugin, 'v');
          make(directory);
          set(next);
          assert.equal((await node.setUp(plugin, volume, { isRemount: true })).remade ?? false, remade);
          assert.deepEqual(visibleFiles(directory), { key: next });
          assert.deepEqual([container.read(1), container.read(2)], [next, next]);
          if (!remade) assert.equal(container.read(0, 'key'), next);
          assert.deepEqual(await node.setUp(plugin, volume, { isRemount: true }), {
            changed: false,
            files: 1,
            hidden: [],
          });
        },
      );
    }
  }
}
