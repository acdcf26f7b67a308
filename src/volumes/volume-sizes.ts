/** How large volumes are and may get. Pure. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { podLimits } from '../kube/references/pod-resources.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';
import { Quantity } from '../kube/values/quantity.ts';

/**
 * How much a volume on the node's own disk may hold: what its pod may write at all, or less where the volume says so.
 * Undefined for volumes that take no space of the node's disk; 0 where nobody sets a limit.
 */
export function sizeLimitBytes(pod: Pod, { volume }: VolumeSpec): bigint | undefined {
  const emptyDir = volume?.emptyDir;
  const onDisk = emptyDir !== undefined && (emptyDir.medium ?? '') === '';
  if (!onDisk && volume?.configMap === undefined && volume?.gitRepo === undefined) return undefined;
  const ofPod = podLimits(pod.spec).get('ephemeral-storage')?.value() ?? 0n;
  const { sizeLimit } = emptyDir ?? {};
  const ofVolume = sizeLimit === undefined ? 0n : Quantity.parse(sizeLimit).value();
  return ofVolume > 0n && (ofPod === 0n || ofVolume < ofPod) ? ofVolume : ofPod;
}

/** What a PersistentVolume or the status of a claim says it can hold; 0 where it says nothing. */
export function storageBytes(capacity: Readonly<Record<string, string | number>> | undefined): bigint {
  const storage = capacity?.['storage'];
  return storage === undefined ? 0n : Quantity.parse(storage).value();
}
