/**
 * What an operation is: one for each kind of action, all in one table that has every kind. With it come the words of a failure,
 * which say the step that failed and the volume it failed for.
 */
import { AssertionError } from 'node:assert';
import { MountletError, messageOf } from '../base/errors.ts';
import type { Timers } from '../base/timers.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import type { ActualState, ActualVolume } from './actual-state.ts';
import type { DesiredMount, DesiredState } from './desired-state.ts';
import type { NotifyVolumes } from './notices.ts';
import type { OperationAction, UnmountAction } from './plan.ts';
import type { ClaimSource, PodSource } from './populator.ts';
import type { Plugins, PodUid, VolumeName } from './volume-name.ts';
import { VolumeError } from '../plugins/plugin.ts';

/** What an operation is about: one pod's mount of a volume, or without a pod the whole volume. */
export interface OperationKey {
  readonly volume: VolumeName;
  readonly podUid?: PodUid | undefined;
}

export interface OperationKind<Action> {
  /** `volume_mount`: the kubelet's name, in metrics and in the rules about delays. */
  readonly name: string;
  key(action: Action): OperationKey;
  run(action: Action, signal: AbortSignal): Promise<void>;
  /** The Event of a failure and the pods that get it; a failure without one is only logged. */
  readonly failureEvent?: { readonly reason: string; podsOf(action: Action): readonly Pod[] };
  /** Where it fails again and again: the processes and mounts in its way, as far as that can be found out. */
  readonly holders?: (action: Action) => Promise<readonly string[]>;
}

/** Mounts and maps are planned as one kind of action and carried out by two kinds of operation. */
export type OperationTable = {
  readonly [Kind in OperationAction['kind']]: OperationKind<ActionOf<Kind>>;
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
  /** False for a path that is missing or is not a device. */
  isDevice(path: string, signal: AbortSignal): Promise<boolean>;
  isOpen(path: string, signal: AbortSignal): Promise<boolean>;
}

/** Finds what keeps a directory from being unmounted: `process 4711 (sleep), by its working directory`. A few, never files. */
export type MountHolders = (directory: string) => Promise<readonly string[]>;

/** The node as the cluster sees it. */
export interface NodeReader {
  readonly name: string;
  /** As last received; undefined before the first time. */
  current(): Node | undefined;
  /** Read from the API server now; a node without one returns what it knows. */
  read(signal: AbortSignal): Promise<Node>;
  /** The status has to list other volumes in use: a controller waits for that before it attaches or detaches. */
  volumesInUseChanged?(): void;
}

/** Grows the file system within a mount, where the claim is smaller than its volume (the kubelet's offline expansion). */
export interface MountExpander {
  /** Rejects when the volume must not be used as it is; "not yet" is a success. */
  expandOnMount(request: MountExpansion, signal: AbortSignal): Promise<void>;
}

export interface MountExpansion {
  readonly mount: DesiredMount;
  /** What containers mount of the volume; a raw device has none. */
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
  readonly mountHolders: MountHolders;
  readonly pods: Pick<PodSource, 'pod'>;
  readonly timers: Timers;
  readonly now: () => number;
  readonly notify: NotifyVolumes;
}

/** The volume that a message is about. Every operation has one and few fail, so the details are built on demand. */
interface Subject {
  readonly name: string;
  readonly details: string;
}

/**
 * A failed operation. The short form is what users see in an Event, the long one is for logs:
 *
 * ```text
 *   MountVolume.SetUp failed for volume "cfg" : configmap "foo" not found
 *   MountVolume.SetUp failed for volume "cfg" (UniqueName: "…") pod "web-0" (UID: "…") : configmap "foo" not found
 * ```
 */
export class OperationError extends MountletError {
  readonly reason = 'OperationFailed';
  /** The text of the Event. */
  readonly simple: string;
  /** The Event's reason, where it differs from that of the operation. */
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

interface StepSettings {
  /** Records what the failure leaves behind, before it is reported. */
  readonly failed?: (cause: unknown) => unknown;
  readonly eventReason?: string | undefined;
}

/** Runs one step of an operation; what it throws becomes an OperationError with the step's words before it. */
export type Step = <T>(what: string, act: () => T | Promise<T>, settings?: StepSettings) => Promise<T>;

/** `operation` stands before the words of every step: `MountVolume.` and `SetUp failed`. */
export function stepsOf(subject: Subject, operation = ''): Step {
  return async (what, act, settings = {}) => {
    try {
      return await act();
    } catch (cause) {
      await settings.failed?.(cause);
      // A bug keeps its own stack and has no Event.
      if (isPanic(cause)) throw cause;
      throw new OperationError(`${operation}${what}`, subject, cause, settings.eventReason);
    }
  };
}

interface MountSubject {
  readonly volume: string;
  readonly spec: VolumeSpec;
  readonly pod: Pod;
}

export function subjectOfMount({ volume, spec, pod }: MountSubject): Subject {
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

/** Whether this can only come from a mistake in the program. */
export function isPanic(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return true;
  return [TypeError, RangeError, ReferenceError, SyntaxError, AssertionError].some((bug) => thrown instanceof bug);
}

export function operationTimeout(name: string, limit: string): VolumeError {
  const message = `operation ${name} did not finish within ${limit}: context deadline exceeded`;
  return new VolumeError('OperationTimeout', message);
}
