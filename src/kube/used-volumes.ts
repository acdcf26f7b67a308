/** Which volumes of a pod have to be mounted before it starts. */
import { allContainers } from './kinds/pod/pod-spec.ts';
import type { Pod } from './kinds/pod/pod.ts';

interface UsedVolumes {
  /** Volumes some container wants as a file system. */
  readonly mounted: ReadonlySet<string>;
  /** Volumes some container wants as a raw block device. */
  readonly devices: ReadonlySet<string>;
}

/**
 * The volumes that count: a volume of the pod that no container mounts is never set up and never waited for. A
 * `fileKeyRef` alone does not make a volume used.
 */
export function usedVolumes(pod: Pod): UsedVolumes {
  const containers = allContainers(pod.spec);
  return {
    mounted: new Set(containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name))),
    devices: new Set(containers.flatMap(({ volumeDevices = [] }) => volumeDevices.map(({ name }) => name))),
  };
}
