/** What every plugin says about itself: the tables of the reference, one row for each kind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemMounts } from '../disk/mounts/mounts.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { type VolumeSpec, inlineSpec, persistentSpec } from '../kube/references/volume-spec.ts';
import { VolumeNode } from '../testing/worlds/volume-node.ts';
import { imagePlugin } from './image.ts';
import { type VolumePlugin, failureClassOf } from './plugin.ts';
import { projectedPlugin } from './projected.ts';
import { PluginRegistry, standardPlugins } from './registry.ts';

function allPlugins({ configMaps, secrets, nodes, root, mounts }: VolumeNode): readonly VolumePlugin[] {
  const chance = { now: () => 0, random: () => 0 };
  const objects = { configMaps, secrets, nodes };
  return standardPlugins({
    ...objects,
    ...chance,
    root,
    mounts,
    privateTmpfs: () => undefined,
    notify: () => undefined,
  });
}

const persistent = persistentSpec(
  { metadata: { name: 'pv' }, spec: { local: { path: '/srv' }, volumeMode: 'Filesystem' } },
  true,
);
const rows: {
  spec: VolumeSpec;
  name: string;
  remount: boolean;
  options: boolean;
  readOnly: boolean;
  can: string[];
  reconstructed: VolumeSpec | undefined;
}[] = [
  {
    spec: inlineSpec({ name: 'v', configMap: { name: 'web' } }),
    name: 'configmap',
    remount: true,
    options: false,
    readOnly: true,
    can: [],
    reconstructed: inlineSpec({ name: 'v', configMap: { name: '' } }),
  },
  {
    spec: inlineSpec({ name: 'v', secret: { secretName: 'tls' } }),
    name: 'secret',
    remount: true,
    options: false,
    readOnly: true,
    can: [],
    reconstructed: inlineSpec({ name: 'v', secret: { secretName: 'v' } }),
  },
  {
    spec: inlineSpec({ name: 'v', downwardAPI: { items: [] } }),
    name: 'downward-api',
    remount: true,
    options: false,
    readOnly: true,
    can: [],
    reconstructed: inlineSpec({ name: 'v', downwardAPI: {} }),
  },
  {
    spec: inlineSpec({ name: 'v', projected: { sources: [{ secret: { name: 'x' } }] } }),
    name: 'projected',
    remount: true,
    options: false,
    readOnly: true,
    can: [],
    reconstructed: inlineSpec({ name: 'v', projected: { sources: [] } }),
  },
  {
    spec: inlineSpec({ name: 'v', emptyDir: { medium: 'Memory' } }),
    name: 'empty-dir',
    remount: false,
    options: false,
    readOnly: false,
    can: [],
    reconstructed: inlineSpec({ name: 'v', emptyDir: {} }),
  },
  {
    spec: inlineSpec({ name: 'v', hostPath: { path: '/srv' } }),
    name: 'host-path',
    remount: false,
    options: false,
    readOnly: false,
    can: ['hostPathOf'],
    reconstructed: inlineSpec({ name: 'v', hostPath: { path: 'v' } }),
  },
  {
    spec: persistent,
    name: 'local-volume',
    remount: false,
    options: true,
    readOnly: true,
    can: ['attach', 'deviceMount', 'block', 'expand'],
    reconstructed: persistentSpec(
      { metadata: { name: 'v' }, spec: { local: { path: '' }, volumeMode: 'Filesystem' } },
      false,
    ),
  },
  {
    spec: inlineSpec({ name: 'v', nfs: { server: 'nas', path: '/srv', readOnly: true } }),
    name: 'nfs',
    remount: false,
    options: true,
    readOnly: true,
    can: [],
    reconstructed: inlineSpec({ name: 'v', nfs: { server: '', path: 'v' } }),
  },
  {
    spec: persistentSpec(
      { metadata: { name: 'pv' }, spec: { nfs: { server: 'nas', path: '/srv', readOnly: true } } },
      false,
    ),
    name: 'nfs',
    remount: false,
    options: true,
    readOnly: false,
    can: [],
    reconstructed: inlineSpec({ name: 'v', nfs: { server: '', path: 'v' } }),
  },
  {
    spec: inlineSpec({ name: 'v', image: { reference: 'shop/data:1' } }),
    name: 'image',
    remount: false,
    options: false,
    readOnly: true,
    can: ['hostPathOf'],
    reconstructed: undefined,
  },
];

for (const { spec, name, remount, options, readOnly, can, reconstructed } of rows) {
  test(`kubernetes.io/${name} says of itself what the kubelet's plugin says`, (t) => {
    const node = new VolumeNode(t, { mounts: systemMounts() });
    const { registry, problems } = PluginRegistry.of(allPlugins(node));
    assert.deepEqual(problems, []);
    const { plugin, source } = registry.findBySpec(spec);
    assert.equal(plugin.name, `kubernetes.io/${name}`);
    assert.equal(plugin.follows !== undefined, remount);
    assert.equal(plugin.supportsMountOptions, options);
    // What is refreshed is what the node writes, and replaces as a whole.
    const replaced = remount && { replaced: true };
    assert.deepEqual(plugin.attributes(source, spec), { readOnly, ...replaced });
    const optional = ['hostPathOf', 'attach', 'deviceMount', 'block', 'expand'] as const;
    assert.deepEqual(
      optional.filter((capability) => plugin[capability] !== undefined),
      can,
    );
    assert.deepEqual(plugin.reconstruct('v', node.directoryOf(plugin, 'v')), reconstructed);
  });
}

test('a kind that shows what changes says what it follows', (t) => {
  const { registry } = PluginRegistry.of(allPlugins(new VolumeNode(t, { mounts: systemMounts() })));
  const follows = (volume: Volume): unknown => {
    const { plugin, source } = registry.findBySpec(inlineSpec(volume));
    return plugin.follows?.(source);
  };
  const fields = (
    ...paths: readonly string[]
  ): { readonly path: string; readonly fieldRef: { readonly fieldPath: string } }[] =>
    paths.map((fieldPath) => ({ path: 'f', fieldRef: { fieldPath } }));
  const cpu = { path: 'cpu', resourceFieldRef: { containerName: 'app', resource: 'limits.cpu' } };
  const items = [...fields('metadata.name', "metadata.labels['app']", 'metadata.annotations'), cpu];
  const ofPod = [{ pod: 'labels' }, { pod: 'annotations' }, { pod: 'resources' }];
  assert.deepEqual(follows({ name: 'v', configMap: { name: 'web' } }), [
    { object: { kind: 'ConfigMap', name: 'web' } },
  ]);
  assert.deepEqual(follows({ name: 'v', secret: { secretName: 'tls' } }), [
    { object: { kind: 'Secret', name: 'tls' } },
  ]);
  assert.deepEqual(follows({ name: 'v', downwardAPI: { items } }), ofPod);
  const sources = [
    { secret: { name: 'tls' } },
    { configMap: { name: 'web' } },
    { downwardAPI: { items } },
    { serviceAccountToken: { path: 'token' } },
    { clusterTrustBundle: { name: 'ca', path: 'a' } },
    { clusterTrustBundle: { signerName: 'example.com/ca', labelSelector: {}, path: 'b' } },
  ];
  assert.deepEqual(follows({ name: 'v', projected: { sources } }), [
    { object: { kind: 'Secret', name: 'tls' } },
    { object: { kind: 'ConfigMap', name: 'web' } },
    ...ofPod,
    { token: true },
    { object: { kind: 'ClusterTrustBundle', name: 'ca', isClusterWide: true } },
    { object: { kind: 'ClusterTrustBundle', name: undefined, isClusterWide: true } },
  ]);
  assert.equal(follows({ name: 'v', emptyDir: {} }), undefined);
});

test('an image volume makes nothing on the node and has no path there', async (t) => {
  const node = new VolumeNode(t);
  const plugin = imagePlugin();
  assert.equal((await node.setUp(plugin, { name: 'v', image: { reference: 'x' } })).changed, false);
  await node.tearDown(plugin, 'v');
  assert.equal(plugin.hostPathOf?.({ reference: 'x' }), undefined);
});

test('tearing a projected volume down drops the tokens of its pod', async (t) => {
  const node = new VolumeNode(t);
  const forgotten: string[] = [];
  const tokens = { get: async () => 'token', forgetPod: (uid: string) => void forgotten.push(uid) };
  const { configMaps, secrets, nodes, volumes } = node;
  const plugin = projectedPlugin({ configMaps, secrets, nodes, tokens }, volumes);
  const directory = node.directoryOf(plugin, 'v');
  await plugin.tearDown({ podUid: 'uid-7', volumeName: 'v', directory }, new AbortController().signal);
  assert.deepEqual(forgotten, ['uid-7']);
});

test('a failure is final unless the error itself says otherwise', () => {
  const uncertain = Object.assign(new Error('x'), { failureClass: 'uncertain' });
  assert.equal(failureClassOf(uncertain), 'uncertain');
  assert.equal(failureClassOf(Object.assign(new Error('x'), { failureClass: 'transient' })), 'transient');
  assert.equal(failureClassOf(new Error('wrapped', { cause: uncertain })), 'final');
  assert.equal(failureClassOf(Object.assign(new Error('x'), { failureClass: 'whatever' })), 'final');
  assert.equal(failureClassOf('a string'), 'final');
});
