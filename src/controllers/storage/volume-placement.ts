/**
 * The scheduler's part of storage: whether the claims of a pod can be had on a node, and what has to be written so that they are.
 * Pure, and made from what is: a pod that waits for its volumes is simply looked at again when one of them changes.
 */
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import {
  bindCompleted,
  classOf,
  hasAnnotation,
  isOver,
  requestedBytes,
  selectedNode,
} from '../../kube/references/claims.ts';
import {
  migratedDrivers,
  migratedKindOf,
  migratedPlugins,
  translatedInline,
  translatedVolume,
} from '../../kube/references/csi-translation.ts';
import { nodeSelectorMatches } from '../../kube/references/node-affinity.ts';
import { claimNameOf, requireOwner } from '../../kube/references/volume-spec.ts';
import { MountletError, messageOf } from '../../base/errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { isDelayed } from './binding.ts';
import { type StorageView, claimId, claimIdsOf } from './storage-view.ts';

export const inUseByAnother =
  'node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod';

export const unboundClaims = 'pod has unbound immediate PersistentVolumeClaims';

export interface PodClaims {
  readonly bound: readonly PersistentVolumeClaim[];
  /** Of classes that wait for the first pod, smallest first: the larger volumes are left for those that need them. */
  readonly unbound: readonly PersistentVolumeClaim[];
}

/** What a node needs before a pod with these claims can be bound to it. Both empty: nothing. */
export interface Placement {
  readonly reserve: readonly { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[];
  readonly provision: readonly PersistentVolumeClaim[];
}

interface Supply {
  /** For the claim of another pod. */
  readonly isReserved: (volume: PersistentVolume) => boolean;
  /** The provisioner of the claim's class can still make such a volume for the node. */
  readonly hasCapacity: (claim: PersistentVolumeClaim) => boolean;
}

/** The claims of a pod, or why it cannot run on any node. A claim that is missing or ending comes before one that is not bound. */
export function claimsOf(pod: Pod, view: StorageView): PodClaims | string {
  let isWaiting = false;
  const bound: PersistentVolumeClaim[] = [];
  const unbound: PersistentVolumeClaim[] = [];
  for (const volume of pod.spec.volumes ?? []) {
    const name = claimNameOf(pod, volume);
    if (name === undefined) continue;
    const claim = view.claims.get(claimId(pod.metadata.namespace, name));
    const quoted = goQuote(name);
    if (claim === undefined) {
      return volume.ephemeral === undefined
        ? `persistentvolumeclaim ${quoted} not found`
        : `waiting for ephemeral volume controller to create the persistentvolumeclaim ${quoted}`;
    }
    if (claim.status?.phase === 'Lost') {
      return `persistentvolumeclaim ${quoted} bound to non-existent persistentvolume ${goQuote(claim.spec.volumeName ?? '')}`;
    }
    if (claim.metadata.deletionTimestamp !== undefined) return `persistentvolumeclaim ${quoted} is being deleted`;
    if (volume.ephemeral !== undefined) {
      try {
        requireOwner(pod, claim);
      } catch (error) {
        return messageOf(error);
      }
    }
    const hasVolume = (claim.spec.volumeName ?? '') !== '';
    if (hasVolume && hasAnnotation(claim, bindCompleted)) bound.push(claim);
    else if (!hasVolume && isDelayed(claim, view.classes)) unbound.push(claim);
    else isWaiting = true;
  }
  if (isWaiting) return unboundClaims;
  return { bound, unbound: unbound.sort((a, b) => Number(requestedBytes(a) - requestedBytes(b))) };
}

/** Why no second pod may have these claims, on any node; undefined when it may. */
export function conflictOf(pod: Pod, { bound, unbound }: PodClaims, view: StorageView): string | undefined {
  return [...bound, ...unbound].some((claim) => isTakenAlone(pod, claim, view)) ? inUseByAnother : undefined;
}

/** How the claims can be had on this node, or why not. */
export function placeClaims(
  { bound, unbound }: PodClaims,
  node: Node,
  csiNode: CsiNode | undefined,
  view: StorageView,
  { isReserved, hasCapacity }: Supply,
): Placement | string {
  for (const { spec } of bound) {
    const volume = view.volumes.get(spec.volumeName ?? '');
    if (volume === undefined) return 'node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)';
    if (!isReachable(asKnownTo(csiNode, volume), node)) return "node(s) didn't match PersistentVolume's node affinity";
  }
  const missing = "node(s) didn't find available persistent volumes to bind";
  const reserve: { readonly claim: PersistentVolumeClaim; readonly volume: PersistentVolume }[] = [];
  const provision: PersistentVolumeClaim[] = [];
  for (const claim of unbound) {
    const chosen = claim.metadata.annotations?.[selectedNode] ?? '';
    if (chosen !== '' && chosen !== node.metadata.name) return missing;
    const admits = (volume: PersistentVolume): boolean =>
      isReachable(volume, node) && !reserve.some((one) => one.volume === volume) && !isReserved(volume);
    const volume = chosen === '' ? view.volumes.find(claim, { admits }) : undefined;
    if (volume !== undefined && !admits(volume)) return missing;
    if (volume !== undefined) reserve.push({ claim, volume });
    else if (!canProvision(view.classes.get(classOf(claim)), node)) return missing;
    // A provisioner that was asked already has perhaps made it, and has that much less for others.
    else if (chosen === '' && !hasCapacity(claim)) return 'node(s) did not have enough free storage';
    else provision.push(claim);
  }
  return { reserve, provision };
}

/** The CSI volumes of pods, each once, with its driver. A claim without a volume counts as one of its class's provisioner. */
export function csiVolumesOf(pods: readonly Pod[], view: StorageView): Map<string, string> {
  const found = new Map<string, string>();
  for (const pod of pods) {
    for (const id of claimIdsOf(pod)) {
      const claim = view.claims.get(id);
      if (claim === undefined) continue;
      const volume = view.volumes.get(claim.spec.volumeName ?? '');
      const csi = volume && translated(() => translatedVolume(volume))?.spec.csi;
      const provisioner = volume === undefined ? view.classes.get(classOf(claim))?.provisioner : undefined;
      const driver = migratedDrivers.get(provisioner ?? '') ?? provisioner;
      if (csi !== undefined) found.set(csiVolumeId(csi.driver, csi.volumeHandle), csi.driver);
      else if (driver !== undefined) found.set(csiVolumeId(driver, `claim ${id}`), driver);
    }
    for (const volume of pod.spec.volumes ?? []) {
      const csi = translated(() => translatedInline(volume, pod.metadata.namespace ?? ''))?.spec.csi;
      if (csi !== undefined) found.set(csiVolumeId(csi.driver, csi.volumeHandle), csi.driver);
    }
  }
  return found;
}

/** Undefined also where it cannot be translated: its node will say why. */
function translated(translate: () => PersistentVolume | undefined): PersistentVolume | undefined {
  try {
    return translate();
  } catch (error) {
    if (error instanceof MountletError) return undefined;
    throw error;
  }
}

/** Nodes that hand a kind of volume to its CSI driver have the driver's labels, which say where it can be reached. */
function asKnownTo(csiNode: CsiNode | undefined, volume: PersistentVolume): PersistentVolume {
  const kind = migratedKindOf(volume.spec);
  const migrated = csiNode?.metadata.annotations?.[migratedPlugins]?.split(',') ?? [];
  return kind !== undefined && migrated.includes(kind.plugin)
    ? (translated(() => translatedVolume(volume)) ?? volume)
    : volume;
}

export function csiVolumeId(driver: string, handle: string): string {
  return `${driver}/${handle}`;
}

export function isForOnePod({ spec }: PersistentVolumeClaim): boolean {
  return spec.accessModes?.includes('ReadWriteOncePod') === true;
}

/** A pod that is being deleted holds its claim until it is gone. */
function isTakenAlone(pod: Pod, claim: PersistentVolumeClaim, view: StorageView): boolean {
  if (!isForOnePod(claim)) return false;
  return view
    .podsUsing(claimId(claim.metadata.namespace, claim.metadata.name))
    .some((other) => other.metadata.uid !== pod.metadata.uid && (other.spec.nodeName ?? '') !== '' && !isOver(other));
}

export function isReachable({ spec }: PersistentVolume, { metadata }: Node): boolean {
  const selector = spec.nodeAffinity?.required;
  return (
    selector === undefined || nodeSelectorMatches(selector, { name: metadata.name, labels: metadata.labels ?? {} })
  );
}

function canProvision(storageClass: StorageClass | undefined, { metadata: { labels = {} } }: Node): boolean {
  const { provisioner = '', allowedTopologies = [] } = storageClass ?? {};
  if (provisioner === '' || provisioner === 'kubernetes.io/no-provisioner') return false;
  return (
    allowedTopologies.length === 0 ||
    allowedTopologies.some(({ matchLabelExpressions = [] }) =>
      matchLabelExpressions.every(({ key, values }) => values.includes(labels[key] ?? '')),
    )
  );
}
