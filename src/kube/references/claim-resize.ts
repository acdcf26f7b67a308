/**
 * What a node writes into the status of a claim whose volume it grows, as strategic merge patches of the `status`
 * subresource. This file only makes patches. The states of a claim that is grown, as far as a node knows them:
 *
 * ```text
 *   NodeResizePending ──inProgress──▶ NodeResizeInProgress ──finished──▶ none, and the new capacity
 *     (a controller)                    │   └─failed─▶ the same, and the condition NodeResizeError
 *                                       └─infeasible─▶ NodeResizeInfeasible: not tried again
 * ```
 */
import type { PersistentVolumeClaim } from '../kinds/storage/persistent-volume-claim.ts';
import { Quantity } from '../values/quantity.ts';

/** On a volume whose file system is still to grow: the size that it has until then. */
export const preResizeCapacity = 'volume.alpha.kubernetes.io/pre-resize-capacity';

export interface ClaimStatusPatch {
  /** With it the patch is refused when the claim has changed since it was read. */
  readonly metadata?: { readonly resourceVersion: string };
  readonly status: {
    readonly capacity?: Readonly<Record<string, string>>;
    readonly allocatedResourceStatuses?: Readonly<Record<string, string | null>> | null;
    readonly conditions?: readonly ClaimConditionPatch[];
  };
}

/** Merged with the claim's conditions by type. */
interface ClaimConditionPatch {
  readonly type: string;
  readonly $patch?: 'delete';
  readonly status?: string;
  readonly lastTransitionTime?: string;
  readonly message?: string;
}

type Amounts = Readonly<Record<string, string | number>> | undefined;

/** Zero where nothing is said. */
export function storageOf(amounts: Amounts): Quantity {
  const storage = amounts?.['storage'];
  return storage === undefined ? Quantity.zero('BinarySI') : Quantity.parse(storage);
}

/** How far growing the claim has come; empty when unknown. */
export function resizeStatusOf({ status }: PersistentVolumeClaim): string {
  return status?.allocatedResourceStatuses?.['storage'] ?? '';
}

/** The claim is grown by a controller that reports its progress and the size. */
export function hasResizeProgress(claim: PersistentVolumeClaim): boolean {
  return resizeStatusOf(claim) !== '' || claim.status?.allocatedResources !== undefined;
}

export function inProgress(claim: PersistentVolumeClaim): ClaimStatusPatch {
  return { ...asRead(claim), status: { allocatedResourceStatuses: { storage: 'NodeResizeInProgress' } } };
}

export function finished(claim: PersistentVolumeClaim, size: Quantity): ClaimStatusPatch {
  const { allocatedResourceStatuses, conditions = [] } = claim.status ?? {};
  const others = Object.keys(allocatedResourceStatuses ?? {}).filter((name) => name !== 'storage');
  const over = conditions.filter(({ type }) => resizeConditions.has(type));
  return {
    ...asRead(claim),
    status: {
      capacity: { storage: size.toString() },
      ...(allocatedResourceStatuses && { allocatedResourceStatuses: others.length === 0 ? null : { storage: null } }),
      ...(over.length > 0 && { conditions: over.map(({ type }) => ({ type, $patch: 'delete' })) }),
    },
  };
}

/** Also on top of a claim that has changed meanwhile: the user who asked for the size must learn of it. */
export function infeasible(claim: PersistentVolumeClaim, why: string, now: number): ClaimStatusPatch {
  const conditions = nodeResizeError(claim, why, now);
  return {
    status: { allocatedResourceStatuses: { storage: 'NodeResizeInfeasible' }, ...(conditions && { conditions }) },
  };
}

/** Undefined when the claim says so already. */
export function failed(claim: PersistentVolumeClaim, why: string, now: number): ClaimStatusPatch | undefined {
  const conditions = nodeResizeError(claim, why, now);
  return conditions && { status: { conditions } };
}

/** The conditions of a claim that say how far growing it has come; others are left alone. */
export const resizeConditions: ReadonlySet<string> = new Set([
  'FileSystemResizePending',
  'Resizing',
  'ControllerResizeError',
  'NodeResizeError',
]);

/** A condition that holds already stays as it is, with the text of the first failure. */
function nodeResizeError(
  { status }: PersistentVolumeClaim,
  why: string,
  now: number,
): readonly ClaimConditionPatch[] | undefined {
  const type = 'NodeResizeError';
  if (status?.conditions?.some((condition) => condition.type === type && condition.status === 'True')) return undefined;
  const lastTransitionTime = new Date(now).toISOString().replace(/\.\d+Z$/, 'Z');
  return [{ type, status: 'True', lastTransitionTime, message: `failed to expand pvc with ${why}` }];
}

function asRead({ metadata }: PersistentVolumeClaim): Pick<ClaimStatusPatch, 'metadata'> {
  const { resourceVersion } = metadata;
  return resourceVersion === undefined ? {} : { metadata: { resourceVersion } };
}
