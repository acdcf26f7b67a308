/** The objects of manifests, answered as an API server would answer for them. */
import type { Clock } from '../base/clock.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import {
  type ObjectKind,
  claimKind,
  configMapKind,
  persistentVolumeKind,
  secretKind,
  trustBundleKind,
} from '../kube/manifests/manifest-kinds.ts';
import type { Manifests } from '../kube/manifests/manifests.ts';
import type { ClaimReader } from '../kube/references/volume-spec.ts';
import type { ObjectMeta } from '../kube/schema/meta.ts';
import type { ProjectedSources } from '../plugins/projected-payload.ts';
import { sampleTokens } from './sample-tokens.ts';

type ManifestObjects = ProjectedSources & { readonly claims: ClaimReader };

// As the API server defaults it; only a pod that was never defaulted leaves it open.
const tokenSecondsDefault = 3600;

/** `tell` hears once that tokens are samples. */
export function manifestObjects(
  manifests: Manifests,
  node: Node,
  clock: Clock,
  tell: (note: string) => void,
): ManifestObjects {
  return {
    configMaps: reader(manifests, configMapKind),
    secrets: reader(manifests, secretKind),
    nodes: { get: async () => node },
    trustBundles: {
      get: async (name) => manifests.get(trustBundleKind, '', name),
      list: async (signer) => manifests.all(trustBundleKind).filter(({ spec }) => spec.signerName === signer),
    },
    tokens: tokenSource(clock, tell),
    claims: boundClaims(manifests),
  };
}

function reader<T extends { readonly metadata: ObjectMeta }>(
  manifests: Manifests,
  kind: ObjectKind<T>,
): { get(namespace: string, name: string): Promise<T | undefined> } {
  return { get: async (namespace, name) => manifests.get(kind, namespace, name) };
}

function tokenSource(clock: Clock, tell: (note: string) => void): NonNullable<ProjectedSources['tokens']> {
  let issue: ReturnType<typeof sampleTokens> | undefined;
  return {
    async get({ namespace, serviceAccountName, audiences, expirationSeconds = tokenSecondsDefault, pod }) {
      if (issue === undefined)
        tell('service account tokens are samples: of the right form, but no API server accepts them');
      issue ??= sampleTokens(clock);
      return issue({ namespace, serviceAccount: serviceAccountName, audience: audiences[0], expirationSeconds, pod });
    },
    forgetPod: () => {},
  };
}

/** There is no controller here that binds claims: a claim and a volume that name each other, from either side, are bound. */
function boundClaims(manifests: Manifests): ClaimReader {
  const volumes = manifests.all(persistentVolumeKind);
  const volumeOf = (claim: PersistentVolumeClaim): PersistentVolume | undefined =>
    volumes.find(({ metadata, spec }) =>
      spec.claimRef === undefined
        ? metadata.name === claim.spec.volumeName
        : spec.claimRef.name === claim.metadata.name && (spec.claimRef.namespace ?? '') === claim.metadata.namespace,
    );
  return {
    claim(namespace, name) {
      const claim = manifests.get(claimKind, namespace, name);
      const volume = claim && volumeOf(claim);
      if (claim === undefined || volume === undefined) return claim;
      return {
        ...claim,
        spec: { ...claim.spec, volumeName: volume.metadata.name },
        status: { ...claim.status, phase: 'Bound' },
      };
    },
    persistentVolume(name) {
      const volume = manifests.get(persistentVolumeKind, '', name);
      const claim = volume && manifests.all(claimKind).find((candidate) => volumeOf(candidate) === volume);
      if (volume === undefined || claim === undefined) return volume;
      const { namespace, name: claimName, uid } = claim.metadata;
      const claimRef = {
        ...volume.spec.claimRef,
        name: claimName,
        ...(namespace !== undefined && { namespace }),
        ...(uid !== undefined && { uid }),
      };
      return { ...volume, spec: { ...volume.spec, claimRef } };
    },
  };
}
