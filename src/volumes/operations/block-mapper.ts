/** What the operations of raw block devices need of the machine; disk/devices/block-mappings.ts does it. */
export interface BlockMapper {
  /** The device's own path, behind links such as those of `/dev/disk/by-id`. */
  resolve(devicePath: string, signal: AbortSignal): Promise<string>;
  /** Binds the device for the pod, links to it and keeps it open. What is there already is left as it is. */
  map(mapping: NewBlockMapping, signal: AbortSignal): Promise<void>;
  /** In the opposite order. What is gone already is a success. */
  unmap(mapping: BlockMapping, signal: AbortSignal): Promise<void>;
  /** The bind mounts of pods below a map path; none where there is no such directory. */
  referencesBelow(mapPath: string, signal: AbortSignal): Promise<readonly string[]>;
  /** The directory of a device that no pod has; one that is not there is a success. */
  remove(mapPath: string, signal: AbortSignal): Promise<void>;
}

export interface BlockMapping {
  /** The directory on the node in which each pod's bind mount is a file named after its UID. */
  readonly mapPath: string;
  readonly podUid: string;
  readonly link: string;
}

export interface NewBlockMapping extends BlockMapping {
  readonly devicePath: string;
}
