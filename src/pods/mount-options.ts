/** How a mount is made: its propagation, and whether read-only holds for the mounts below it too. */
import type { VolumeMount } from '../kube/kinds/pod/container.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ContainerConfigError } from './container-config-error.ts';

export type MountPropagation = 'None' | 'HostToContainer' | 'Bidirectional';

export function propagationOf({ mountPropagation: mode }: VolumeMount): MountPropagation {
  switch (mode) {
    case undefined:
    case 'None':
      return 'None';
    case 'HostToContainer':
    case 'Bidirectional':
      return mode;
    default:
      throw new ContainerConfigError(`invalid MountPropagation mode: ${goQuote(mode)}`);
  }
}

export function isRecursivelyReadOnly(
  { name, recursiveReadOnly: mode, readOnly = false, mountPropagation = 'None' }: VolumeMount,
  supported: boolean,
): boolean {
  if (mode === undefined || mode === 'Disabled') return false;
  const failed = 'failed to resolve recursive read-only mode:';
  const requested = `${failed} volume ${goQuote(name)} requested recursive read-only mode, but it is`;
  // Only what the mount itself says counts: that a ConfigMap is read-only anyway does not.
  if (!readOnly) throw new ContainerConfigError(`${requested} not read-only`);
  if (mountPropagation !== 'None') {
    throw new ContainerConfigError(`${requested} not compatible with propagation ${goQuote(mountPropagation)}`);
  }
  if (mode === 'IfPossible') return supported;
  if (mode !== 'Enabled') throw new ContainerConfigError(`${failed} unknown recursive read-only mode ${goQuote(mode)}`);
  if (!supported) throw new ContainerConfigError(`${requested} not supported by the runtime`);
  return true;
}
