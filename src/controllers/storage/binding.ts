/**
 * What is to be done about one claim, and about one volume. Pure: decided from what is, never from what happened, so that a
 * binding that was cut short by a crash is completed by the next look.
 *
 * A binding is four writes, in this order: the volume's claimRef, its phase, the claim's volumeName, its phase. A claim with the
 * annotation bind-completed has been through all of the third, and is Lost if it finds its volume gone or taken.
 */
import { type PersistentVolumeClaim, claimKind } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import {
  annotated,
  bindCompleted,
  boundByController,
  classOf,
  defaultClassOf,
  hasAnnotation,
  migratedTo,
  provisionedBy,
  provisionerAnnotations,
  selectedNode,
  wantsDefaultClass,
  withoutAnnotation,
} from '../../kube/references/claims.ts';
import { migratedDrivers } from '../../kube/references/csi-translation.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type VolumeIndex, haveSameMode, isReservedFor, misfit } from './volume-index.ts';

const claimVersion = 'v1';

export interface News {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

export type ClaimStep =
  | { readonly kind: 'bind'; readonly volume: PersistentVolume }
  | { readonly kind: 'assignClass'; readonly className: string }
  | { readonly kind: 'provision'; readonly provisioner: string }
  /** It waits; `news` is for every look, and is counted rather than repeated. */
  | { readonly kind: 'pending'; readonly news?: News }
  /** It waits with its status as it is. */
  | { readonly kind: 'leave'; readonly news: News }
  | { readonly kind: 'lost'; readonly news: News };

interface ClaimSurroundings {
  readonly volumes: VolumeIndex;
  readonly classes: ReadonlyMap<string, StorageClass>;
  /** Names of pods that use the claim and have no node yet. */
  readonly waitingPods: readonly string[];
}

export function planClaim(claim: PersistentVolumeClaim, around: ClaimSurroundings): ClaimStep {
  const { volumeName = '' } = claim.spec;
  if (hasAnnotation(claim, bindCompleted)) return planBound(claim, around.volumes.get(volumeName));
  return volumeName === '' ? planFree(claim, around) : planRequested(claim, around.volumes.get(volumeName));
}

function planFree(claim: PersistentVolumeClaim, { volumes, classes, waitingPods }: ClaimSurroundings): ClaimStep {
  const className = classOf(claim);
  const storageClass = classes.get(className);
  const waits = isDelayed(claim, classes);
  const volume = volumes.find(claim, { reservedOnly: waits });
  if (volume !== undefined) return { kind: 'bind', volume };
  const fallback = wantsDefaultClass(claim) ? defaultClassOf(classes.values()) : undefined;
  if (fallback !== undefined) return { kind: 'assignClass', className: fallback.metadata.name };
  if (waits && (claim.metadata.annotations?.[selectedNode] ?? '') === '') {
    return { kind: 'pending', news: waitingNews(waitingPods) };
  }
  if (className !== '') return planProvisioning(className, storageClass);
  const message = 'no persistent volumes available for this claim and no storage class is set';
  return { kind: 'pending', news: { type: 'Normal', reason: 'FailedBinding', message } };
}

/** The scheduler chooses the volumes of such claims, with the node of their first pod. */
export function isDelayed(claim: PersistentVolumeClaim, classes: ReadonlyMap<string, StorageClass>): boolean {
  return classes.get(classOf(claim))?.volumeBindingMode === 'WaitForFirstConsumer';
}

function waitingNews(pods: readonly string[]): News {
  const [reason, message] =
    pods.length === 0
      ? ['WaitForFirstConsumer', 'waiting for first consumer to be created before binding']
      : ['WaitForPodScheduled', `waiting for ${pods.length === 1 ? 'pod' : 'pods'} ${pods.join(',')} to be scheduled`];
  return { type: 'Normal', reason, message };
}

/** Names below `kubernetes.io/` belonged to provisioners inside the controller; CSI drivers do the work of some of them now. */
function planProvisioning(className: string, storageClass: StorageClass | undefined): ClaimStep {
  const failed = (message: string): ClaimStep => ({
    kind: 'leave',
    news: { type: 'Warning', reason: 'ProvisioningFailed', message },
  });
  if (storageClass === undefined) return failed(`storageclass.storage.k8s.io ${goQuote(className)} not found`);
  const provisioner = migratedDrivers.get(storageClass.provisioner) ?? storageClass.provisioner;
  if (provisioner.startsWith('kubernetes.io/')) return failed(`no volume plugin matched name: ${provisioner}`);
  return { kind: 'provision', provisioner };
}

function planRequested(claim: PersistentVolumeClaim, volume: PersistentVolume | undefined): ClaimStep {
  if (volume === undefined) return { kind: 'pending' };
  const name = goQuote(volume.metadata.name);
  if (volume.spec.claimRef === undefined) {
    const problem = misfit(volume, claim);
    if (problem === undefined) return { kind: 'bind', volume };
    const message = `Cannot bind to requested volume ${name}: ${problem}`;
    return { kind: 'pending', news: { type: 'Warning', reason: 'VolumeMismatch', message } };
  }
  if (isReservedFor(volume, claim)) return { kind: 'bind', volume };
  const message = `volume ${name} already bound to a different claim.`;
  const news: News = { type: 'Warning', reason: 'FailedBinding', message };
  return { kind: hasAnnotation(claim, boundByController) ? 'leave' : 'pending', news };
}

function planBound(claim: PersistentVolumeClaim, volume: PersistentVolume | undefined): ClaimStep {
  const lost = (reason: string, message: string): ClaimStep => ({
    kind: 'lost',
    news: { type: 'Warning', reason, message },
  });
  if ((claim.spec.volumeName ?? '') === '') {
    return lost('ClaimLost', 'Bound claim has lost reference to PersistentVolume. Data on the volume is lost!');
  }
  if (volume === undefined) {
    return lost('ClaimLost', 'Bound claim has lost its PersistentVolume. Data on the volume is lost!');
  }
  const { claimRef } = volume.spec;
  if (claimRef === undefined || claimRef.uid === claim.metadata.uid) return { kind: 'bind', volume };
  return lost('ClaimMisbound', 'Two claims are bound to the same volume, this one is bound incorrectly');
}

export type VolumeStep =
  | { readonly kind: 'phase'; readonly phase: 'Available' | 'Bound' }
  /** The claim is looked at, and binds. */
  | { readonly kind: 'wakeClaim' }
  | { readonly kind: 'mismatch'; readonly onVolume: News; readonly onClaim: News }
  | { readonly kind: 'release'; readonly reclaim: Reclaim }
  | { readonly kind: 'unbind' };

/** What follows when the claim of a volume is gone. */
type Reclaim =
  /** The volume stays as it is: an administrator, or its provisioner, does the rest. */
  { readonly kind: 'keep' } | { readonly kind: 'fail'; readonly news: News };

/** `claim` is the one that the volume's claimRef names, with that UID; undefined where there is none. */
export function planVolume(volume: PersistentVolume, claim: PersistentVolumeClaim | undefined): VolumeStep {
  const { claimRef } = volume.spec;
  if (claimRef === undefined || (claimRef.uid ?? '') === '') return { kind: 'phase', phase: 'Available' };
  if (claim === undefined) return { kind: 'release', reclaim: planReclaim(volume) };
  const { volumeName = '' } = claim.spec;
  if (volumeName === '') return haveSameMode(volume, claim) ? { kind: 'wakeClaim' } : mismatch(volume, claim);
  if (volumeName === volume.metadata.name) return { kind: 'phase', phase: 'Bound' };
  // Its claim has another one. Either two were provisioned for it and this one lost, or it was reserved in vain.
  const isSurplus = hasAnnotation(volume, provisionedBy) && volume.spec.persistentVolumeReclaimPolicy === 'Delete';
  return isSurplus ? { kind: 'release', reclaim: planReclaim(volume) } : { kind: 'unbind' };
}

function mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim): VolumeStep {
  const news = (what: string): News => ({
    type: 'Warning',
    reason: 'VolumeMismatch',
    message: `Cannot bind ${what} due to incompatible volumeMode.`,
  });
  return {
    kind: 'mismatch',
    onVolume: news(`PersistentVolume to requested PersistentVolumeClaim ${goQuote(claim.metadata.name)}`),
    onClaim: news(`PersistentVolume ${goQuote(volume.metadata.name)} to requested PersistentVolumeClaim`),
  };
}

function planReclaim(volume: PersistentVolume): Reclaim {
  const { metadata, spec } = volume;
  const failed = (reason: string, message: string): Reclaim => ({
    kind: 'fail',
    news: { type: 'Warning', reason, message },
  });
  if ((metadata.annotations?.[migratedTo] ?? '') !== '') return { kind: 'keep' };
  switch (spec.persistentVolumeReclaimPolicy) {
    case 'Retain':
      return { kind: 'keep' };
    case 'Recycle':
      // Deprecated for years: a pod that deletes everything below a path is not worth having.
      return failed('VolumeFailedRecycle', 'No recycler plugin found for the volume!');
    case 'Delete': {
      const provisioner = metadata.annotations?.[provisionedBy] ?? '';
      const isExternal = provisioner === '' ? spec.csi !== undefined : !provisioner.startsWith('kubernetes.io/');
      if (isExternal) return { kind: 'keep' };
      if (provisioner !== '') return failed('VolumeFailedDelete', `no volume plugin matched name: ${provisioner}`);
      const message = `error getting deleter volume plugin for volume ${goQuote(metadata.name)}: no deletable volume plugin matched`;
      return failed('VolumeFailedDelete', message);
    }
    default:
      return failed('VolumeUnknownReclaimPolicy', 'Volume has unrecognized PersistentVolumeReclaimPolicy');
  }
}

/** Finalizers of the controller's own provisioners, and of external ones. */
const inTreeFinalizer = 'kubernetes.io/pv-controller';
const externalFinalizer = 'external-provisioner.volume.kubernetes.io/finalizer';

/** The claim with the driver that serves its old provisioner; the same object where that is right. */
export function migratedClaim(claim: PersistentVolumeClaim): PersistentVolumeClaim {
  const [beta, current] = provisionerAnnotations.map((name) => claim.metadata.annotations?.[name]);
  return withDriver(claim, current ?? beta);
}

/**
 * The same for a volume, without finalizers that would keep it for ever: a driver took over from the controller, or the policy no
 * longer says that the data goes first. The controller's own is not added, because nothing here would ever remove it.
 */
export function migratedVolume(volume: PersistentVolume): PersistentVolume {
  const provisioner = volume.metadata.annotations?.[provisionedBy];
  if (provisioner === undefined) return volume;
  const isMigrated = migratedDrivers.has(provisioner);
  const isInTree = !isMigrated && provisioner.startsWith('kubernetes.io/');
  const isKept = volume.spec.persistentVolumeReclaimPolicy !== 'Delete';
  const obsolete = new Set([
    ...(isMigrated || (isInTree && isKept) ? [inTreeFinalizer] : []),
    ...(isInTree ? [externalFinalizer] : []),
  ]);
  const { finalizers = [] } = volume.metadata;
  const left = finalizers.filter((one) => !obsolete.has(one));
  const freed =
    left.length === finalizers.length ? volume : { ...volume, metadata: { ...volume.metadata, finalizers: left } };
  return withDriver(freed, provisioner);
}

function withDriver<T extends KubeObject>(object: T, provisioner: string | undefined): T {
  if (provisioner === undefined) return object;
  const driver = migratedDrivers.get(provisioner);
  return driver === undefined ? withoutAnnotation(object, migratedTo) : annotated(object, [migratedTo], driver);
}

/** The volume as the claim's own. That a controller chose it is noted unless it pointed at the claim before. */
export function claimed(volume: PersistentVolume, claim: PersistentVolumeClaim): PersistentVolume {
  const { namespace = '', name, uid = '', resourceVersion = '' } = claim.metadata;
  const before = volume.spec.claimRef;
  const isComplete = before?.uid === uid && before.kind === claimKind.kind && before.apiVersion === claimVersion;
  if (isComplete && isReservedFor(volume, claim)) return volume;
  const claimRef = { kind: claimKind.kind, namespace, name, uid, apiVersion: claimVersion, resourceVersion };
  const own = isReservedFor(volume, claim) ? volume : annotated(volume, [boundByController], 'yes');
  return { ...own, spec: { ...own.spec, claimRef } };
}
