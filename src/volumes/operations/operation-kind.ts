/**
 * The contract of an operation: one for each kind of action, each in a file of its own, all in one table. The table may
 * lack kinds that a node cannot do; asking for one then fails in words.
 */
import type { Alarms } from '../../base/alarms.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ActualState } from '../actual-state.ts';
import type { ClaimSource } from '../claim-source.ts';
import type { DesiredMount, DesiredState } from '../desired-state.ts';
import type { NodeReader } from '../node-reader.ts';
import type { OperationKey } from '../operation-errors.ts';
import type { OperationAction } from '../volume-actions.ts';
import type { Plugins } from '../volume-identity.ts';
import type { NotifyVolumes } from '../volume-notices.ts';

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
  readonly alarms: Alarms;
  readonly now: () => number;
  readonly notify: NotifyVolumes;
}
