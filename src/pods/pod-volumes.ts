/** All that pod workers need of the volume manager. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { MountedVolumes } from './mounted-volumes.ts';

export interface PodVolumes {
  /**
   * Asks for every volume of the pod and resolves when all are mounted; at once for those that are, which are refreshed in
   * the background. Rejects in the kubelet's words when that takes too long.
   */
  waitForMounted(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Resolves when nothing of the pod's volumes is mounted any more. */
  waitForUnmounted(pod: Pod, signal: AbortSignal): Promise<void>;
  /** Resolves when nothing of the pod's volumes may be mounted either. */
  waitForReleased(podUid: string, signal: AbortSignal): Promise<void>;
  mountedVolumesOf(pod: Pod): MountedVolumes;
  /** Groups that own volumes of the pod, so that its containers can read them. */
  groupsOf(pod: Pod): readonly number[];
  /** Something of its volumes is still on disk. */
  podVolumesExist(podUid: string): boolean;
  /** A pod was added, changed or moved to another state: what is wanted of volumes may be different. */
  podChanged(podUid: string): void;
  /** A source of pods was read to its end for the first time, or what runs was compared with what is wanted. */
  sourcesChanged(): void;
}

/** The object managers, told who needs what. Neither call waits for the network. */
export interface ObjectRegistration {
  registerPod(pod: Pod): void;
  unregisterPod(pod: Pod): void;
}
