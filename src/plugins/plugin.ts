/**
 * What a volume kind is to the rest of the node. The volume manager knows plugins through this file alone, so it holds
 * everything the manager asks for and nothing of how a kind does it.
 *
 * A plugin is one function that takes what it needs (an object reader, the disk) and returns one `VolumePlugin`. What
 * only some kinds can do is an optional member: shared code looks for it and never asks for a plugin's name.
 */
import { MountletError } from '../base/errors.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';

export interface VolumePlugin<Source = unknown> {
  /** A qualified name, `kubernetes.io/configmap`; with `/` as `~` it names the directory of its volumes. */
  readonly name: string;
  /** The part of the spec this plugin reads; undefined when the volume is of another kind. */
  sourceOf(spec: VolumeSpec): Source | undefined;
  /** It reads every spec of a field that other kinds read some of: where one of them does, the volume is theirs. */
  readonly isFallback?: boolean;
  /**
   * What the content comes from, for kinds that keep it up to date: `setUp` is repeated when one of these changes, and at every
   * sweep, which repairs what was changed on disk. A kind without it, and a source of which it is undefined, is made once.
   */
  follows?(source: Source): readonly Follow[] | undefined;
  /** Containers mount this entry of the volume's directory: a driver that is not part of this program makes it itself. */
  readonly contentName?: string;
  /** A PersistentVolume with mount options is refused by plugins that would ignore them. */
  readonly supportsMountOptions: boolean;
  attributes(source: Source, spec: VolumeSpec): VolumeAttributes;
  /** Throws when the source itself is unusable on this node; called before anything else, and reported apart from set-up. */
  requireUsable?(source: Source): void;
  /**
   * Only for kinds without a directory below the pod: the path a container mounts instead, or undefined when no path of
   * this host is mounted because the container runtime brings the content.
   */
  hostPathOf?(source: Source): string | undefined;
  /**
   * Makes the volume, or brings it up to date. Repeating it is harmless. When it rejects, whatever was live before is
   * live still and unchanged; only what this very call made first is gone again. Never called twice at once for one
   * directory.
   */
  setUp(request: SetUpRequest<Source>, signal: AbortSignal): Promise<SetUpOutcome>;
  /** Removes every trace of the volume; one that is already gone is a success. */
  tearDown(request: TearDownRequest, signal: AbortSignal): Promise<void>;
  /**
   * A spec that is good enough for `tearDown`, from what a crash leaves: a name and a directory. Undefined when the
   * kind leaves no directory behind. Must not touch the directory itself: a mount that hangs must not stop a start-up.
   */
  reconstruct(volumeName: string, directory: string): VolumeSpec | undefined;
  /**
   * Storage that this node has connected, or mounted for all its pods, as far as that was written down: good enough to unmount
   * the device and detach. After a crash before `setUp` no pod has a directory for it.
   */
  leftBehind?(): readonly VolumeSpec[];
  /** What the volume holds, for kinds that know better than the file system; undefined: the file system is asked. */
  usage?(request: UsageRequest<Source>, signal: AbortSignal): Promise<VolumeUsage | undefined>;
  readonly attach?: Attach<Source>;
  readonly deviceMount?: DeviceMount<Source>;
  readonly block?: BlockMapping<Source>;
  readonly expand?: Expand<Source>;
}

export interface UsageRequest<Source = unknown> {
  readonly source: Source;
  readonly spec: VolumeSpec;
  /** What containers mount; of a raw device, what stands for it in the pod. */
  readonly path: string;
}

/** A figure that is not known is left out. */
export interface VolumeUsage {
  readonly capacityBytes?: number;
  readonly availableBytes?: number;
  readonly usedBytes?: number;
  readonly inodes?: number;
  readonly inodesFree?: number;
  readonly inodesUsed?: number;
}

/** A reason to repeat `setUp`. */
export type Follow =
  | { readonly object: FollowedObject }
  /** Of the pod itself; `resources` are those of its containers. */
  | { readonly pod: 'labels' | 'annotations' | 'resources' }
  /** A credential of the pod that expires and is replaced before it does. */
  | { readonly token: true };

export interface FollowedObject {
  readonly kind: string;
  /** Left out where labels select the objects: then a change of any object of the kind counts. */
  readonly name?: string | undefined;
  /** The kind has no namespaces. Any other object is in the namespace of the pod. */
  readonly isClusterWide?: boolean;
}

export interface VolumeAttributes {
  /** Every container mounts it read-only, whatever its own mount says. */
  readonly readOnly: boolean;
  /** The node alone writes the content and replaces it as a whole: what containers see of it can be exchanged. */
  readonly replaced?: boolean;
}

export type GroupChangePolicy = 'Always' | 'OnRootMismatch';

export interface SetUpRequest<Source = unknown> {
  readonly pod: Pod;
  readonly spec: VolumeSpec;
  readonly source: Source;
  /** The spec's name: the pod's word for an inline volume, the PersistentVolume's name for a claim. */
  readonly volumeName: string;
  /** `volumeDirectory(root, pod uid, plugin name, volumeName)`. */
  readonly directory: string;
  readonly fsGroup?: number | undefined;
  readonly fsGroupChangePolicy?: GroupChangePolicy | undefined;
  /** `commonRunAsUser(pod)`: tokens and certificates belong to it. */
  readonly fsUser?: number | undefined;
  /** Containers of the pod may have this volume mounted right now. */
  readonly isRemount: boolean;
  /** Found on disk after a restart, not made by this process: what is there may be in use. */
  readonly isReconstructed: boolean;
}

export interface SetUpOutcome {
  /** False when everything was as it should be and nothing on disk was touched. */
  readonly changed: boolean;
  /** Files that were projected; 0 for kinds that bring no content. */
  readonly files: number;
  /** First names of projected files that are hidden, since a mount point or a container's directory has that name. */
  readonly hidden: readonly string[];
  /** Someone had unmounted or deleted the directory of a live volume: containers that mount it go on seeing what they had. */
  readonly remade?: boolean;
}

/** All of it can be recovered from disk, because after a restart nothing else is known. */
export interface TearDownRequest {
  readonly podUid: string;
  readonly volumeName: string;
  readonly directory: string;
}

/** Storage that is mounted once on the node, for all pods that use it, before each pod gets its own mount of that. */
export interface DeviceMount<Source = unknown> {
  /** Absent: to all of the kind. What it does not apply to is each pod's own. */
  appliesTo?(source: Source, spec: VolumeSpec): boolean;
  /** Identifies the storage behind the volume; pods whose volumes agree in it share one device. */
  identityOf(source: Source, spec: VolumeSpec): string;
  /** Where the device is, or will be, mounted on the node. Empty where nothing is, or where it is not known. */
  pathOf(source: Source, spec: VolumeSpec): string;
  mount(request: DeviceMountRequest<Source>, signal: AbortSignal): Promise<void>;
  /** Other places where what is mounted at `path` is mounted too. While there are any, it is not unmounted. */
  referencesTo(path: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Called only when no pod uses the volume any more. */
  unmount(path: string, signal: AbortSignal): Promise<void>;
}

export interface DeviceMountRequest<Source = unknown> {
  readonly spec: VolumeSpec;
  readonly source: Source;
  /** What `Attach.waitForAttach` returned; undefined for what is not attached. */
  readonly devicePath?: string | undefined;
  readonly path: string;
  readonly fsGroup?: number | undefined;
}

/** Storage that must first be connected to the node. Such a plugin also has `deviceMount`. */
export interface Attach<Source = unknown> {
  canAttach(source: Source, spec: VolumeSpec): boolean;
  /** For storage that only this node can connect (a loop device). A controller connects any other, and is waited for. */
  readonly byNodeAlone?: NodeAttach<Source>;
  /** Resolves, once the storage is connected, with the device's path or what the plugin finds the storage by. */
  waitForAttach(request: AttachRequest<Source>, signal: AbortSignal): Promise<string>;
  /** No more storage of this kind can be connected to this node: asked when a pod has waited in vain for a volume. */
  isLimitReached?(source: Source, spec: VolumeSpec, signal: AbortSignal): Promise<boolean>;
}

export interface NodeAttach<Source = unknown> {
  /** Connects the storage and resolves with the device's path. Repeating it gives the same device. */
  attach(request: AttachRequest<Source>, signal: AbortSignal): Promise<string>;
  /** `identity` is that of `deviceMount.identityOf`; storage that is not connected is a success. */
  detach(identity: string, signal: AbortSignal): Promise<void>;
}

export interface AttachRequest<Source = unknown> {
  readonly spec: VolumeSpec;
  readonly source: Source;
  readonly pod: Pod;
  /** From the node's status or an earlier attach; may be empty. */
  readonly devicePath: string;
}

/** Storage that a pod can have as a raw device. Binding the device and linking to it is the volume manager's part. */
export interface BlockMapping<Source = unknown> {
  /** The directory on the node in which each pod's bind mount of the device is a file named after the pod's UID. */
  globalMapPathOf(source: Source, spec: VolumeSpec): string;
  /** Makes the device ready for the whole node and resolves with its path, for kinds that attach nothing. */
  setUpDevice?(request: DeviceRequest<Source>, signal: AbortSignal): Promise<string>;
  /** Makes it ready for one pod and resolves with that pod's path of it; the empty string stands for the node's. */
  mapPodDevice?(request: DeviceRequest<Source>, signal: AbortSignal): Promise<string>;
  /** Called when bind mount and link are gone. As for `tearDown`, what is gone already is a success. */
  unmapPodDevice?(request: UnmapRequest, signal: AbortSignal): Promise<void>;
  tearDownDevice?(mapPath: string, devicePath: string, signal: AbortSignal): Promise<void>;
  /** As `VolumePlugin.reconstruct`, for a link below `volumeDevices`. */
  reconstruct(podUid: string, volumeName: string, mapPath: string): VolumeSpec | undefined;
}

export interface DeviceRequest<Source = unknown> {
  readonly spec: VolumeSpec;
  readonly source: Source;
  readonly pod: Pod;
  /** What `Attach.waitForAttach` returned; undefined for what is not attached. */
  readonly devicePath?: string | undefined;
}

export interface UnmapRequest {
  readonly podUid: string;
  readonly volumeName: string;
}

/** Grows the file system of a volume whose storage has grown; a raw device only learns its new size. */
export interface Expand<Source = unknown> {
  /** False: nothing to do here, ask again later. */
  expand(request: ExpandRequest<Source>, signal: AbortSignal): Promise<boolean>;
}

export interface ExpandRequest<Source = unknown> {
  readonly spec: VolumeSpec;
  readonly source: Source;
  /** What containers mount of the volume; a raw device has none. */
  readonly directory?: string | undefined;
  readonly devicePath?: string | undefined;
  /** Where the device is mounted on the node, for kinds that mount one. */
  readonly deviceMountPath?: string | undefined;
  readonly sizeBytes: bigint;
}

/**
 * Why a volume is not grown:
 *  - in-use: not while pods have it, which must not keep them from having it; it is not tried again on this node;
 *  - infeasible: never to this size, so the owner of the claim has to know;
 *  - not-supported: nothing has to be done on a node.
 */
export type ExpansionRefusal = 'in-use' | 'infeasible' | 'not-supported';

export class ExpansionRefusedError extends MountletError {
  readonly reason = 'ExpansionRefused';
  readonly refusal: ExpansionRefusal;
  constructor(refusal: ExpansionRefusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.refusal = refusal;
  }
}

/** Also of a wrapped error. */
export function expansionRefusalOf(thrown: unknown): ExpansionRefusal | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if (error instanceof ExpansionRefusedError) return error.refusal;
  }
  return undefined;
}

/**
 * What a failed set-up or device mount says about the disk:
 *  - uncertain: it may still be going on, so treat the volume as mounted for clean-up and as not mounted for use;
 *  - transient: nothing was decided, ask again;
 *  - final: it is over, and the disk is as it was before. Every error that does not say otherwise is final.
 */
export type FailureClass = 'uncertain' | 'transient' | 'final';

export interface ClassifiedFailure {
  readonly failureClass: FailureClass;
}

/** Only the error itself counts: one wrapped in an error without a class is final. */
export function failureClassOf(thrown: unknown): FailureClass {
  const claimed: unknown = thrown instanceof Error && 'failureClass' in thrown ? thrown.failureClass : undefined;
  return claimed === 'uncertain' || claimed === 'transient' ? claimed : 'final';
}

/** A failure that callers only report. Where they have to distinguish one there is a class for it. */
export class VolumeError extends MountletError {
  readonly reason: string;
  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The storage holds another file system than the volume asks for: the owner of the volume has to know. */
export class FilesystemMismatchError extends MountletError {
  readonly reason = 'FilesystemMismatch';
}

/** The kubelet's word for an object that is not there: `configmap "web" not found`. */
export class ObjectNotFoundError extends MountletError {
  readonly reason = 'ObjectNotFound';
  constructor(kind: 'configmap' | 'secret' | 'clustertrustbundle.certificates.k8s.io', name: string) {
    super(`${kind} "${name}" not found`);
  }
}

/** What a plugin reports besides failures: once for the node, or about one pod. Never content. */
export type PluginNotice =
  | { readonly kind: 'MemoryElsewhere'; readonly message: string }
  | { readonly kind: 'GroupImpossible'; readonly message: string }
  | { readonly kind: 'OwnerImpossible'; readonly message: string }
  | { readonly kind: 'DeviceFormatted'; readonly message: string }
  | { readonly kind: 'DeviceRepaired'; readonly message: string }
  | {
      readonly kind: 'PodWarning';
      readonly podUid: string;
      readonly namespace: string;
      readonly podName: string;
      /** The reason and text of the Kubernetes Event. */
      readonly reason: 'AlreadyMountedVolume' | 'VolumePermissionChangeInProgress';
      readonly message: string;
    };
export type NotifyPlugin = (notice: PluginNotice) => void;

/** The kubelet's two texts for a change of group that takes long: advice first, then how far it got. `shown` is the directory. */
export function groupProgress(
  notify: NotifyPlugin,
  pod: Pod,
  shown: string,
): (progress: { readonly processed: number }) => void {
  const advice =
    'is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods';
  let reports = 0;
  return ({ processed }) => {
    reports += 1;
    const text = reports === 1 ? ` ${advice}` : `, processed ${processed} files.`;
    notify({
      kind: 'PodWarning',
      podUid: pod.metadata.uid ?? '',
      namespace: pod.metadata.namespace ?? '',
      podName: pod.metadata.name,
      reason: 'VolumePermissionChangeInProgress',
      message: `Setting volume ownership for ${shown}${text}`,
    });
  };
}
