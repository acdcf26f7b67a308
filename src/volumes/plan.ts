/**
 * Decides, from what is wanted and what is, the next step for one mount or one volume. Pure. A step is taken at a time: when
 * it is over the volume is planned again, so a shared volume goes away in three steps, mounts, device, attachment.
 */
import { type VolumeMode, type VolumeSpec, specName, volumeModeOf } from '../kube/references/volume-spec.ts';
import type { ActualMount, ActualVolume } from './actual-state.ts';
import type { DesiredMount, DesiredVolume } from './desired-state.ts';
import type { MountId, Plugins, PodUid, VolumeName } from './volume-name.ts';

export interface PlanContext {
  /** Every pod source was read, and the node's status was applied to all that a restart found on disk. */
  readonly mayUnmount: boolean;
  /** Some volume of this pod could not be resolved: an unwanted mount of it may still be in use. */
  isUnresolved(podUid: PodUid): boolean;
  /** A controller attaches and detaches for this node; without one, only what the node connects by itself is attached. */
  readonly controllerAttach: boolean;
  readonly plugins: Plugins;
  /** Whether the node's status, as last received, lists the volume as attached; undefined if it was never read. */
  isListedAttached(volume: VolumeName): boolean | undefined;
}

/** One mount: either side may be missing. */
export function planMount(
  podUid: PodUid,
  wanted: DesiredVolume | undefined,
  present: ActualVolume | undefined,
  context: PlanContext,
): VolumeAction | undefined {
  const mount = wanted?.mounts.get(podUid);
  const mounted = present?.mounts.get(podUid);
  if (wanted === undefined || mount === undefined) return planUnmount(mounted, context);
  if (present === undefined) return planAttach(wanted, mount, context);
  // An uncertain mount is made again: a repeated setUp is harmless, a wrong guess is not.
  if (mounted?.state !== 'mounted') return { kind: mountKind(mount), volume: wanted, mount, isRemount: false };
  if (mounted.revision < mount.revision) return { kind: mountKind(mount), volume: wanted, mount, isRemount: true };
  if (needsExpansion(wanted, mount, present)) {
    const [sizeBytesNow, sizeBytesWanted] = [present.sizeBytes, wanted.sizeBytes];
    return { kind: 'expand', volume: wanted, mount, sizeBytesNow, sizeBytesWanted };
  }
  return undefined;
}

/** What is left of a volume that no pod has mounted any more. */
export function planDevice(
  wanted: DesiredVolume | undefined,
  present: ActualVolume,
  context: PlanContext,
): VolumeAction | undefined {
  if (wanted !== undefined || present.mounts.size > 0 || !context.mayUnmount) return undefined;
  if (present.device !== 'not-mounted') {
    return { kind: modeOf(present.spec) === 'Block' ? 'unmapDevice' : 'unmountDevice', volume: present };
  }
  // After a restart only a guess says whether this node had attached it. It detaches what is not attached in no time.
  const byNode = context.plugins.findByName(present.pluginName).attach?.byNodeAlone !== undefined;
  return { kind: byNode ? 'detach' : 'drop', volume: present };
}

function unmountOf(mounted: ActualMount): UnmountAction {
  const { volume, podUid, spec, pluginName, gid } = mounted;
  const kind = modeOf(spec) === 'Block' ? 'unmap' : 'unmount';
  return { kind, volume, podUid, pluginName, volumeName: specName(spec), gid, spec };
}

function planUnmount(mounted: ActualMount | undefined, context: PlanContext): VolumeAction | undefined {
  if (mounted === undefined || !context.mayUnmount || context.isUnresolved(mounted.podUid)) return undefined;
  return unmountOf(mounted);
}

function planAttach(volume: DesiredVolume, mount: DesiredMount, context: PlanContext): VolumeAction | undefined {
  if (!volume.isAttachable) return { kind: 'verify', volume, mount };
  // Without a controller the operation fails, and its Event says why the pod waits.
  if (mount.plugin.attach?.byNodeAlone !== undefined || !context.controllerAttach)
    return { kind: 'attach', volume, mount };
  // Nothing is started, so that no delay builds up: the node's status touches the volume when it changes.
  if (!volume.isReportedInUse || context.isListedAttached(volume.volume) === false) return undefined;
  return { kind: 'verify', volume, mount };
}

function mountKind({ spec }: DesiredMount): 'mount' | 'map' {
  return modeOf(spec) === 'Block' ? 'map' : 'mount';
}

/** Through a pod that may not write, nothing is grown: another pod that has the volume may. */
function needsExpansion(wanted: DesiredVolume, { plugin, spec }: DesiredMount, present: ActualVolume): boolean {
  if (present.refusesExpansionInUse || present.isExpansionPostponed) return false;
  if (plugin.expand === undefined || spec.readOnly) return false;
  return present.sizeBytes > 0n && wanted.sizeBytes > present.sizeBytes;
}

/** What can be done with a volume: the plans say it, the operations do it. */
interface DesiredAction {
  readonly volume: DesiredVolume;
  readonly mount: DesiredMount;
}

/** The controller attached it, or nothing needs to be: the volume is listed as attached. */
export interface VerifyAction extends DesiredAction {
  readonly kind: 'verify';
}

export interface AttachAction extends DesiredAction {
  readonly kind: 'attach';
}

/** `map` is the same for a raw block device. */
export interface MountAction extends DesiredAction {
  readonly kind: 'mount' | 'map';
  /** It is mounted already and its content is brought up to date. */
  readonly isRemount: boolean;
}

/** The file system of a volume that is in use follows its storage, which has grown. */
export interface ExpandAction extends DesiredAction {
  readonly kind: 'expand';
  readonly sizeBytesNow: bigint;
  readonly sizeBytesWanted: bigint;
}

/** Only what can be recovered from disk: after a restart nothing else is known. */
export interface UnmountAction extends MountId {
  readonly kind: 'unmount' | 'unmap';
  readonly pluginName: string;
  /** The name of the volume's directory. */
  readonly volumeName: string;
  readonly gid: string;
  /** Undefined where not even a guess could be made of what lay on disk. */
  readonly spec: VolumeSpec | undefined;
}

export interface UnmountDeviceAction {
  readonly kind: 'unmountDevice' | 'unmapDevice';
  readonly volume: ActualVolume;
}

export interface DetachAction {
  readonly kind: 'detach';
  readonly volume: ActualVolume;
}

/** Nothing of the volume is left on the node; it needs no operation. */
interface DropAction {
  readonly kind: 'drop';
  readonly volume: ActualVolume;
}

export type VolumeAction =
  | VerifyAction
  | AttachAction
  | MountAction
  | ExpandAction
  | UnmountAction
  | UnmountDeviceAction
  | DetachAction
  | DropAction;

/** Everything but what is done in no time. */
export type OperationAction = Exclude<VolumeAction, DropAction>;

/** A volume whose mode is unknown is unmounted as a file system, which harms no device. */
export function modeOf(spec: VolumeSpec | undefined): VolumeMode {
  try {
    return spec === undefined ? 'Filesystem' : volumeModeOf(spec);
  } catch {
    return 'Filesystem';
  }
}
