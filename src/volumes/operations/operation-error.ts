/**
 * How a failed operation is told. The short form is what users see in an Event, the long one is for logs:
 *
 * ```text
 *   MountVolume.SetUp failed for volume "cfg" : configmap "foo" not found
 *   MountVolume.SetUp failed for volume "cfg" (UniqueName: "…") pod "web-0" (UID: "…") : configmap "foo" not found
 * ```
 */
import { MountletError, messageOf } from '../../base/errors.ts';
import { specName } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { ActualVolume } from '../actual-state.ts';
import type { DesiredMount } from '../desired-state.ts';
import { isPanic } from '../operation-errors.ts';
import type { UnmountAction } from '../volume-actions.ts';

/** Whom a message is about. Every operation has one and few fail: what takes time is made when it is asked for. */
export interface Subject {
  readonly name: string;
  readonly details: string;
}

export class OperationError extends MountletError {
  readonly reason = 'OperationFailed';
  /** The text of the Event. */
  readonly simple: string;
  /** The Event's reason, where it is another than that of the operation. */
  readonly eventReason: string | undefined;

  /** `prefix` names the step; without a cause the message ends in a space, as the kubelet's does. */
  constructor(prefix: string, subject: Subject, cause?: unknown, eventReason?: string) {
    const suffix = cause === undefined ? '' : `: ${messageOf(cause)}`;
    super(
      `${prefix} for volume ${goQuote(subject.name)} ${subject.details} ${suffix}`,
      cause === undefined ? {} : { cause },
    );
    this.eventReason = eventReason;
    this.simple = `${prefix} for volume ${goQuote(subject.name)} ${suffix}`;
  }
}

export function subjectOfMount({ volume, spec, pod }: DesiredMount): Subject {
  const { name, uid = '' } = pod.metadata;
  return {
    name: specName(spec),
    get details() {
      return `(UniqueName: ${goQuote(volume)}) pod ${goQuote(name)} (UID: ${goQuote(uid)})`;
    },
  };
}

export function subjectOfUnmount({ volume, podUid }: UnmountAction): Subject {
  return {
    name: volume,
    get details() {
      return `(UniqueName: ${goQuote(volume)}) pod ${goQuote(podUid)} (UID: ${goQuote(podUid)})`;
    },
  };
}

export function subjectOfAttach({ volume, spec }: DesiredMount, node: string): Subject {
  return { name: specName(spec), details: `(UniqueName: ${goQuote(volume)}) from node ${goQuote(node)}` };
}

export function subjectOfDevice({ volume, spec }: ActualVolume, node: string): Subject {
  return { name: specName(spec), details: `(UniqueName: ${goQuote(volume)}) on node ${goQuote(node)}` };
}

/** A step that failed. A bug keeps its own stack and is nobody's Event. */
export function failedStep(prefix: string, subject: Subject, cause: unknown, eventReason?: string): Error {
  return isPanic(cause) ? (cause as Error) : new OperationError(prefix, subject, cause, eventReason);
}

/** Runs one step of an operation; whatever goes wrong in it is told with the step's prefix. */
export async function step<T>(
  prefix: string,
  subject: Subject,
  act: () => T | Promise<T>,
  eventReason?: string,
): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    throw failedStep(prefix, subject, cause, eventReason);
  }
}
