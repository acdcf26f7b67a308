/** Names of CSI volumes that a node and the attach/detach controller must build alike, on both sides of the API. Pure. */
import { createHash } from 'node:crypto';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import { splitUniqueVolumeName, uniqueVolumeName } from '../values/node-layout.ts';

const csiPlugin = 'kubernetes.io/csi';

/** What a driver knows a volume by. */
export interface CsiVolume {
  readonly driver: string;
  readonly volumeHandle: string;
}

/** As nodes list it in `volumesInUse`, and the controller in `volumesAttached`. */
export function csiVolumeName({ driver, volumeHandle }: CsiVolume): string {
  return uniqueVolumeName(csiPlugin, `${driver}^${volumeHandle}`);
}

/** Undefined for the name of a volume that is not a CSI driver's. A handle may contain the separator; a driver's name cannot. */
export function csiVolumeOf(volumeName: string): CsiVolume | undefined {
  if (!volumeName.startsWith(`${csiPlugin}/`)) return undefined;
  const { volumeName: rest } = splitUniqueVolumeName(volumeName);
  const at = rest.indexOf('^');
  return at < 1 ? undefined : { driver: rest.slice(0, at), volumeHandle: rest.slice(at + 1) };
}

/** Of the VolumeAttachment for a volume and a node. */
export function attachmentName({ driver, volumeHandle }: CsiVolume, nodeName: string): string {
  return `csi-${createHash('sha256').update(`${volumeHandle}${driver}${nodeName}`).digest('hex')}`;
}

/** Whether the volume must not be attached to two nodes. Without access modes it is unknown, and left to its driver. */
export function isForOneNode({ spec: { accessModes = [] } }: PersistentVolume): boolean {
  return accessModes.length > 0 && !accessModes.includes('ReadWriteMany') && !accessModes.includes('ReadOnlyMany');
}
