import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type VolumeSpec, inlineSpec, inlineSpecOf, persistentSpec } from '../kube/references/volume-spec.ts';
import { type VolumePlugin, VolumeError } from './plugin.ts';
import { PluginRegistry } from './registry.ts';

function plugin(name: string, kind: 'configMap' | 'secret' = 'configMap'): VolumePlugin {
  return {
    name,
    sourceOf: ({ volume }) => volume?.[kind],
    follows: () => [],
    supportsMountOptions: false,
    attributes: () => ({ readOnly: true }),
    setUp: async () => ({ changed: false, files: 0, hidden: [] }),
    tearDown: async () => undefined,
    reconstruct: () => undefined,
  };
}

const web = inlineSpec({ name: 'web', configMap: { name: 'web' } });

test('a volume finds its plugin, together with the source it recognised', () => {
  const { registry, problems } = PluginRegistry.of([plugin('a.io/configmap'), plugin('a.io/secret', 'secret')]);
  assert.deepEqual(problems, []);
  const found = registry.findBySpec(web);
  assert.equal(found.plugin.name, 'a.io/configmap');
  assert.deepEqual(found.source, { name: 'web' });
  assert.equal(registry.findByName('a.io/secret').name, 'a.io/secret');
  assert.deepEqual(
    registry.all().map(({ name }) => name),
    ['a.io/configmap', 'a.io/secret'],
  );
});

test('a kind that reads whatever others do not leaves the volumes to them that they read', () => {
  const rest = { ...plugin('a.io/rest'), isFallback: true };
  const named = {
    ...plugin('a.io/web'),
    sourceOf: ({ volume }: VolumeSpec) => (volume?.name === 'web' ? {} : undefined),
  };
  const { registry } = PluginRegistry.of([rest, named]);
  assert.equal(registry.findBySpec(web).plugin.name, 'a.io/web');
  assert.equal(registry.findBySpec(inlineSpec({ name: 'api', configMap: { name: 'web' } })).plugin.name, 'a.io/rest');
});

test('a bad plugin is reported and the good ones stay usable', () => {
  const { registry, problems } = PluginRegistry.of([plugin('a.io/x'), plugin('a.io/x', 'secret'), plugin('a.io/b/c')]);
  assert.equal(problems[0]?.message, 'volume plugin "a.io/x" was registered more than once');
  assert.match(problems[1]?.message ?? '', /^volume plugin has invalid name: "a.io\/b\/c": a valid label key must/);
  assert.equal(problems.length, 2);
  assert.equal(registry.findBySpec(web).plugin.name, 'a.io/x');
});

const failures = [
  { it: 'no spec', spec: undefined, says: 'could not find plugin because volume spec is nil' },
  {
    it: 'an unknown kind',
    spec: inlineSpec({ name: 'v', nfs: { server: 's', path: '/' } }),
    says: 'no volume plugin matched',
  },
  {
    it: 'a volume of a CSI driver',
    spec: inlineSpec({ name: 'v', csi: { driver: 'd.example' } }),
    says: 'no volume plugin matched: the volume needs the CSI driver "d.example", which this node does not have',
  },
  {
    it: 'a kind that a CSI driver has taken over',
    spec: inlineSpecOf({ name: 'v', awsElasticBlockStore: { volumeID: 'v' } }, 'shop'),
    says: 'no volume plugin matched: the volume needs the CSI driver "ebs.csi.aws.com", which this node does not have',
  },
  {
    it: 'a kind that Kubernetes has removed',
    spec: inlineSpec({ name: 'v', gitRepo: { repository: 'r' } }),
    says: 'no volume plugin matched: gitRepo volumes are no longer supported by Kubernetes: clone the repository into an emptyDir in an init container',
  },
  {
    it: 'a kind that this node does not run, by a PersistentVolume',
    spec: persistentSpec({ metadata: { name: 'v' }, spec: { fc: { wwids: ['w'] } } }, false),
    says: "no volume plugin matched: fc volumes are not supported by this node: use a CSI driver of the storage's vendor",
  },
  { it: 'a kind two plugins claim', spec: web, says: 'multiple volume plugins matched: a.io/one,a.io/two' },
];
for (const { it, spec, says } of failures) {
  test(`${it} is refused in the kubelet's words`, () => {
    const { registry } = PluginRegistry.of([plugin('a.io/one'), plugin('a.io/two')]);
    assert.throws(
      () => registry.findBySpec(spec),
      (error) => error instanceof VolumeError && error.message === says,
    );
  });
}

test('an unknown name is refused in the kubelet’s words', () => {
  assert.throws(() => PluginRegistry.of([]).registry.findByName('a.io/x'), {
    message: 'no volume plugin matched name: a.io/x',
  });
});
