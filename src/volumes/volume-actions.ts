/** What can be done with a volume: the plans say it, the operations do it. */
import { type VolumeMode, type VolumeSpec, volumeModeOf } from '../kube/references/volume-spec.ts';
import type { ActualVolume } from './actual-state.ts';
import type { DesiredMount, DesiredVolume } from './desired-state.ts';
import type { MountId } from './mount-id.ts';

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

/** A volume whose mode nobody can tell is unmounted as a file system, which harms no device. */
export function modeOf(spec: VolumeSpec | undefined): VolumeMode {
  try {
    return spec === undefined ? 'Filesystem' : volumeModeOf(spec);
  } catch {
    return 'Filesystem';
  }
}
