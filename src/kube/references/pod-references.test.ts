import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import type { Volume } from '../kinds/pod/volume.ts';
import { namesOf, referencesOf, withoutReferences } from './pod-references.ts';

function objectReferences(
  pod: Pod,
  references = referencesOf(pod),
): Record<'configMaps' | 'secrets', ReadonlySet<string>> {
  return { configMaps: namesOf(references, 'ConfigMap'), secrets: namesOf(references, 'Secret') };
}

function projectedReferences(pod: Pod): ReturnType<typeof objectReferences> {
  return objectReferences(
    pod,
    referencesOf(pod).filter(({ use }) => use === 'shown'),
  );
}

interface Case {
  readonly it: string;
  readonly pod: PodParts;
  readonly configMaps?: readonly string[];
  readonly secrets?: readonly string[];
}

const everySource = aContainer({
  envFrom: [{ configMapRef: { name: 'from-cm' } }, { secretRef: { name: 'from-secret' } }],
  env: [
    { name: 'A', valueFrom: { configMapKeyRef: { name: 'key-cm', key: 'k' } } },
    { name: 'B', valueFrom: { secretKeyRef: { name: 'key-secret', key: 'k' } } },
    { name: 'C', value: 'plain' },
  ],
});

const cases: readonly Case[] = [
  { it: 'of a pod without any', pod: {} },
  {
    it: 'in env and envFrom of a container',
    pod: { containers: [everySource] },
    configMaps: ['from-cm', 'key-cm'],
    secrets: ['from-secret', 'key-secret'],
  },
  {
    it: 'in init and ephemeral containers',
    pod: { initContainers: [everySource], ephemeralContainers: [{ ...everySource, name: 'debug' }] },
    configMaps: ['from-cm', 'key-cm'],
    secrets: ['from-secret', 'key-secret'],
  },
  {
    it: 'in configMap, secret and projected volumes, mounted or not',
    pod: {
      volumes: [
        { name: 'a', configMap: { name: 'cm' } },
        { name: 'b', secret: { secretName: 'secret' } },
        {
          name: 'c',
          projected: {
            sources: [
              { configMap: { name: 'projected-cm' } },
              { secret: { name: 'projected-secret' } },
              { downwardAPI: {} },
            ],
          },
        },
      ],
    },
    configMaps: ['cm', 'projected-cm'],
    secrets: ['secret', 'projected-secret'],
  },
  {
    it: 'among image pull secrets',
    pod: { imagePullSecrets: [{ name: 'pull' }, { name: '' }] },
    secrets: ['pull'],
  },
  {
    it: 'once however often it is named, and never with an empty name',
    pod: {
      imagePullSecrets: [{ name: 's' }, { name: 's' }],
      containers: [aContainer({ envFrom: [{ secretRef: { name: 's' } }, { configMapRef: { name: '' } }] })],
      volumes: [
        { name: 'v', secret: { secretName: 's' } },
        { name: 'w', secret: {} },
      ],
    },
    secrets: ['s'],
  },
];

for (const { it, pod, configMaps = [], secrets = [] } of cases) {
  test(`referencesOf finds the names ${it}`, () => {
    const found = objectReferences(aPod(pod));
    assert.deepEqual([...found.configMaps], configMaps);
    assert.deepEqual([...found.secrets], secrets);
  });
}

const carried: readonly Volume[] = [
  { name: 'v', csi: { driver: 'd', nodePublishSecretRef: { name: 'x' } } },
  { name: 'v', azureFile: { secretName: 'x', shareName: 'y' } },
  { name: 'v', cephfs: { secretRef: { name: 'x' } } },
  { name: 'v', cinder: { secretRef: { name: 'x' } } },
  { name: 'v', flexVolume: { secretRef: { name: 'x' } } },
  { name: 'v', rbd: { secretRef: { name: 'x' } } },
  { name: 'v', scaleIO: { secretRef: { name: 'x' } } },
  { name: 'v', iscsi: { secretRef: { name: 'x' } } },
  { name: 'v', storageos: { secretRef: { name: 'x' } } },
];
for (const volume of carried) {
  const kind = Object.keys(volume)[1] ?? '';
  test(`referencesOf finds the secret of a ${kind} volume`, () => {
    assert.deepEqual([...objectReferences(aPod({ volumes: [volume] })).secrets], ['x']);
  });
}

test('referencesOf survives sources of any form', () => {
  const volumes = [null, 7, 'text', [], {}, { secretRef: null }, { secretRef: { name: 7 } }].map((rbd, index) => ({
    name: `v${index}`,
    rbd,
    azureFile: rbd,
  }));
  // From a store of long ago: today such sources are refused.
  assert.deepEqual([...objectReferences(aPod({ volumes: volumes as unknown as Volume[] })).secrets], []);
});

test('referencesOf marks what volumes show, not what containers, pulls and drivers read', () => {
  const { configMaps, secrets } = projectedReferences(
    aPod({
      containers: [everySource],
      imagePullSecrets: [{ name: 'pull' }],
      volumes: [
        { name: 'a', configMap: { name: 'cm' } },
        { name: 'b', secret: { secretName: 'secret' } },
        { name: 'c', projected: { sources: [{ configMap: { name: 'cm-2' } }, { secret: { name: 'secret-2' } }] } },
        { name: 'd', csi: { driver: 'd', nodePublishSecretRef: { name: 'driver' } } },
        { name: 'e', configMap: { name: '' } },
      ],
    }),
  );
  assert.deepEqual([...configMaps], ['cm', 'cm-2']);
  assert.deepEqual([...secrets], ['secret', 'secret-2']);
});

test('referencesOf lists each object with the field that refers to it', () => {
  const pod = aPod({
    serviceAccountName: 'runner',
    containers: [everySource, { ...everySource, name: 'again' }],
    volumes: [
      { name: 'a', csi: { driver: 'd', nodePublishSecretRef: { name: 'driver' } } },
      { name: 'b', ephemeral: {} },
      { name: 'c', persistentVolumeClaim: { claimName: 'data' } },
      { name: 'd', glusterfs: { endpoints: 'gluster' } },
      {
        name: 'e',
        projected: { sources: [{ serviceAccountToken: { path: 't' } }, { clusterTrustBundle: { path: 'ca' } }] },
      },
    ],
  });
  assert.deepEqual(
    referencesOf(pod).map(({ kind, name, via, use }) => [kind, name, via, use].join(' ')),
    [
      'ServiceAccount runner serviceAccountName read',
      'ConfigMap from-cm environment read',
      'Secret from-secret environment read',
      'ConfigMap key-cm environment read',
      'Secret key-secret environment read',
      'CSIDriver d csi read',
      'Secret driver csi read',
      'PersistentVolumeClaim web-b ephemeral read',
      'PersistentVolumeClaim data persistentVolumeClaim read',
      'Endpoints gluster glusterfs read',
      'ServiceAccount  projected shown',
      'ClusterTrustBundle  projected shown',
    ],
  );
});

test('withoutReferences leaves a pod that refers to nothing', () => {
  const pod = aPod({
    serviceAccountName: 'runner',
    imagePullSecrets: [{ name: 'pull' }],
    containers: [
      {
        ...everySource,
        volumeMounts: [
          { name: 'a', mountPath: '/a' },
          { name: 'z', mountPath: '/z' },
        ],
      },
    ],
    volumes: [...carried.map((volume, index) => ({ ...volume, name: `v${index}` })), { name: 'z', emptyDir: {} }],
  });
  const { spec, ...rest } = withoutReferences(pod);
  assert.deepEqual(referencesOf({ ...rest, spec }), []);
  assert.deepEqual(spec.volumes, [{ name: 'z', emptyDir: {} }]);
});
