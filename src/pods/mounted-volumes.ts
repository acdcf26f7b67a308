/** The volumes of a pod that are mounted on this node, as a container start needs to know them. */
export interface MountedVolumes {
  get(volumeName: string): MountedVolume | undefined;
}

export type MountedVolume = FilesystemVolume | BlockVolume | ImageVolume;

export interface FilesystemVolume {
  readonly kind: 'filesystem';
  /** The volume's directory on this machine; for a hostPath, the host's own path. */
  readonly hostPath: string;
  /** Names the directory of sub path mounts: the volume's name, or for a claim that of its persistent volume. */
  readonly specName: string;
  /** What the volume itself says; a mount may be read-only besides. */
  readonly readOnly: boolean;
  /** The node alone writes the content and replaces it as a whole: a subPath of it can follow. */
  readonly replaced?: boolean;
}

interface BlockVolume {
  readonly kind: 'block';
  /** The link to the device in the pod's device directory; undefined while there is none. */
  readonly link: string | undefined;
  readonly readOnly: boolean;
}

/** Mounted by the container runtime, from the image. */
interface ImageVolume {
  readonly kind: 'image';
  readonly reference: string;
}
