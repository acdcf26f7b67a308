import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OperatingError } from '../../base/errors.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import { resolveVolume } from './volume-spec.ts';

const pod: Pod = { metadata: { name: 'web', namespace: 'shop', uid: 'u1' }, spec: { containers: [] } };
const claim: PersistentVolumeClaim = {
  metadata: { name: 'data', namespace: 'shop', uid: 'c1' },
  spec: { volumeName: 'pv1' },
  status: { phase: 'Bound' },
};
const volume: PersistentVolume = {
  metadata: { name: 'pv1' },
  spec: {
    volumeMode: 'Filesystem',
    claimRef: { namespace: 'shop', name: 'data', uid: 'c1' },
    local: { path: '/data' },
  },
};
const named = { name: 'v', persistentVolumeClaim: { claimName: 'data', readOnly: true } };
const mounted = { mounted: true, asDevice: false };

const reader = (claimFound?: PersistentVolumeClaim, volumeFound?: PersistentVolume) => ({
  claim: () => claimFound,
  persistentVolume: () => volumeFound,
});

test('a volume that is not a claim stands for itself', () => {
  const inline = { name: 'v', emptyDir: {} };
  assert.deepEqual(resolveVolume(pod, inline, mounted, reader()), { volume: inline, readOnly: false });
});

test('a claim leads to its volume', () => {
  assert.deepEqual(resolveVolume(pod, named, mounted, reader(claim, volume)), {
    persistentVolume: volume,
    readOnly: true,
  });
});

const processing = 'error processing PVC shop/data: ';
const refused: { it: string; claim?: PersistentVolumeClaim; volume?: PersistentVolume; says: string }[] = [
  {
    it: 'that is not there',
    says: `${processing}failed to fetch PVC from API server: persistentvolumeclaims "data" not found`,
  },
  {
    it: 'that is being deleted',
    claim: { ...claim, metadata: { ...claim.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } },
    says: `${processing}PVC is being deleted`,
  },
  { it: 'that is not bound', claim: { ...claim, status: { phase: 'Pending' } }, says: `${processing}PVC is not bound` },
  { it: 'without a volume', claim: { ...claim, spec: {} }, says: `${processing}PVC has empty pvc.Spec.VolumeName` },
  {
    it: 'whose volume is not there',
    claim,
    says: `${processing}failed to fetch PV pv1 from API server: persistentvolumes "pv1" not found`,
  },
  {
    it: 'whose volume knows no claim',
    claim,
    volume: { ...volume, spec: { volumeMode: 'Filesystem' } },
    says: `${processing}found PV object pv1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim`,
  },
  {
    it: 'whose volume belongs to another claim',
    claim,
    volume: { ...volume, spec: { ...volume.spec, claimRef: { uid: 'c2' } } },
    says: `${processing}found PV object pv1 but its pv.Spec.ClaimRef.UID c2 does not point to claim.UID c1`,
  },
  {
    it: 'that is a raw device where a file system is mounted',
    claim,
    volume: { ...volume, spec: { ...volume.spec, volumeMode: 'Block' } },
    says: 'volume v has volumeMode Block, but is specified in volumeMounts',
  },
];
for (const { it, claim: claimFound, volume: volumeFound, says } of refused) {
  test(`a claim ${it} is refused in the kubelet's words`, () => {
    assert.throws(
      () => resolveVolume(pod, named, mounted, reader(claimFound, volumeFound)),
      new OperatingError('FailedMount', says),
    );
  });
}

test('a claim being deleted is good as long as a finalizer protects it', () => {
  const metadata = { ...claim.metadata, deletionTimestamp: 'x', finalizers: ['kubernetes.io/pvc-protection'] };
  assert.ok(resolveVolume(pod, named, mounted, reader({ ...claim, metadata }, volume)).persistentVolume);
});

test('an ephemeral volume uses the claim made for this pod and no other', () => {
  const ephemeral = { name: 'v', ephemeral: {} };
  const owner = { apiVersion: 'v1', kind: 'Pod', name: 'web', uid: 'u1', controller: true };
  const own = { ...claim, metadata: { ...claim.metadata, ownerReferences: [owner] } };
  const foreign = { ...claim, metadata: { ...claim.metadata, ownerReferences: [{ ...owner, uid: 'u2' }] } };
  assert.ok(resolveVolume(pod, ephemeral, mounted, reader(own, volume)).persistentVolume);
  assert.throws(
    () => resolveVolume(pod, ephemeral, mounted, reader(foreign, volume)),
    new OperatingError('FailedMount', 'PVC shop/data was not created for pod shop/web (pod is not owner)'),
  );
});
