import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { NodeGraph, type RelatedKind } from './node-graph.ts';

function graphOf(...pods: readonly PodParts[]): NodeGraph {
  const graph = new NodeGraph();
  for (const parts of pods) graph.podChanged(aPod({ nodeName: 'n1', ...parts }));
  return graph;
}

function volume(name: string, spec: PersistentVolume['spec']): PersistentVolume {
  return { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name }, spec };
}

const references: readonly { it: string; pod: PodParts; kind: RelatedKind; names: readonly string[] }[] = [
  {
    it: 'a secret volume',
    pod: { volumes: [{ name: 'v', secret: { secretName: 'a', optional: true } }] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'projected secrets',
    pod: { volumes: [{ name: 'v', projected: { sources: [{ secret: { name: 'a' } }, { secret: { name: 'b' } }] } }] },
    kind: 'secret',
    names: ['a', 'b'],
  },
  { it: 'pull secrets', pod: { imagePullSecrets: [{ name: 'a' }] }, kind: 'secret', names: ['a'] },
  {
    it: 'secrets of the environment',
    pod: {
      containers: [
        aContainer({
          env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'a', key: 'k' } } }],
          envFrom: [{ secretRef: { name: 'b' } }],
        }),
      ],
    },
    kind: 'secret',
    names: ['a', 'b'],
  },
  {
    it: 'secrets of init containers',
    pod: { initContainers: [aContainer({ envFrom: [{ secretRef: { name: 'a' } }] })] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'secrets of ephemeral containers',
    pod: { ephemeralContainers: [aContainer({ envFrom: [{ secretRef: { name: 'a' } }] })] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'the secret of a CSI volume',
    pod: { volumes: [{ name: 'v', csi: { driver: 'd', nodePublishSecretRef: { name: 'a' } } }] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'the secret of a flex volume',
    pod: { volumes: [{ name: 'v', flexVolume: { driver: 'd', secretRef: { name: 'a' } } }] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'the secret of an azure file',
    pod: { volumes: [{ name: 'v', azureFile: { secretName: 'a', shareName: 's' } }] },
    kind: 'secret',
    names: ['a'],
  },
  {
    it: 'config maps of volumes and environment',
    pod: {
      volumes: [
        { name: 'v', configMap: { name: 'a' } },
        { name: 'w', projected: { sources: [{ configMap: { name: 'b' } }] } },
      ],
      containers: [
        aContainer({
          env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'c', key: 'k' } } }],
          envFrom: [{ configMapRef: { name: 'd' } }],
        }),
      ],
    },
    kind: 'configMap',
    names: ['a', 'b', 'c', 'd'],
  },
  {
    it: 'claims, and those of ephemeral volumes',
    pod: {
      volumes: [
        { name: 'v', persistentVolumeClaim: { claimName: 'a' } },
        { name: 'tmp', ephemeral: { volumeClaimTemplate: { spec: {} } } },
      ],
    },
    kind: 'claim',
    names: ['a', 'web-tmp'],
  },
  {
    it: 'the service account, mounted or not',
    pod: { serviceAccountName: 'a', automountServiceAccountToken: false },
    kind: 'serviceAccount',
    names: ['a'],
  },
  { it: 'the pod itself', pod: {}, kind: 'pod', names: ['web'] },
];
for (const { it, pod, kind, names } of references) {
  test(`${it} of a pod are related to its node, in its namespace alone`, () => {
    const graph = graphOf(pod);
    for (const name of names) {
      assert.ok(graph.isRelated('n1', kind, 'shop', name), name);
      assert.ok(!graph.isRelated('n1', kind, 'other', name));
      assert.ok(!graph.isRelated('n2', kind, 'shop', name));
    }
    assert.ok(!graph.isRelated('n1', kind, 'shop', 'stranger'));
  });
}

test('an attachment is related to the node that it names, as long as it exists', () => {
  const graph = new NodeGraph();
  const spec = { attacher: 'd', nodeName: 'n1', source: { persistentVolumeName: 'pv' } };
  graph.volumeAttachmentChanged({ metadata: { name: 'a' }, spec });
  assert.ok(graph.isRelated('n1', 'volumeAttachment', '', 'a'));
  assert.ok(!graph.isRelated('n2', 'volumeAttachment', '', 'a'));
  graph.volumeAttachmentDeleted('a');
  assert.ok(!graph.isRelated('n1', 'volumeAttachment', '', 'a'));
});

test('a pod without a node gives no access', () => {
  const graph = new NodeGraph();
  graph.podChanged(aPod({ imagePullSecrets: [{ name: 'a' }] }));
  assert.ok(!graph.isRelated('', 'secret', 'shop', 'a'));
  graph.podChanged(aPod({ nodeName: 'n1', imagePullSecrets: [{ name: 'a' }] }));
  assert.ok(graph.isRelated('n1', 'secret', 'shop', 'a'), 'as soon as it is bound');
});

test('a mirror pod is related to its node, and what it names is not', () => {
  const graph = graphOf({
    metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } },
    imagePullSecrets: [{ name: 'a' }],
    serviceAccountName: 'b',
  });
  assert.ok(graph.isRelated('n1', 'pod', 'shop', 'web'));
  assert.ok(!graph.isRelated('n1', 'secret', 'shop', 'a'));
  assert.ok(!graph.isRelated('n1', 'serviceAccount', 'shop', 'b'));
});

test('access ends with the last pod object that needs it, and not when a pod has finished', () => {
  const secret = { imagePullSecrets: [{ name: 'a' }] };
  const graph = graphOf(
    { ...secret, metadata: { name: 'one' }, status: { phase: 'Succeeded' } },
    { ...secret, metadata: { name: 'two' } },
  );
  graph.podDeleted('shop', 'two');
  assert.ok(graph.isRelated('n1', 'secret', 'shop', 'a'));
  graph.podDeleted('shop', 'one');
  graph.podDeleted('shop', 'one');
  assert.ok(!graph.isRelated('n1', 'secret', 'shop', 'a'));
});

test('a pod created again on another node takes its access with it', () => {
  const graph = graphOf({ imagePullSecrets: [{ name: 'a' }] });
  graph.podChanged(aPod({ nodeName: 'n2', imagePullSecrets: [{ name: 'a' }] }));
  assert.ok(!graph.isRelated('n1', 'secret', 'shop', 'a'));
  assert.ok(graph.isRelated('n2', 'secret', 'shop', 'a'));
});

test('a claim leads to its volume and to the secrets that its node needs', () => {
  const graph = graphOf({ volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] });
  const csi = {
    driver: 'd',
    volumeHandle: 'h',
    nodeStageSecretRef: { namespace: 'storage', name: 'stage' },
    controllerPublishSecretRef: { namespace: 'storage', name: 'controller' },
  };
  graph.persistentVolumeChanged(volume('pv1', { csi, claimRef: { namespace: 'shop', name: 'data' } }));
  assert.ok(graph.isRelated('n1', 'persistentVolume', '', 'pv1'));
  assert.ok(graph.isRelated('n1', 'secret', 'storage', 'stage'));
  assert.ok(!graph.isRelated('n1', 'secret', 'storage', 'controller'));
  assert.ok(!graph.isRelated('n2', 'secret', 'storage', 'stage'));

  graph.persistentVolumeChanged(volume('pv1', { csi, claimRef: { namespace: 'shop', name: 'other' } }));
  assert.ok(!graph.isRelated('n1', 'persistentVolume', '', 'pv1'));
  assert.ok(!graph.isRelated('n1', 'secret', 'storage', 'stage'));
  graph.persistentVolumeChanged(volume('pv1', { csi, claimRef: { namespace: 'shop', name: 'data' } }));
  graph.persistentVolumeDeleted('pv1');
  assert.ok(!graph.isRelated('n1', 'secret', 'storage', 'stage'));
});

test('secrets of older volumes are in the namespace of the claim unless they say otherwise', () => {
  const graph = graphOf({ volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] });
  const claimRef = { namespace: 'shop', name: 'data' };
  graph.persistentVolumeChanged(volume('pv1', { rbd: { secretRef: { name: 'a' } }, claimRef }));
  graph.persistentVolumeChanged(
    volume('pv2', { cephfs: { secretRef: { name: 'b', namespace: 'storage' } }, claimRef }),
  );
  graph.persistentVolumeChanged(volume('pv3', { azureFile: { secretName: 'c' }, claimRef }));
  assert.ok(graph.isRelated('n1', 'secret', 'shop', 'a'));
  assert.ok(graph.isRelated('n1', 'secret', 'storage', 'b'));
  assert.ok(graph.isRelated('n1', 'secret', 'shop', 'c'));
});

test('after any changes the graph answers as one that was built from what is left', () => {
  const small = fc.constantFrom('a', 'b', 'c');
  const change = fc.record({
    name: small,
    node: fc.constantFrom('n1', 'n2', ''),
    secrets: fc.uniqueArray(small),
    isDelete: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
      const graph = new NodeGraph();
      const left = new Map<string, Pod>();
      for (const { name, node, secrets, isDelete } of changes) {
        const pod = aPod({
          metadata: { name },
          nodeName: node,
          imagePullSecrets: secrets.map((secret) => ({ name: secret })),
        });
        if (isDelete) {
          graph.podDeleted('shop', name);
          left.delete(name);
        } else {
          graph.podChanged(pod);
          left.set(name, pod);
        }
      }
      for (const node of ['n1', 'n2']) {
        for (const secret of ['a', 'b', 'c']) {
          const expected = [...left.values()].some(
            ({ spec }) => spec.nodeName === node && spec.imagePullSecrets?.some(({ name }) => name === secret),
          );
          assert.equal(graph.isRelated(node, 'secret', 'shop', secret), expected);
        }
      }
    }),
  );
});
