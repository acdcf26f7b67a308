/**
 * Names by which the node knows volumes. A volume of one pod is named after that pod; a volume that pods share, because it
 * is attached to the node or mounted once for all, is named after its storage. A restart must find the same names again.
 */
import { MountletError } from '../base/errors.ts';

/** A pod is known by its UID alone: two pods of one name may follow each other. */
type UniquePodName = string;

export class UniqueNameError extends MountletError {
  readonly reason = 'InvalidUniqueName';
}

/** `kubernetes.io/configmap` as one path segment: `kubernetes.io~configmap`. */
export function escapePluginName(name: string): string {
  return name.replaceAll('/', '~');
}

export function unescapePluginName(name: string): string {
  return name.replaceAll('~', '/');
}

/** For volumes that cannot be attached: never shared between pods. */
export function uniqueVolumeNameOfPod(pluginName: string, podUid: UniquePodName, specName: string): string {
  return `${pluginName}/${podUid}-${specName}`;
}

/** For attachable and device-mountable volumes: shared by all pods that use the same storage. */
export function uniqueVolumeName(pluginName: string, storageName: string): string {
  return `${pluginName}/${storageName}`;
}

interface UniqueVolumeParts {
  readonly pluginName: string;
  readonly volumeName: string;
}

/** Plugin names have exactly one slash, so the second slash is where the volume's own name begins. */
export function splitUniqueVolumeName(name: string): UniqueVolumeParts {
  const second = name.indexOf('/', name.indexOf('/') + 1);
  if (second < 0 || !name.slice(0, second).includes('/')) {
    throw new UniqueNameError(`cannot split volume unique name ${name} to plugin/volume components`);
  }
  return { pluginName: name.slice(0, second), volumeName: name.slice(second + 1) };
}
