/** What a worker does with its pod, one step after another. Each may be repeated, and each stops when its signal aborts. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import type { Eviction } from '../status/pod-status.ts';

export interface SyncResult {
  /** Everything has ended for good: the pod is not to be synced again. */
  readonly terminal: boolean;
  /** When the pod has to be looked at though nothing happened, for its deadline. */
  readonly againAtMs?: number | undefined;
}

export interface PodSteps {
  /** Brings the pod to what is wanted. */
  sync(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<SyncResult>;
  /** Ends every container. */
  terminate(
    pod: Pod,
    runtimePod: RuntimePod | undefined,
    request: { readonly graceSeconds: number; readonly eviction: Eviction | undefined },
    signal: AbortSignal,
  ): Promise<void>;
  /** Ends a pod of which nobody knows what it should be. */
  terminateOrphan(runtimePod: RuntimePod, graceSeconds: number, signal: AbortSignal): Promise<void>;
  /** Gives back what the pod had on this node; no container runs any more. */
  cleanUp(pod: Pod, runtimePod: RuntimePod | undefined, signal: AbortSignal): Promise<void>;
}
