/**
 * What this room asks of the directories of pods: to find what an earlier process left, and to take away what is left of
 * pods that are gone. Nothing in it follows a link, waits for what is mounted, or deletes the content of a volume.
 */

export interface SkippedEntry {
  readonly path: string;
  readonly why: string;
}

export interface VolumeOnDisk {
  /** The plugin's name as a directory: `kubernetes.io~configmap`. */
  readonly pluginDirectory: string;
  readonly name: string;
  readonly path: string;
}

export interface PodOnDisk {
  /** Empty for what was skipped beside the pods. */
  readonly podUid: string;
  /** Below `volumes`: file systems. */
  readonly volumes: readonly VolumeOnDisk[];
  /** Below `volumeDevices`: raw devices. */
  readonly devices: readonly VolumeOnDisk[];
  readonly skipped: readonly SkippedEntry[];
}

/** Failures are MountletErrors whose message is what the kernel said. */
export interface PodsOnDisk {
  /** Throws when the directory of all pods cannot be read. */
  pods(): { readonly names: readonly string[]; readonly skipped: readonly SkippedEntry[] };
  /** A directory of it, or the pod's own. False also for a name that no directory can have. */
  has(podUid: string, ...below: readonly string[]): boolean;
  /** By name only: what is mounted there may hang. Throws as `pods` does; whatever else cannot be read is skipped. */
  scan(): Iterable<PodOnDisk>;
  /** Where volumes of the pod are, or would be, mounted. */
  volumePaths(podUid: string): readonly string[];
  /** What is mounted at or below the pod's directory. */
  mountPoints(podUid: string): ReadonlySet<string>;
  subPaths(podUid: string): readonly { readonly volumeName: string; readonly path: string }[];
  /** Only an empty one. */
  removeDirectory(path: string): void;
  /** A file, or an empty directory. */
  removeSubPath(path: string): void;
  /** The directory `volumes` as far as it has empty directories and nothing else in it. */
  removeEmptyVolumes(podUid: string, mounted: ReadonlySet<string>): void;
  /** What is directly in the pod's directory. */
  entries(podUid: string): readonly string[];
  /** Recursively, and never across a mount. */
  removeEntry(podUid: string, name: string, mounted: ReadonlySet<string>): void;
  /** Only when it is empty. */
  removePod(podUid: string): void;
  pathOf(podUid: string, name?: string): string;
}
