/**
 * Claims that are made from templates: one for each template and pod of a StatefulSet, and one for each generic ephemeral volume of
 * a pod. Pure: controllers create these claims, and `render` shows what they lead to.
 */
import type { Pod } from '../kinds/pod/pod.ts';
import type { Volume } from '../kinds/pod/volume.ts';
import { type PersistentVolumeClaim, persistentVolumeClaimShape } from '../kinds/storage/persistent-volume-claim.ts';
import { type ObjectMeta, type OwnerReference, controllerReference, labelSelector } from '../schema/meta.ts';
import { type Of, integer, list, object, string } from '../schema/schema.ts';
import { claimNameOf } from './volume-spec.ts';

/** The fields of a StatefulSet's spec that decide about the claims of its pods. */
export const claimingSpec = object({
  replicas: integer,
  ordinals: object({ start: integer }),
  selector: labelSelector,
  volumeClaimTemplates: list(persistentVolumeClaimShape),
  persistentVolumeClaimRetentionPolicy: object({ whenDeleted: string, whenScaled: string }),
});

export interface ClaimingSet {
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace' | 'uid'>;
  readonly spec: Of<typeof claimingSpec>;
}

interface ClaimingPod {
  readonly ordinal: number;
  /** Known once the pod exists, which is when a claim may belong to it. */
  readonly uid?: string | undefined;
  /** Those of the set's pod template. */
  readonly volumes?: readonly Volume[] | undefined;
}

interface PodStorage {
  /** In the order of the templates. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** A claim's volume takes the place of one that the template itself calls by the same name. */
  readonly volumes: readonly Volume[];
}

export function ordinalPodName(set: string, ordinal: number): string {
  return `${set}-${ordinal}`;
}

/** What a StatefulSet makes for one of its pods. A claim that exists already is used as it is, whoever made it. */
export function storageOfOrdinal(set: ClaimingSet, { ordinal, uid, volumes = [] }: ClaimingPod): PodStorage {
  const { volumeClaimTemplates: templates = [], selector } = set.spec;
  const podName = ordinalPodName(set.metadata.name, ordinal);
  const owner = ownerOfClaims(set, ordinal, podName, uid);
  const claims = templates.map(({ metadata: { labels, annotations, name }, spec }) => {
    const allLabels = { ...labels, ...selector?.matchLabels };
    return {
      metadata: {
        name: `${name}-${podName}`,
        namespace: set.metadata.namespace ?? '',
        ...(Object.keys(allLabels).length > 0 && { labels: allLabels }),
        ...(annotations !== undefined && { annotations }),
        ...(owner !== undefined && { ownerReferences: [owner] }),
      },
      spec,
    };
  });
  const names = new Set(templates.map(({ metadata }) => metadata.name));
  const claimed = [...names].map((name) => ({ name, persistentVolumeClaim: { claimName: `${name}-${podName}` } }));
  return { claims, volumes: [...claimed, ...volumes.filter(({ name }) => !names.has(name))] };
}

/** Retention works by ownership alone: garbage collection deletes the claims of an owner that is gone. */
function ownerOfClaims(
  { metadata, spec }: ClaimingSet,
  ordinal: number,
  podName: string,
  podUid: string | undefined,
): OwnerReference | undefined {
  const { whenDeleted, whenScaled } = spec.persistentVolumeClaimRetentionPolicy ?? {};
  const first = spec.ordinals?.start ?? 0;
  const isCondemned = ordinal < first || ordinal >= first + (spec.replicas ?? 1);
  if (isCondemned && whenScaled === 'Delete') return controllerReference('v1', 'Pod', { name: podName, uid: podUid });
  return whenDeleted === 'Delete' ? controllerReference('apps/v1', 'StatefulSet', metadata) : undefined;
}

/** The claim that is made for an ephemeral volume; undefined for volumes of other kinds. Its name may be that of another's. */
export function ephemeralClaim(pod: Pod, volume: Volume): PersistentVolumeClaim | undefined {
  const template = volume.ephemeral?.volumeClaimTemplate;
  const name = claimNameOf(pod, volume);
  if (template === undefined || name === undefined) return undefined;
  const { labels, annotations } = template.metadata ?? {};
  return {
    metadata: {
      name,
      namespace: pod.metadata.namespace ?? '',
      ...(labels !== undefined && { labels }),
      ...(annotations !== undefined && { annotations }),
      ownerReferences: [controllerReference('v1', 'Pod', pod.metadata)],
    },
    spec: template.spec,
  };
}
