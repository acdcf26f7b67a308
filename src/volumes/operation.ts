/**
 * The contract of an operation: one for each kind of action, each in a file of its own, all in one table. The table may
 * lack kinds that a node cannot do; asking for one then fails in words.
 */
import { AssertionError } from 'node:assert';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Timers } from '../base/timers.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { showDuration } from '../kube/values/times.ts';
import type { ActualState, ActualVolume } from './actual-state.ts';
import type { DesiredMount, DesiredState } from './desired-state.ts';
import type { NotifyVolumes } from './notices.ts';
import type { OperationAction, UnmountAction } from './plan.ts';
import type { ClaimSource } from './populator.ts';
import type { Plugins } from './volume-name.ts';

/** What an operation is about. An empty part stands for all: `{ volume, podUid: '', node: '' }` is the whole volume. */
export interface OperationKey {
  readonly volume: string;
  readonly podUid: string;
  readonly node: string;
}

export interface OperationKind<Action> {
  /** `volume_mount`: the kubelet's name, in metrics and in the rules about delays. */
  readonly name: string;
  key(action: Action): OperationKey;
  run(action: Action, signal: AbortSignal): Promise<void>;
  /** The Event that a failure is, and whom it is told to; undefined where only the log hears of it. */
  readonly failureEvent?: { readonly reason: string; podsOf(action: Action): readonly Pod[] };
}

/** `map` is there for the actions that mount raw block devices, though mounts and maps are planned as one kind of action. */
export type OperationTable = {
  readonly [Kind in OperationAction['kind']]?: OperationKind<ActionOf<Kind>>;
};

type ActionOf<Kind extends OperationAction['kind']> = OperationAction extends infer Action
  ? Action extends { readonly kind: infer Kinds }
    ? Kind extends Kinds
      ? Action
      : never
    : never
  : never;

export interface SubPathCleaner {
  /** Unmounts and removes everything below `volume-subpaths/<volumeName>` of the pod; nothing there is a success. */
  clean(podUid: string, volumeName: string, signal: AbortSignal): Promise<void>;
}

export interface DeviceProbe {
  /** False for a path that is missing or is no device. */
  isDevice(path: string, signal: AbortSignal): Promise<boolean>;
  isOpen(path: string, signal: AbortSignal): Promise<boolean>;
}

/** Grows the file system within a mount, where the claim is smaller than its volume (see the kubelet's offline expansion). */
export interface MountExpander {
  /** Rejects when the volume must not be used as it is; "not yet" is a success. */
  expandOnMount(request: MountExpansion, signal: AbortSignal): Promise<void>;
}

export interface MountExpansion {
  readonly mount: DesiredMount;
  /** The pod's directory of the volume; a raw device has none. */
  readonly directory?: string | undefined;
  readonly devicePath: string;
  /** Where the device is mounted on the node, or empty. */
  readonly deviceMountPath?: string | undefined;
}

export interface OperationDeps {
  /** The node's root directory. */
  readonly root: string;
  readonly plugins: Plugins;
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly node: NodeReader;
  readonly claims: ClaimSource;
  readonly subPaths: SubPathCleaner;
  readonly devices: DeviceProbe;
  readonly expander?: MountExpander | undefined;
  readonly timers: Timers;
  readonly now: () => number;
  readonly notify: NotifyVolumes;
}

/**
 * How a failed operation is told. The short form is what users see in an Event, the long one is for logs:
 *
 * ```text
 *   MountVolume.SetUp failed for volume "cfg" : configmap "foo" not found
 *   MountVolume.SetUp failed for volume "cfg" (UniqueName: "…") pod "web-0" (UID: "…") : configmap "foo" not found
 * ```
 */
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

/** The node as the cluster sees it: the narrowest that this room asks for. */
export interface NodeReader {
  readonly name: string;
  /** As it was last heard of; undefined before that. */
  current(): Node | undefined;
  /** Asked of the API server now; a node without one answers with what it knows. */
  read(signal: AbortSignal): Promise<Node>;
}

/** Whether this can only come from a mistake in the program. */
export function isPanic(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError, AssertionError].some((bug) => thrown instanceof bug);
}

/** The operation did not end in time and was told to stop. */
export class OperationTimeoutError extends MountletError {
  readonly reason = 'OperationTimeout';
  constructor(name: string, timeoutMs: number) {
    super(`operation ${name} did not finish within ${showDuration(timeoutMs)}: context deadline exceeded`);
  }
}
