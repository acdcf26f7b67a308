import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClaimingSet, storageOfOrdinal } from './claim-templates.ts';

const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
const set = (fields: Partial<ClaimingSet['spec']> = {}): ClaimingSet => ({
  metadata: { name: 'zk', namespace: 'shop', uid: 'set-uid' },
  spec: {
    replicas: 3,
    selector: { matchLabels: { app: 'zk' } },
    volumeClaimTemplates: [
      { metadata: { name: 'data', labels: { app: 'other', tier: 'disk' }, annotations: { note: 'x' } }, spec },
      { metadata: { name: 'log' }, spec },
    ],
    ...fields,
  },
});

test('each pod of a set has a claim for each template, with the labels of both and the selector first', () => {
  const { claims } = storageOfOrdinal(set(), { ordinal: 2 });
  assert.deepEqual(claims, [
    {
      metadata: {
        name: 'data-zk-2',
        namespace: 'shop',
        labels: { app: 'zk', tier: 'disk' },
        annotations: { note: 'x' },
      },
      spec,
    },
    { metadata: { name: 'log-zk-2', namespace: 'shop', labels: { app: 'zk' } }, spec },
  ]);
});

test('the volume of a claim replaces one of the same name, and the others stay', () => {
  const volumes = [
    { name: 'log', emptyDir: {} },
    { name: 'config', configMap: { name: 'zk' } },
  ];
  const made = storageOfOrdinal(set(), { ordinal: 0, volumes });
  assert.deepEqual(made.volumes, [
    { name: 'data', persistentVolumeClaim: { claimName: 'data-zk-0' } },
    { name: 'log', persistentVolumeClaim: { claimName: 'log-zk-0' } },
    { name: 'config', configMap: { name: 'zk' } },
  ]);
});

const owners = [
  { whenDeleted: 'Retain', whenScaled: 'Retain', inRange: 'nothing', condemned: 'nothing' },
  {
    whenDeleted: 'Delete',
    whenScaled: 'Retain',
    inRange: 'StatefulSet zk set-uid',
    condemned: 'StatefulSet zk set-uid',
  },
  { whenDeleted: 'Retain', whenScaled: 'Delete', inRange: 'nothing', condemned: 'Pod zk-9 pod-uid' },
  { whenDeleted: 'Delete', whenScaled: 'Delete', inRange: 'StatefulSet zk set-uid', condemned: 'Pod zk-9 pod-uid' },
];
for (const { inRange, condemned, ...policy } of owners) {
  test(`with ${policy.whenDeleted} on deletion and ${policy.whenScaled} on scaling, claims belong to ${inRange}, of surplus pods to ${condemned}`, () => {
    const of = (ordinal: number): string => {
      const claiming = set({ ordinals: { start: 5 }, persistentVolumeClaimRetentionPolicy: policy });
      const { claims } = storageOfOrdinal(claiming, { ordinal, uid: 'pod-uid' });
      const [owner] = claims[0]?.metadata.ownerReferences ?? [];
      return owner === undefined ? 'nothing' : `${owner.kind} ${owner.name} ${owner.uid}`;
    };
    assert.deepEqual([of(5), of(7), of(9)], [inRange, inRange, condemned]);
  });
}
