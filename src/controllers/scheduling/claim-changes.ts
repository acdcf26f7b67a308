/** Which changes of claims, volumes and classes a pod may have waited for. */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { bindCompleted, hasAnnotation, isOver, selectedNode } from '../../kube/references/claims.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { type ClaimId, type StorageView, claimId, claimIdsOf } from '../storage/storage-view.ts';

interface ClaimFollower {
  /** Something that the pod waits for may have changed. */
  retry(key: string): void;
  /** The same for every pod that has volumes. */
  retryVolumes(): void;
}

/** Returns how to stop. */
export function followClaims(cluster: Cluster, storage: StorageView, scheduler: ClaimFollower): () => void {
  const touchUsers = (id: ClaimId): void => {
    for (const { metadata } of storage.podsUsing(id)) {
      scheduler.retry(cluster.keyOf(storage.kinds.pod, metadata.namespace ?? '', metadata.name));
    }
  };
  return storage.follow({
    claimChanged: (id, claim, before) => {
      if (placeOf(claim) !== placeOf(before)) touchUsers(id);
    },
    // One that ends may free a claim that only one pod can have.
    podChanged: (_key, pod, before) => {
      if (pod === undefined || isOver(pod)) for (const id of claimIdsOf(before)) touchUsers(id);
    },
    // A volume that belongs to a claim concerns the claim's pods alone: thousands are provisioned without a look at all others.
    volumeChanged: (_name, volume, before) => {
      for (const { claimRef } of [volume, before].flatMap((each) => each?.spec ?? [])) {
        if (claimRef !== undefined) touchUsers(claimId(claimRef.namespace, claimRef.name));
      }
      if (volume?.spec.claimRef === undefined) scheduler.retryVolumes();
    },
    classChanged: () => scheduler.retryVolumes(),
  });
}

/** What of a claim decides where its pods may run. */
function placeOf(claim: PersistentVolumeClaim | undefined): string {
  if (claim === undefined) return '';
  const { uid, deletionTimestamp, annotations } = claim.metadata;
  const isBound = hasAnnotation(claim, bindCompleted);
  const { volumeName, storageClassName } = claim.spec;
  const place = [uid, deletionTimestamp, annotations?.[selectedNode], isBound, volumeName, storageClassName];
  return JSON.stringify([...place, claim.status?.phase]);
}
