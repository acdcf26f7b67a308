/** Tells the API server what became of growing a claim's volume. */
import type { ApiClient } from '../client/api-client.ts';
import { persistentVolumeClaims, withShape } from '../client/resource-reference.ts';
import { persistentVolumeClaimShape } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { ClaimWriter } from '../volumes/operations/claim-writer.ts';

const claims = withShape(persistentVolumeClaims, persistentVolumeClaimShape);

export function apiClaimWriter(client: Pick<ApiClient, 'patch'>): ClaimWriter {
  return {
    patchStatus: (namespace, name, patch, signal) =>
      client.patch(claims, { namespace, name, subresource: 'status', type: 'strategic' }, patch, signal),
  };
}
