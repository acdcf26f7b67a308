/** How large a memory-backed volume may become. */

export interface TmpfsBounds {
  readonly nodeAllocatableBytes: bigint;
  /** Of a pod in which every container has a limit; 0 otherwise. */
  readonly podLimitBytes: bigint;
  /** The volume's own `sizeLimit`; 0 if it has none. */
  readonly sizeLimitBytes: bigint;
}

/** The smallest of the bounds; zero is no bound. A node that tells nothing allocatable gives 0: no limit at all. */
export function tmpfsSizeBytes({ nodeAllocatableBytes, podLimitBytes, sizeLimitBytes }: TmpfsBounds): bigint {
  return [podLimitBytes, sizeLimitBytes].reduce(
    (size, bound) => (bound > 0n && bound <= size ? bound : size),
    nodeAllocatableBytes,
  );
}
