/**
 * Where claims and PersistentVolumes are read, each time anew: a claim that was bound a moment ago counts as bound. The rules
 * about what was read are in kube/references/volume-spec.ts.
 */
import { messageOf } from '../base/errors.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import {
  ClaimError,
  type VolumeSpec,
  type VolumeUse,
  boundClaim,
  claimNameOf,
  inlineSpec,
  processingFailed,
  specOfClaim,
} from '../kube/references/volume-spec.ts';

/** Both must give up by themselves: until every pod was looked at once, nothing on the node is unmounted. */
export interface ClaimSource {
  /** Undefined when there is none; rejects when that cannot be told. */
  claim(namespace: string, name: string, signal: AbortSignal): Promise<PersistentVolumeClaim | undefined>;
  persistentVolume(name: string, signal: AbortSignal): Promise<PersistentVolume | undefined>;
}

export interface ResolvedVolume {
  readonly spec: VolumeSpec;
  /** The group that the PersistentVolume gives the pods that use it, or the empty string. */
  readonly gid: string;
  readonly claim?: PersistentVolumeClaim;
}

/** A volume that is written out in the pod, which needs no reading; undefined for one behind a claim. */
export function resolveInline(pod: Pod, volume: Volume): ResolvedVolume | undefined {
  return claimNameOf(pod, volume) === undefined ? { spec: inlineSpec(volume), gid: '' } : undefined;
}

export async function resolveClaim(
  pod: Pod,
  volume: Volume,
  use: VolumeUse,
  source: ClaimSource,
  signal: AbortSignal,
): Promise<ResolvedVolume> {
  const { namespace = '' } = pod.metadata;
  const read = async <T>(what: string, reading: Promise<T>): Promise<T> => {
    try {
      return await reading;
    } catch (cause) {
      signal.throwIfAborted();
      const why = `failed to fetch ${what} from API server: ${messageOf(cause)}`;
      throw new ClaimError(processingFailed(pod, volume, why), { cause });
    }
  };
  const claimName = claimNameOf(pod, volume) ?? '';
  const bound = boundClaim(pod, volume, await read('PVC', source.claim(namespace, claimName, signal)));
  const found = await read(`PV ${bound.volumeName}`, source.persistentVolume(bound.volumeName, signal));
  const spec = specOfClaim(pod, volume, use, bound, found);
  const gid = spec.persistentVolume.metadata.annotations?.['pv.beta.kubernetes.io/gid'] ?? '';
  return { spec, gid, claim: bound.claim };
}
