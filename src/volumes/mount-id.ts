/** The names of this room. The compiler keeps a pod from being taken for a volume. */
import type { Pod } from '../kube/kinds/pod/pod.ts';

declare const brand: unique symbol;

/** A pod is known by its UID alone: two pods of one name may follow each other. */
export type PodUid = string & { readonly [brand]: 'PodUid' };
/** A volume's name on this node, as kube/values/node-layout.ts makes it; several pods may share one volume. */
export type VolumeName = string & { readonly [brand]: 'VolumeName' };

/** One volume of one pod. */
export interface MountId {
  readonly volume: VolumeName;
  readonly podUid: PodUid;
}

export function asPodUid(text: string): PodUid {
  return text as PodUid;
}

export function asVolumeName(text: string): VolumeName {
  return text as VolumeName;
}

export function podUidOf(pod: Pick<Pod, 'metadata'>): PodUid {
  return asPodUid(pod.metadata.uid ?? '');
}
