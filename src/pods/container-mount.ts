import type { MountPropagation } from './mount-options.ts';

/** One thing a container finds in its file system, decided and ready for a runtime. */
export interface ContainerMount {
  /** The volume's name in the pod, or `k8s-managed-etc-hosts`. */
  readonly name: string;
  /** Where the container sees it. */
  readonly mountPath: string;
  /** What it sees there; undefined for an image, which the runtime mounts. */
  readonly hostPath: string | undefined;
  readonly image?: string;
  readonly subPath: string | undefined;
  /** `subPath` was expanded from a variable that holds a Secret: never print it. */
  readonly secretSubPath: boolean;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  /** `HostToContainer` also for a subPath that follows its volume: what is mounted there later is its new content. */
  readonly propagation: MountPropagation;
  readonly bindMountOptions: readonly string[];
}
