/** Claims, PersistentVolumes and trust bundles at an API server: one request each, never from memory. */
import type { ApiClient } from '../../client/api-client.ts';
import { NotFoundError } from '../../client/api-errors.ts';
import {
  clusterTrustBundles,
  persistentVolumeClaims,
  persistentVolumes,
  withShape,
} from '../../client/resource-reference.ts';
import { clusterTrustBundleShape } from '../../kube/kinds/cluster-trust-bundle.ts';
import { persistentVolumeClaimShape } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeShape } from '../../kube/kinds/storage/persistent-volume.ts';
import type { TrustBundleReader } from '../../plugins/object-readers.ts';
import type { ClaimSource } from '../../volumes/claim-source.ts';

const claimResource = withShape(persistentVolumeClaims, persistentVolumeClaimShape);
const volumeResource = withShape(persistentVolumes, persistentVolumeShape);
const bundleResource = withShape(clusterTrustBundles, clusterTrustBundleShape);

export function clusterClaims(client: ApiClient): ClaimSource {
  return {
    claim: (namespace, name, signal) => unlessMissing(client.get(claimResource, { namespace, name }, signal)),
    persistentVolume: (name, signal) => unlessMissing(client.get(volumeResource, { name }, signal)),
  };
}

/** A node without an API server has none. */
export const noClaims: ClaimSource = { claim: async () => undefined, persistentVolume: async () => undefined };

export function clusterTrust(client: ApiClient): TrustBundleReader {
  return {
    get: (name, signal) => unlessMissing(client.get(bundleResource, { name }, signal)),
    async list(signerName, signal) {
      const fieldSelector = `spec.signerName=${signerName}`;
      const { items } = await client.list(bundleResource, { fieldSelector }, signal);
      return items;
    },
  };
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}
