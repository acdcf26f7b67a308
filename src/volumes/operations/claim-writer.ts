/** Where claims are written whose volumes this node grows. */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { ClaimStatusPatch } from '../../kube/references/claim-resize.ts';

export interface ClaimWriter {
  /** A strategic merge patch of the claim's `status` subresource. Resolves with the claim as it is then. */
  patchStatus(
    namespace: string,
    name: string,
    patch: ClaimStatusPatch,
    signal: AbortSignal,
  ): Promise<PersistentVolumeClaim>;
}
