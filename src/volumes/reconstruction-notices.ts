/** Facts that reconstruction and the sweep of orphaned pods tell, for logs and metrics. */
import type { PodUid, VolumeName } from './mount-id.ts';

export type ReconstructionNotice =
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
  /** Something that is no volume lies among them. It is left alone. */
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

export type OrphanNotice =
  | { readonly kind: 'OrphanedPodKept'; readonly podUid: PodUid; readonly message: string }
  | { readonly kind: 'OrphanedPodRemoved'; readonly podUid: PodUid; readonly path: string }
  /** The first of many: rolled up, since the next sweep will say the same. */
  | {
      readonly kind: 'OrphanedPodErrors';
      readonly message: string;
      readonly first: string;
      readonly count: number;
    }
  /** The gauges `kubelet_orphan_pod_cleaned_volumes` and `…_errors`. */
  | { readonly kind: 'OrphansSwept'; readonly candidates: number; readonly withProblems: number };
