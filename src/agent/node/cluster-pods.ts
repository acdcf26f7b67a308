/** What pod workers and volumes ask of an API server about pods, claims and trust bundles: one request each, never from memory. */
import type { ApiClient } from '../../client/api-client.ts';
import { AlreadyExistsError, ConflictError, InvalidError, NotFoundError } from '../../client/api-errors.ts';
import {
  clusterTrustBundles,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  withShape,
} from '../../client/resource-reference.ts';
import { clusterTrustBundle } from '../../kube/objects/cluster-trust-bundle.ts';
import { persistentVolume, persistentVolumeClaim } from '../../kube/objects/persistent-volume.ts';
import { pod } from '../../kube/objects/pod.ts';
import type { TrustBundleReader } from '../../plugins/object-readers.ts';
import type { PodApi } from '../../pods/pod-api.ts';
import type { ClaimSource } from '../../volumes/claim-source.ts';

const podResource = withShape(pods, pod);
const claimResource = withShape(persistentVolumeClaims, persistentVolumeClaim);
const volumeResource = withShape(persistentVolumes, persistentVolume);
const bundleResource = withShape(clusterTrustBundles, clusterTrustBundle);

export function clusterPodApi(client: ApiClient): PodApi {
  return {
    get: (namespace, name, signal) => unlessMissing(client.get(podResource, { namespace, name }, signal)),
    async patchStatus(namespace, name, patch, signal) {
      const place = { namespace, name, subresource: 'status', type: 'strategic' } as const;
      try {
        return await unlessMissing(client.patch(podResource, place, patch, signal));
      } catch (error) {
        // The patch names the UID: a pod of the same name that was made since is refused.
        if (error instanceof InvalidError || error instanceof ConflictError) return undefined;
        throw error;
      }
    },
    async delete(namespace, name, uid, signal) {
      const options = { gracePeriodSeconds: 0, preconditions: { uid } };
      try {
        await client.delete(podResource, { namespace, name }, options, signal);
      } catch (error) {
        if (!(error instanceof NotFoundError) && !(error instanceof ConflictError)) throw error;
      }
    },
    async create(wanted, signal) {
      const { namespace } = wanted.metadata;
      try {
        await client.create(podResource, { namespace }, wanted, signal);
        return true;
      } catch (error) {
        if (error instanceof AlreadyExistsError) return false;
        throw error;
      }
    },
  };
}

export function clusterClaims(client: ApiClient): ClaimSource {
  return {
    claim: (namespace, name, signal) => unlessMissing(client.get(claimResource, { namespace, name }, signal)),
    persistentVolume: (name, signal) => unlessMissing(client.get(volumeResource, { name }, signal)),
  };
}

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
