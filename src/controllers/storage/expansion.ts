/**
 * How a claim grows, as the control plane decides it: which size is worked on, and what is written. Pure, and without a word about
 * who makes the storage larger: a loop for one kind of volume calls its driver between `begun` and `enlarged`.
 *
 * ```text
 *   (none) ──begun──▶ ControllerResizeInProgress ──enlarged, handedToNode──▶ NodeResizePending ─▶ the node (volumes/expand.ts)
 *     ▲                    ▲ another size                                        ▲ the same size       │
 *     │                    └──────────────────── NodeResizeInfeasible ───────────┘ ◀── infeasible ─────┤
 *     └── settled: the volume loses its mark ◀── status.capacity is the new size ◀───── finished ──────┘
 * ```
 *
 * Where the node has nothing to do, `completed` leads from the first status to none. A driver that refuses leads to
 * `ControllerResizeInfeasible`, which is left as the first status is.
 *
 * One size is in flight at a time: it stays in `status.allocatedResources` until the node has grown the volume to it or has refused.
 */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { preResizeCapacity, resizeConditions, resizeStatusOf, storageOf } from '../../kube/references/claim-resize.ts';
import { annotated, hasAnnotation, withoutAnnotation } from '../../kube/references/claims.ts';
import type { Quantity } from '../../kube/values/quantity.ts';
import { timestamp } from '../../kube/values/times.ts';

export type ExpansionStep =
  | { readonly kind: 'none' }
  /** The node has grown the volume. */
  | { readonly kind: 'settle' }
  /** `isRetry`: this very size was refused before, so there is no hurry. */
  | { readonly kind: 'grow'; readonly size: Quantity; readonly isRetry: boolean };

export interface Expander {
  /** False where the node does everything: what it refused has then changed nothing, and a smaller size can be taken. */
  readonly growsStorage: boolean;
  /** Its last call for this claim failed, and nothing goes on any more. */
  readonly hasFailed: boolean;
}

/** The claim has grown without its nodes. */
const nodeExpansionNotRequired = 'volume.kubernetes.io/node-expansion-not-required';

const none: ExpansionStep = { kind: 'none' };

export function decideExpansion(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  expander: Expander,
): ExpansionStep {
  if (claim.status?.phase !== 'Bound' || !isBoundTo(volume, claim)) return none;
  const usable = storageOf(claim.status.capacity);
  if (hasAnnotation(volume, preResizeCapacity) && usable.compare(storageOf(volume.spec.capacity)) >= 0) {
    return { kind: 'settle' };
  }
  if (!isTooSmall(claim)) return none;
  const size = sizeFor(claim, volume, expander);
  if (size === undefined) return none;
  const isRetry = resizeStatusOf(claim).endsWith('Infeasible') && size.equals(allocatedTo(claim) ?? usable);
  return { kind: 'grow', size, isRetry };
}

/** The claim asks for more than it has. */
export function isTooSmall({ spec, status }: PersistentVolumeClaim): boolean {
  return storageOf(spec.resources?.requests).compare(storageOf(status?.capacity)) > 0;
}

/** Undefined while the node works on the size that was chosen before. */
function sizeFor(
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  { growsStorage, hasFailed }: Expander,
): Quantity | undefined {
  const wanted = storageOf(claim.spec.resources?.requests);
  const present = storageOf(volume.spec.capacity);
  const allocated = allocatedTo(claim) ?? wanted;
  const isLargeEnough = present.compare(wanted) >= 0;
  switch (resizeStatusOf(claim)) {
    case 'NodeResizePending':
    case 'NodeResizeInProgress':
      return isLargeEnough || present.compare(allocated) >= 0 ? undefined : allocated;
    case 'NodeResizeInfeasible':
      // Storage that has grown already never shrinks again: the node has to try once more.
      return isLargeEnough && !growsStorage ? wanted : allocated;
    case 'ControllerResizeInProgress':
      return !isLargeEnough && hasFailed ? wanted : allocated;
    default:
      return isLargeEnough ? allocated : wanted;
  }
}

function allocatedTo({ status }: PersistentVolumeClaim): Quantity | undefined {
  const size = storageOf(status?.allocatedResources);
  return size.isZero() ? undefined : size;
}

function isBoundTo({ metadata, spec: { claimRef } }: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  const { namespace, uid } = claim.metadata;
  return claim.spec.volumeName === metadata.name && claimRef?.namespace === namespace && claimRef?.uid === uid;
}

/** First: the size is on record before anything is made larger. What is said of an earlier size goes. */
export function begun(
  claim: PersistentVolumeClaim,
  size: Quantity,
  resizer: string,
  now: number,
): PersistentVolumeClaim {
  const status = 'ControllerResizeInProgress';
  if (resizeStatusOf(claim) === status && allocatedTo(claim)?.equals(size) === true) return claim;
  const marked = withoutAnnotation(
    annotated(claim, ['volume.kubernetes.io/storage-resizer'], resizer),
    nodeExpansionNotRequired,
  );
  const others = (claim.status?.conditions ?? []).filter(({ type }) => !resizeConditions.has(type));
  return {
    ...marked,
    status: {
      ...claim.status,
      allocatedResources: { ...claim.status?.allocatedResources, storage: size.toString() },
      allocatedResourceStatuses: { ...claim.status?.allocatedResourceStatuses, storage: status },
      conditions: [...others, { type: 'Resizing', status: 'True', lastTransitionTime: timestamp(now) }],
    },
  };
}

/** Second: the volume has the new size, and says which one a claim can use until the node is done, unless all is. */
export function enlarged(
  volume: PersistentVolume,
  claim: PersistentVolumeClaim,
  size: Quantity,
  isComplete = false,
): PersistentVolume {
  if (!isBoundTo(volume, claim)) return volume;
  const before = storageOf(claim.status?.capacity).toString();
  const isMarked = isComplete || hasAnnotation(volume, preResizeCapacity);
  const marked = isMarked ? volume : annotated(volume, [preResizeCapacity], before);
  if (marked === volume && storageOf(volume.spec.capacity).equals(size)) return volume;
  return { ...marked, spec: { ...volume.spec, capacity: { ...volume.spec.capacity, storage: size.toString() } } };
}

/** Third: the node may begin. */
export function handedToNode(
  claim: PersistentVolumeClaim,
  size: Quantity,
  now: number,
  grown: Quantity = size,
): PersistentVolumeClaim {
  if (!isUnderWay(claim, size)) return claim;
  const { conditions = [], allocatedResourceStatuses } = claim.status ?? {};
  const type = 'FileSystemResizePending';
  const message = 'Waiting for user to (re-)start a pod to finish file system resize of volume on node.';
  // One that holds already keeps its time.
  const isSaid = conditions.some((condition) => condition.type === type && condition.status === 'True');
  const others = conditions.filter((condition) => condition.type !== type);
  const pending = { type, status: 'True', lastTransitionTime: timestamp(now), message };
  return {
    ...claim,
    status: {
      ...claim.status,
      // What the storage has become is what the node is to use.
      allocatedResources: { ...claim.status?.allocatedResources, storage: grown.toString() },
      allocatedResourceStatuses: { ...allocatedResourceStatuses, storage: 'NodeResizePending' },
      conditions: isSaid ? conditions : [...others, pending],
    },
  };
}

/** The control plane's half of this size is not on record as done. */
export function isUnderWay(claim: PersistentVolumeClaim, size: Quantity): boolean {
  const from = ['ControllerResizeInProgress', 'ControllerResizeInfeasible', 'NodeResizeInfeasible'];
  return from.includes(resizeStatusOf(claim)) && allocatedTo(claim)?.equals(size) === true;
}

/** Instead of the third where the node has nothing to do. */
export function completed(claim: PersistentVolumeClaim, size: Quantity, grown: Quantity): PersistentVolumeClaim {
  if (!isUnderWay(claim, size)) return claim;
  const { allocatedResourceStatuses: statuses, conditions = [], ...status } = claim.status ?? {};
  const { storage: _, ...others } = statuses ?? {};
  return {
    ...annotated(claim, [nodeExpansionNotRequired], 'true'),
    status: {
      ...status,
      capacity: { ...status.capacity, storage: grown.toString() },
      ...(Object.keys(others).length > 0 && { allocatedResourceStatuses: others }),
      conditions: conditions.filter(({ type }) => !resizeConditions.has(type)),
    },
  };
}

/** Instead of the second where it was refused; `isInfeasible`: however often this size is asked for. */
export function refused(
  claim: PersistentVolumeClaim,
  why: string,
  isInfeasible: boolean,
  now: number,
): PersistentVolumeClaim {
  const type = 'ControllerResizeError';
  const { conditions = [], allocatedResourceStatuses } = claim.status ?? {};
  // One that holds already keeps its time and its text.
  const isSaid = conditions.some((condition) => condition.type === type && condition.status === 'True');
  const status = 'ControllerResizeInfeasible';
  const isMarked = !isInfeasible || resizeStatusOf(claim) === status;
  if (isSaid && isMarked) return claim;
  const message = `failed to expand pvc with ${why}`;
  const others = conditions.filter((condition) => condition.type !== type);
  const error = { type, status: 'True', lastTransitionTime: timestamp(now), message };
  return {
    ...claim,
    status: {
      ...claim.status,
      ...(isInfeasible && { allocatedResourceStatuses: { ...allocatedResourceStatuses, storage: status } }),
      conditions: isSaid ? conditions : [...others, error],
    },
  };
}

/** Last, when the node is done: the volume has the size that it says. */
export function settled(volume: PersistentVolume): PersistentVolume {
  if (!hasAnnotation(volume, preResizeCapacity)) return volume;
  const { [preResizeCapacity]: _, ...annotations } = volume.metadata.annotations ?? {};
  return { ...volume, metadata: { ...volume.metadata, annotations } };
}
