/** All that pods need of an API server. On a node without one every method does nothing and finds nothing. */
import type { Pod } from '../kube/kinds/pod/pod.ts';

export interface PodApi {
  /** As it is now, not as some cache has it; undefined if there is none. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<Pod | undefined>;
  /** A strategic merge patch of the status. Undefined if the pod is gone or another now. */
  patchStatus(
    namespace: string,
    name: string,
    patch: unknown,
    signal: AbortSignal,
  ): Promise<Pick<Pod, 'metadata'> | undefined>;
  /** Without grace, and only the pod with this UID: one that is gone, or is another now, is a success. */
  delete(namespace: string, name: string, uid: string, signal: AbortSignal): Promise<void>;
  /** False if there is a pod of this name already. */
  create(pod: Pod, signal: AbortSignal): Promise<boolean>;
}
