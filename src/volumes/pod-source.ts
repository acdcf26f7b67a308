/** Which pods there are and how far they have got: what the populator asks of the pod workers. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { PodUid } from './mount-id.ts';

export interface PodSource {
  pods(): Iterable<Pod>;
  pod(uid: PodUid): Pod | undefined;
  /** Every source of pods was read in full at least once. Never goes back. */
  areSourcesReady(): boolean;
}

export interface PodStates {
  /** No container of the pod can start any more. Of a pod that is not known: true once pods have been synced. */
  shouldContainersBeTerminating(uid: PodUid): boolean;
  /** No container of the pod runs any more. Of a pod that is not known: true once pods have been synced. */
  shouldRuntimeBeRemoved(uid: PodUid): boolean;
}
