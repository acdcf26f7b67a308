/**
 * From a pod's volume to what is really mounted: a claim leads to its PersistentVolume, anything else is the volume
 * itself. Refusals are in the words the kubelet uses in its FailedMount event.
 */
import { MountletError } from '../base/errors.ts';
import type { PersistentVolume, PersistentVolumeClaim } from './objects/persistent-volume.ts';
import type { Pod } from './objects/pod.ts';
import { inlineSpec, persistentSpec, volumeModeOf } from './objects/volume-spec.ts';
import type { PersistentVolumeSpec, VolumeSpec } from './objects/volume-spec.ts';
import type { Volume } from './objects/volume.ts';

/** Where claims and volumes are read, each time anew: a claim that was bound a moment ago counts as bound. */
export interface ClaimReader {
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  persistentVolume(name: string): PersistentVolume | undefined;
}

export class ClaimError extends MountletError {
  readonly reason = 'FailedMount';
}

export interface VolumeUse {
  readonly mounted: boolean;
  readonly asDevice: boolean;
}

/** `use` is how the pod's containers name the volume: as a file system, as a raw device, or both. */
export function resolveVolume(pod: Pod, volume: Volume, use: VolumeUse, reader: ClaimReader): VolumeSpec {
  const claimName = claimNameOf(pod, volume);
  if (claimName === undefined) return inlineSpec(volume);
  const claim = reader.claim(pod.metadata.namespace ?? '', claimName);
  const bound = boundClaim(pod, volume, claim);
  return specOfClaim(pod, volume, use, bound, reader.persistentVolume(bound.volumeName));
}

/** The claim behind a volume; undefined for a volume that is written out in the pod. */
export function claimNameOf(pod: Pod, { name, persistentVolumeClaim, ephemeral }: Volume): string | undefined {
  return persistentVolumeClaim?.claimName ?? (ephemeral === undefined ? undefined : `${pod.metadata.name}-${name}`);
}

interface BoundClaim {
  readonly claim: PersistentVolumeClaim;
  /** Of the PersistentVolume to read next. */
  readonly volumeName: string;
}

/** What the claim, as it was just read, must fulfil before its PersistentVolume is looked at. */
export function boundClaim(pod: Pod, volume: Volume, claim: PersistentVolumeClaim | undefined): BoundClaim {
  const fail = (why: string): never => {
    throw new ClaimError(processingFailed(pod, volume, why));
  };
  if (claim === undefined) {
    return fail(`failed to fetch PVC from API server: persistentvolumeclaims "${claimNameOf(pod, volume)}" not found`);
  }
  if (
    claim.metadata.deletionTimestamp !== undefined &&
    !claim.metadata.finalizers?.includes('kubernetes.io/pvc-protection')
  ) {
    fail('PVC is being deleted');
  }
  if (claim.status?.phase !== 'Bound') fail('PVC is not bound');
  const { volumeName = '' } = claim.spec;
  if (volumeName === '') fail('PVC has empty pvc.Spec.VolumeName');
  if (volume.ephemeral !== undefined) requireOwner(pod, claim);
  return { claim, volumeName };
}

/** What is mounted for a bound claim, given its PersistentVolume as it was just read. */
export function specOfClaim(
  pod: Pod,
  volume: Volume,
  use: VolumeUse,
  { claim, volumeName }: BoundClaim,
  found: PersistentVolume | undefined,
): PersistentVolumeSpec {
  const fail = (why: string): never => {
    throw new ClaimError(processingFailed(pod, volume, why));
  };
  if (found === undefined) {
    return fail(`failed to fetch PV ${volumeName} from API server: persistentvolumes "${volumeName}" not found`);
  }
  const { claimRef } = found.spec;
  if (claimRef === undefined) {
    fail(`found PV object ${volumeName} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim`);
  } else if ((claimRef.uid ?? '') !== (claim.metadata.uid ?? '')) {
    fail(
      `found PV object ${volumeName} but its pv.Spec.ClaimRef.UID ${claimRef.uid ?? ''} does not point to claim.UID ${claim.metadata.uid ?? ''}`,
    );
  }
  const spec = persistentSpec(found, volume.persistentVolumeClaim?.readOnly ?? false);
  requireMode(volume, spec, use);
  return spec;
}

/** The words around whatever went wrong with the claim of a volume. */
export function processingFailed(pod: Pod, volume: Volume, why: string): string {
  return `error processing PVC ${pod.metadata.namespace ?? ''}/${claimNameOf(pod, volume) ?? ''}: ${why}`;
}

/** A claim of that name which somebody else made must not become the pod's. */
function requireOwner(pod: Pod, claim: PersistentVolumeClaim): void {
  const owned = claim.metadata.ownerReferences?.some(
    ({ controller, uid }) => controller === true && uid === pod.metadata.uid,
  );
  if (owned === true) return;
  const { namespace, name } = claim.metadata;
  throw new ClaimError(
    `PVC ${namespace}/${name} was not created for pod ${pod.metadata.namespace}/${pod.metadata.name} (pod is not owner)`,
  );
}

function requireMode({ name }: Volume, spec: VolumeSpec, { mounted, asDevice }: VolumeUse): void {
  const mode = volumeModeOf(spec);
  if (mounted && mode !== 'Filesystem') {
    throw new ClaimError(`volume ${name} has volumeMode ${mode}, but is specified in volumeMounts`);
  }
  if (asDevice && mode !== 'Block') {
    throw new ClaimError(`volume ${name} has volumeMode ${mode}, but is specified in volumeDevices`);
  }
}
