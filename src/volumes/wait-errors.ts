/** Why a pod's volumes are not there, or not gone, in the kubelet's words. */
import { MountletError, messageOf } from '../base/errors.ts';

/** The wait itself was ended, by its own time limit or by whoever waited: the reason is in the events of the operations. */
export class WaitInterruptedError extends MountletError {
  readonly reason = 'WaitInterrupted';
  readonly isDeadline: boolean;
  constructor(isDeadline: boolean, options?: ErrorOptions) {
    super(isDeadline ? 'context deadline exceeded' : 'context canceled', options);
    this.isDeadline = isDeadline;
  }
}

/** Volumes of the pod could not even be resolved; several messages are told as one. */
export class PodVolumesError extends MountletError {
  readonly reason = 'FailedMount';
  constructor(messages: readonly string[]) {
    super(messages.join('; '));
  }
}

export interface VolumeLists {
  /** The pod's own words, sorted. */
  readonly unmounted: readonly string[];
  readonly unattached: readonly string[];
  readonly unprocessed: readonly string[];
}

/** `cause` tells an interrupted wait (nothing to tell the user here) from volumes that cannot be resolved. */
export class VolumesNotMountedError extends MountletError {
  readonly reason: string = 'FailedMount';
  readonly volumes: VolumeLists;
  constructor(volumes: VolumeLists, cause: Error, prefix = '') {
    const { unmounted, unattached, unprocessed } = volumes;
    super(
      `${prefix}unmounted volumes=${goList(unmounted)}, unattached volumes=${goList(unattached)}, ` +
        `failed to process volumes=${goList(unprocessed)}: ${messageOf(cause)}`,
      { cause },
    );
    this.volumes = volumes;
  }
}

/** The pod will never start on this node. */
export class AttachLimitError extends VolumesNotMountedError {
  override readonly reason = 'VolumeAttachmentLimitExceeded';
  constructor(volumes: VolumeLists, cause: Error) {
    super(volumes, cause, 'Node has reached its volume attachment limit, rejecting pod. ');
  }
}

export class VolumesStillMountedError extends MountletError {
  readonly reason = 'VolumesStillMounted';
  constructor(volumes: readonly string[], cause: Error) {
    super(`mounted volumes=${goList(volumes)}: ${messageOf(cause)}`, { cause });
  }
}

/** One error for each pod that is stuck. */
export class PodsStillMountedError extends MountletError {
  readonly reason = 'VolumesStillMounted';
  readonly errors: readonly Error[];
  constructor(errors: readonly Error[]) {
    const texts = [...new Set(errors.map(messageOf))];
    super(texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`, { cause: errors[0] });
    this.errors = errors;
  }
}

/** Whether somewhere in it a wait was ended by a time limit. */
export function isDeadlineExceeded(thrown: unknown): boolean {
  if (thrown instanceof WaitInterruptedError) return thrown.isDeadline;
  if (thrown instanceof PodsStillMountedError) return thrown.errors.some(isDeadlineExceeded);
  return thrown instanceof Error && isDeadlineExceeded(thrown.cause);
}

export function isInterrupted(thrown: unknown): boolean {
  if (thrown instanceof WaitInterruptedError) return true;
  return thrown instanceof Error && isInterrupted(thrown.cause);
}

function goList(names: readonly string[]): string {
  return `[${names.join(' ')}]`;
}
