/** What admission does to claims and volumes: the default class, protection while they are in use, and who may grow. */
import { claimKind } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeKind } from '../../kube/kinds/storage/persistent-volume.ts';
import { type StorageClass, storageClassKind } from '../../kube/kinds/storage/storage-class.ts';
import {
  claimProtection,
  classOf,
  defaultClassOf,
  requestedBytes,
  volumeProtection,
  wantsDefaultClass,
} from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionRequest, type AdmissionStep, refuse } from './admission.ts';

const protections: ReadonlyMap<string, string> = new Map([
  [claimKind.plural, claimProtection],
  [persistentVolumeKind.plural, volumeProtection],
]);

export function storageAdmission(store: Pick<Store, 'list'>): AdmissionStep {
  const classes = (): readonly StorageClass[] => {
    const prefix = objectPrefix({ group: 'storage.k8s.io', plural: storageClassKind.plural, namespaced: false });
    return store.list({ prefix, leavesOutDamaged: true }).items.map(({ value }) => parseStored(value) as StorageClass);
  };
  return {
    admit(request) {
      const { operation, resource, subresource, object } = request;
      if (resource.group !== '' || subresource !== '' || object === undefined) return undefined;
      const protection = protections.get(resource.plural);
      if (protection === undefined) return undefined;
      if (operation === 'CREATE') {
        const isClaim = resource.plural === claimKind.plural;
        return protectedBy(protection, isClaim ? withDefaultClass(object as PersistentVolumeClaim, classes) : object);
      }
      if (operation === 'UPDATE' && resource.plural === claimKind.plural) refuseGrowth(request, classes);
      return undefined;
    },
  };
}

function withDefaultClass(claim: PersistentVolumeClaim, classes: () => readonly StorageClass[]): PersistentVolumeClaim {
  const found = wantsDefaultClass(claim) ? defaultClassOf(classes()) : undefined;
  return found === undefined ? claim : { ...claim, spec: { ...claim.spec, storageClassName: found.metadata.name } };
}

function protectedBy(finalizer: string, object: KubeObject): KubeObject {
  const { finalizers = [] } = object.metadata;
  if (finalizers.includes(finalizer)) return object;
  return { ...object, metadata: { ...object.metadata, finalizers: [...finalizers, finalizer] } };
}

function refuseGrowth(request: AdmissionRequest, classes: () => readonly StorageClass[]): void {
  const [claim, old] = [request.object as PersistentVolumeClaim, request.old as PersistentVolumeClaim];
  if (requestedBytes(claim) <= requestedBytes(old)) return;
  if (old.status?.phase !== 'Bound') {
    throw refuse(request, 'Only bound persistent volume claims can be expanded');
  }
  const className = classOf(old);
  const storageClass = classes().find(({ metadata }) => metadata.name === className);
  if (className !== '' && classOf(claim) === className && storageClass?.allowVolumeExpansion === true) return;
  const text =
    'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize';
  throw refuse(request, text);
}
