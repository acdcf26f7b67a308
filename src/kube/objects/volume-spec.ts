/**
 * What is to be mounted: a volume written in the pod itself, or the PersistentVolume its claim is bound to. Everything
 * after the populator works with this and no longer asks how the pod came to it.
 */
import { MountletError } from '../../base/errors.ts';
import type { PersistentVolume } from './persistent-volume.ts';
import type { Volume } from './volume.ts';

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
}

export type VolumeSpec = InlineVolumeSpec | PersistentVolumeSpec;

export function inlineSpec(volume: Volume): InlineVolumeSpec {
  return { volume, readOnly: false };
}

export function persistentSpec(persistentVolume: PersistentVolume, readOnly: boolean): PersistentVolumeSpec {
  return { persistentVolume, readOnly };
}

/** The name of the volume's directory on disk: for a claim this is the PersistentVolume's name, not the pod's word. */
export function specName(spec: VolumeSpec): string {
  return spec.volume === undefined ? spec.persistentVolume.metadata.name : spec.volume.name;
}

export type VolumeMode = 'Filesystem' | 'Block';

class UnknownVolumeModeError extends MountletError {
  readonly reason = 'UnknownVolumeMode';
  constructor(name: string) {
    super(`cannot get volumeMode for volume: ${name}`);
  }
}

/** Defaulting fills a PersistentVolume's mode, so one without it came around the API. */
export function volumeModeOf(spec: VolumeSpec): VolumeMode {
  if (spec.volume !== undefined) return 'Filesystem';
  const mode = spec.persistentVolume.spec.volumeMode;
  if (mode !== 'Filesystem' && mode !== 'Block') throw new UnknownVolumeModeError(specName(spec));
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
