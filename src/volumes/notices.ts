/**
 * What the volume manager reports, for logs, metrics, history and Kubernetes Events. No content of any volume is in
 * them.
 */
import type { TaskFailed } from '../base/run-task.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { SeenChange } from './desired-state.ts';
import type { PodUid, VolumeName } from './volume-name.ts';

interface PodRef {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
}

/** When one change went through this node; all are milliseconds since the epoch. */
export interface UpdateTrace {
  /** The changes that this write shows, oldest first. Empty for a write without a known change. */
  readonly changes: readonly SeenChange[];
  /** The oldest of them came in since the last object was gone; the write itself began, where no change is known. */
  readonly seenAt: number;
  /** It was decided to write. */
  readonly plannedAt: number;
  /** The plugin had all files on disk and had swapped them. */
  readonly writtenAt: number;
  /** The node counts the volume as being at this content. */
  readonly visibleAt: number;
}

export interface MountFacts {
  readonly volume: VolumeName;
  readonly pod: PodRef;
  readonly podVolumeNames: readonly string[];
  readonly plugin: string;
  readonly revision: number;
  readonly changed: boolean;
  readonly files: number;
  readonly hidden: readonly string[];
}

export type VolumeNotice =
  | TaskFailed
  /** A Kubernetes Event about a pod, or about an object that is named in full. */
  | {
      readonly kind: 'PodEvent';
      readonly type: 'Normal' | 'Warning';
      readonly pod: PodRef;
      readonly reason: string;
      readonly message: string;
    }
  | {
      readonly kind: 'ObjectEvent';
      readonly type: 'Normal' | 'Warning';
      readonly object: {
        readonly kind: 'PersistentVolume' | 'PersistentVolumeClaim';
        readonly namespace: string;
        readonly name: string;
        readonly uid: string;
      };
      readonly reason: string;
      readonly message: string;
    }
  /** `tookMs`: since the mount was asked for. */
  | ({ readonly kind: 'VolumeMounted'; readonly tookMs: number } & MountFacts)
  /** `tookMs`: since the change came in. Told when there was a change, or when something on disk was not as it should be. */
  | ({ readonly kind: 'VolumeRefreshed'; readonly tookMs: number; readonly trace: UpdateTrace } & MountFacts)
  | {
      readonly kind: 'VolumeUnmounted';
      readonly volume: VolumeName;
      readonly podUid: PodUid;
      /** Undefined where the pod is known no more. */
      readonly pod: PodRef | undefined;
      readonly plugin: string;
      readonly message: string;
    }
  | { readonly kind: 'VolumeDetached'; readonly volume: VolumeName; readonly message: string }
  /** `status` and the names are those of `storage_operation_duration_seconds`. */
  | {
      readonly kind: 'OperationEnded';
      readonly operation: string;
      readonly volume: string;
      readonly plugin: string;
      /** Of a kind that a CSI driver has taken over. */
      readonly isMigrated: boolean;
      readonly status: 'success' | 'fail-unknown';
      readonly tookMs: number;
    }
  | {
      readonly kind: 'OperationFailed';
      readonly operation: string;
      readonly volume: string;
      /** Undefined where it is about the whole volume. */
      readonly podUid: PodUid | undefined;
      /** Undefined also where the pod is known no more. */
      readonly pod: PodRef | undefined;
      readonly retryAt: number;
      readonly error: Error;
      /** A PodEvent says the same. */
      readonly hasEvent: boolean;
      /** It failed several times in a row: what holds the volume, for an Event of the pod. */
      readonly stuck?: { readonly holders: readonly string[]; readonly message: string };
    }
  /** Its storage has grown and the volume has not, which is not a failure: it is postponed, or not done at all. */
  | { readonly kind: 'VolumeNotGrown'; readonly volume: VolumeName; readonly pod: PodRef; readonly message: string }
  /** A volume of a pod could not be resolved: `Error processing volume`. */
  | {
      readonly kind: 'VolumeNotProcessed';
      readonly pod: PodRef;
      readonly podVolumeName: string;
      readonly message: string;
    }
  /** Nothing was unmounted up to now, since a pod could still have turned up that uses it. */
  | { readonly kind: 'DesiredStateComplete' }
  | ReconstructionNotice
  | OrphanNotice;

export type NotifyVolumes = (notice: VolumeNotice) => void;

export function podRef({ metadata: { uid = '', namespace = '', name } }: Pod): PodRef {
  return { uid: uid as PodUid, namespace, name };
}

/** What reconstruction and the sweep of orphaned pods report, for logs and metrics. */
type ReconstructionNotice =
  /** One for each volume that was found: `reconstruct_volume_operations_total`, with a problem also `…_errors_total`. */
  | {
      readonly kind: 'VolumeReconstructed';
      readonly podUid: PodUid;
      readonly plugin: string;
      readonly volumeName: string;
      readonly path: string;
      /** Undefined where it failed. */
      readonly volume: VolumeName | undefined;
      readonly problem: string | undefined;
    }
  /** An entry among them is not a volume. It is left alone. */
  | { readonly kind: 'EntrySkipped'; readonly path: string; readonly message: string }
  /** Of `volume`, found on disk, not everything could be listed; or nothing at all, when `volume` is empty. */
  | { readonly kind: 'ReconstructionProblem'; readonly volume: string; readonly message: string }
  | { readonly kind: 'ReconstructionFinished'; readonly volumes: number; readonly failed: number }
  /** Until it can be read nothing is unmounted. */
  | { readonly kind: 'NodeStatusUnread'; readonly message: string; readonly retryAt: number }
  | { readonly kind: 'NodeStatusApplied'; readonly volumes: number }
  /** `force_cleaned_failed_volume_operations_total`, with a problem also `force_cleaned_failed_volume_operation_errors_total`. */
  | {
      readonly kind: 'FailedVolumeCleaned';
      readonly podUid: PodUid;
      readonly plugin: string;
      readonly volumeName: string;
      readonly problem: string | undefined;
    };

type OrphanNotice =
  | { readonly kind: 'OrphanedPodKept'; readonly podUid: PodUid; readonly message: string }
  | { readonly kind: 'OrphanedPodRemoved'; readonly podUid: PodUid; readonly path: string }
  /** The first of many: rolled up, since the next sweep will say the same. */
  | {
      readonly kind: 'OrphanedPodErrors';
      readonly first: string;
      readonly count: number;
    }
  /** The gauges `kubelet_orphan_pod_cleaned_volumes` and `…_errors`. */
  | { readonly kind: 'OrphansSwept'; readonly candidates: number; readonly withProblems: number };
