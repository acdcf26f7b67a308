/** Small claims, volumes and classes for tests, with what controllers look at in one line. */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';

interface ClaimParts extends Partial<PersistentVolumeClaim['spec']> {
  readonly name?: string;
  readonly size?: string;
  readonly phase?: string;
  readonly metadata?: Partial<ObjectMeta>;
}

/** A claim `shop/data` of 1Gi, to be written by one node, of no class. */
export function aClaim({
  name = 'data',
  size = '1Gi',
  phase = 'Pending',
  metadata,
  ...spec
}: ClaimParts = {}): PersistentVolumeClaim {
  return {
    metadata: { name, namespace: 'shop', uid: `uid-${name}`, ...metadata },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      storageClassName: '',
      volumeMode: 'Filesystem',
      ...spec,
    },
    status: { phase },
  };
}

interface VolumeParts extends Partial<PersistentVolume['spec']> {
  readonly size?: string;
  readonly phase?: string;
  /** `name` or `name@uid` of a claim in `shop`. */
  readonly for?: string;
  readonly metadata?: Partial<ObjectMeta>;
}

/** A free volume of 1Gi, to be written by one node, of no class, that is kept when its claim is gone. */
export function aVolume(
  name: string,
  { size = '1Gi', phase = 'Available', for: claim, metadata, ...spec }: VolumeParts = {},
): PersistentVolume {
  const [claimName, uid] = claim?.split('@') ?? [];
  const reference = { kind: 'PersistentVolumeClaim', apiVersion: 'v1', namespace: 'shop' };
  return {
    metadata: { name, uid: `uid-${name}`, ...metadata },
    spec: {
      capacity: { storage: size },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Retain',
      volumeMode: 'Filesystem',
      hostPath: { path: `/volumes/${name}` },
      ...(claimName !== undefined && {
        claimRef: { ...reference, name: claimName, ...(uid !== undefined && { uid }) },
      }),
      ...spec,
    },
    status: { phase },
  };
}

/** As a user writes it, without what a server adds. */
export function newClaim(parts: ClaimParts = {}): KubeObject {
  const { metadata, spec } = aClaim(parts);
  const { uid: _, ...rest } = metadata;
  return { metadata: rest, spec } as KubeObject;
}

/** As a user writes it. */
export function newVolume(name: string, parts: VolumeParts = {}): KubeObject {
  const { metadata, spec } = aVolume(name, parts);
  const { uid: _, ...rest } = metadata;
  return { metadata: rest, spec } as KubeObject;
}

/** A pod in `shop` with these claims, each a volume of the claim's name; and with other volumes. */
export function podWithClaims(name: string, claims: readonly string[], others: readonly object[] = []): KubeObject {
  const volumes = claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  const spec = { containers: [{ name: 'main', image: 'none' }], volumes: [...volumes, ...others] };
  return { metadata: { name, namespace: 'shop' }, spec } as KubeObject;
}

/** A generic ephemeral volume with a directory of the node. */
export function ephemeralVolume(name: string): object {
  const { accessModes, resources } = aClaim().spec;
  const spec = { accessModes, resources, storageClassName: 'local-path' };
  return { name, ephemeral: { volumeClaimTemplate: { spec } } };
}

export function aClass(name: string, parts: Partial<StorageClass> = {}): StorageClass {
  return {
    provisioner: 'example.com/disks',
    volumeBindingMode: 'Immediate',
    ...parts,
    metadata: { name, ...parts.metadata },
  };
}
