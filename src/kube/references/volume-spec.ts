/**
 * What is to be mounted: a volume written in the pod itself, or the PersistentVolume its claim is bound to. Everything
 * after the populator works with this and no longer asks how the pod came to it.
 */
import { OperatingError } from '../../base/errors.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import type { Volume } from '../kinds/pod/volume.ts';
import type { PersistentVolumeClaim } from '../kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import { migratedKindOf, translatedInline, translatedVolume } from './csi-translation.ts';

interface InlineVolumeSpec {
  readonly volume: Volume;
  readonly persistentVolume?: undefined;
  readonly readOnly: boolean;
}

export interface PersistentVolumeSpec {
  readonly persistentVolume: PersistentVolume;
  readonly volume?: undefined;
  /** From the pod's `persistentVolumeClaim.readOnly`. */
  readonly readOnly: boolean;
  /** Of a kind that a CSI driver has taken over: as that driver knows it, not as the API has it. */
  readonly isMigrated?: true;
  /** Written in the pod, in the words of such a kind: the API has no PersistentVolume of this name. */
  readonly isInline?: true;
}

export type VolumeSpec = InlineVolumeSpec | PersistentVolumeSpec;

export function inlineSpec(volume: Volume): InlineVolumeSpec {
  return { volume, readOnly: false };
}

export function persistentSpec(persistentVolume: PersistentVolume, readOnly: boolean): PersistentVolumeSpec {
  return { persistentVolume, readOnly };
}

/** What has to be mounted or attached: volumes of a kind that a CSI driver has taken over become volumes of that driver. */
export function translatedSpec(spec: VolumeSpec, podNamespace: string): VolumeSpec {
  return spec.volume === undefined ? translatedPersistent(spec) : inlineSpecOf(spec.volume, podNamespace);
}

/** The same for a volume that is written in a pod. */
export function inlineSpecOf(volume: Volume, podNamespace: string): VolumeSpec {
  const persistentVolume = translatedInline(volume, podNamespace);
  if (persistentVolume === undefined) return inlineSpec(volume);
  return { persistentVolume, readOnly: false, isMigrated: true, isInline: true };
}

function translatedPersistent(spec: PersistentVolumeSpec): PersistentVolumeSpec {
  if (migratedKindOf(spec.persistentVolume.spec) === undefined) return spec;
  return { ...spec, persistentVolume: translatedVolume(spec.persistentVolume), isMigrated: true };
}

/** The name of the volume's directory on disk: for a claim this is the PersistentVolume's name, not the pod's word. */
export function specName(spec: VolumeSpec): string {
  return spec.volume === undefined ? spec.persistentVolume.metadata.name : spec.volume.name;
}

export type VolumeMode = 'Filesystem' | 'Block';

/** Defaulting fills a PersistentVolume's mode, so one without it came around the API. */
export function volumeModeOf(spec: VolumeSpec): VolumeMode {
  if (spec.volume !== undefined) return 'Filesystem';
  const mode = spec.persistentVolume.spec.volumeMode;
  if (mode !== 'Filesystem' && mode !== 'Block')
    throw new OperatingError('UnknownVolumeMode', `cannot get volumeMode for volume: ${specName(spec)}`);
  return mode;
}

/** A beta annotation is older than the field and wins over it. */
export function mountOptionsOf(spec: VolumeSpec): readonly string[] {
  if (spec.volume !== undefined) return [];
  const { metadata, spec: fields } = spec.persistentVolume;
  const annotation = metadata.annotations?.['volume.beta.kubernetes.io/mount-options'];
  const options = annotation === undefined ? (fields.mountOptions ?? []) : annotation.split(',');
  return [...new Set(options.filter((option) => option !== ''))].toSorted();
}

// From a pod's volume to what is really mounted: a claim leads to its PersistentVolume, anything else is the volume
// itself. Refusals are in the words the kubelet uses in its FailedMount event.

/** Where claims and volumes are read, without a cache: a claim that was bound a moment ago counts as bound. */
export interface ClaimReader {
  claim(namespace: string, name: string): PersistentVolumeClaim | undefined;
  persistentVolume(name: string): PersistentVolume | undefined;
}

export interface VolumeUse {
  readonly mounted: boolean;
  readonly asDevice: boolean;
}

/** `use` is how the pod's containers name the volume: as a file system, as a raw device, or both. */
export function resolveVolume(pod: Pod, volume: Volume, use: VolumeUse, reader: ClaimReader): VolumeSpec {
  const claimName = claimNameOf(pod, volume);
  if (claimName === undefined) return inlineSpecOf(volume, pod.metadata.namespace ?? '');
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

/** What the claim, as it was just read, must fulfil before its PersistentVolume is read. */
export function boundClaim(pod: Pod, volume: Volume, claim: PersistentVolumeClaim | undefined): BoundClaim {
  const fail = (why: string): never => {
    throw new OperatingError('FailedMount', processingFailed(pod, volume, why));
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
    throw new OperatingError('FailedMount', processingFailed(pod, volume, why));
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
  const spec = translatedPersistent(persistentSpec(found, volume.persistentVolumeClaim?.readOnly ?? false));
  requireMode(volume, spec, use);
  return spec;
}

/** The words around whatever went wrong with the claim of a volume. */
export function processingFailed(pod: Pod, volume: Volume, why: string): string {
  return `error processing PVC ${pod.metadata.namespace ?? ''}/${claimNameOf(pod, volume) ?? ''}: ${why}`;
}

/** By its controller, not by its name: names may collide. */
export function isMadeFor({ metadata: { uid } }: Pod, { metadata }: PersistentVolumeClaim): boolean {
  return metadata.ownerReferences?.some((owner) => owner.controller === true && owner.uid === uid) ?? false;
}

/** A claim of that name that another owner made must not become the pod's. */
export function requireOwner(pod: Pod, claim: PersistentVolumeClaim): void {
  if (isMadeFor(pod, claim)) return;
  const { namespace, name } = claim.metadata;
  throw new OperatingError(
    'FailedMount',
    `PVC ${namespace}/${name} was not created for pod ${pod.metadata.namespace}/${pod.metadata.name} (pod is not owner)`,
  );
}

function requireMode({ name }: Volume, spec: VolumeSpec, { mounted, asDevice }: VolumeUse): void {
  const mode = volumeModeOf(spec);
  if (mounted && mode !== 'Filesystem') {
    throw new OperatingError('FailedMount', `volume ${name} has volumeMode ${mode}, but is specified in volumeMounts`);
  }
  if (asDevice && mode !== 'Block') {
    throw new OperatingError('FailedMount', `volume ${name} has volumeMode ${mode}, but is specified in volumeDevices`);
  }
}
