/**
 * What a request to delete does to an object: most vanish at once, some are only marked and vanish when their grace period is
 * over or their last finalizer is gone.
 *
 *   live ──delete──▶ marked ──last finalizer removed, or deleted again without grace──▶ gone
 *     └─────────────────delete, nothing holds it──────────────────────────────────────▶ gone
 */
import type { DeleteOptions, ObjectMeta } from '../../kube/schema/meta.ts';
import { timestamp } from '../../kube/values/times.ts';
import type { KubeObject, Resource } from '../model/resource.ts';

type DeletionPlan =
  | { readonly kind: 'remove'; readonly object: KubeObject }
  | { readonly kind: 'mark'; readonly object: KubeObject }
  /** Its end is on the way already, and sooner than this request asks for. */
  | { readonly kind: 'leave' };

export function planDeletion(
  resource: Resource,
  object: KubeObject,
  options: DeleteOptions,
  now: number,
): DeletionPlan {
  const grace = planGrace(resource, object, options.gracePeriodSeconds, now);
  if (grace === 'pending') return { kind: 'leave' };
  const finalizers = finalizersFor(object.metadata.finalizers ?? [], options, resource.deletion?.dependents);
  const { finalizers: _old, ...rest } = grace.metadata;
  const metadata = finalizers.length === 0 ? rest : { ...rest, finalizers };
  const graced = { ...object, metadata };
  if (grace.waits) return { kind: 'mark', object: graced };
  if (finalizers.length === 0 && !isHeld(resource, object)) return { kind: 'remove', object: graced };
  return { kind: 'mark', object: markEnding(resource, graced, now) };
}

/** A marked object that nothing keeps any more. */
export function isEnded(resource: Resource, object: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = object.metadata;
  return (
    deletionTimestamp !== undefined &&
    deletionGracePeriodSeconds === 0 &&
    finalizers.length === 0 &&
    !isHeld(resource, object)
  );
}

function isHeld(resource: Resource, object: KubeObject): boolean {
  return resource.deletion?.isHeld?.(object) ?? false;
}

interface Grace {
  readonly metadata: ObjectMeta;
  /** Another client (the node) deletes the object when its time is over. */
  readonly waits: boolean;
}

function planGrace(
  resource: Resource,
  object: KubeObject,
  requested: number | undefined,
  now: number,
): Grace | 'pending' {
  const { metadata } = object;
  if (resource.deletion?.graceSeconds === undefined) return { metadata, waits: false };
  if (metadata.deletionTimestamp !== undefined) return shortenGrace(metadata, requested, now);
  const seconds = resource.deletion.graceSeconds(object, requested);
  return {
    metadata: {
      ...raised(metadata),
      deletionTimestamp: timestamp(now + seconds * 1000),
      deletionGracePeriodSeconds: seconds,
    },
    waits: seconds > 0,
  };
}

/** A second request can only bring the end nearer. */
function shortenGrace(metadata: ObjectMeta, requested: number | undefined, now: number): Grace | 'pending' {
  const { deletionTimestamp = '', deletionGracePeriodSeconds: recorded = 0 } = metadata;
  if (recorded === 0) return { metadata, waits: false };
  if (requested === undefined) return 'pending';
  let seconds = requested < 0 ? 1 : requested;
  if (seconds >= recorded) return 'pending';
  let end = Date.parse(deletionTimestamp) + (seconds - recorded) * 1000;
  if (end < now) {
    end = now;
    if (seconds > 0) seconds = 1;
  }
  return {
    metadata: { ...metadata, deletionTimestamp: timestamp(end), deletionGracePeriodSeconds: seconds },
    waits: seconds > 0,
  };
}

function finalizersFor(
  existing: readonly string[],
  { propagationPolicy, orphanDependents }: DeleteOptions,
  byDefault: 'Orphan' | undefined,
): string[] {
  const asked = propagationPolicy ?? (orphanDependents === true ? 'Orphan' : undefined);
  // Without a word from the request, what the object says of itself holds, and then what its kind does.
  const isSilent = asked === undefined && orphanDependents === undefined;
  const isSettled = existing.some((name) => name === 'orphan' || name === 'foregroundDeletion');
  if (isSilent && (isSettled || byDefault === undefined)) return [...existing];
  const policy = isSilent ? byDefault : asked;
  const others = existing.filter((name) => name !== 'orphan' && name !== 'foregroundDeletion');
  if (policy === 'Orphan') return [...others, 'orphan'];
  if (policy === 'Foreground') return [...others, 'foregroundDeletion'];
  return others;
}

function markEnding(resource: Resource, object: KubeObject, now: number): KubeObject {
  const { metadata } = object;
  const isFirst = metadata.deletionTimestamp === undefined;
  const isLater = !isFirst && Date.parse(metadata.deletionTimestamp ?? '') > now;
  const marked = {
    ...object,
    metadata: {
      ...(isFirst ? raised(metadata) : metadata),
      deletionTimestamp: isFirst || isLater ? timestamp(now) : metadata.deletionTimestamp,
      ...(resource.deletion?.isHeld === undefined && { deletionGracePeriodSeconds: 0 }),
    },
  };
  return resource.deletion?.begin?.(marked) ?? marked;
}

/** Clients that act on the object act differently from now on. */
function raised(metadata: ObjectMeta): ObjectMeta {
  const { generation = 0 } = metadata;
  return generation > 0 ? { ...metadata, generation: generation + 1 } : metadata;
}
