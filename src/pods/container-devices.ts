/** The raw block devices a container is given. */
import type { Container, EphemeralContainer } from '../kube/kinds/pod/container.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ContainerConfigError } from './container-config-error.ts';
import type { MountedVolumes } from './mounted-volumes.ts';

export interface ContainerDevice {
  readonly name: string;
  readonly devicePath: string;
  /** The link in the pod's device directory; whoever opens it follows it to the device. */
  readonly hostPath: string;
  /** As a device cgroup spells it: read, write and mknod. */
  readonly permissions: 'r' | 'mrw';
}

export function buildDevices(
  { name: containerName, volumeDevices = [] }: Container | EphemeralContainer,
  volumes: MountedVolumes,
): readonly ContainerDevice[] {
  return volumeDevices.flatMap(({ name, devicePath }) => {
    if (!devicePath.startsWith('/')) {
      throw new ContainerConfigError(`error DevicePath \`${devicePath}\` must be an absolute path`);
    }
    const volume = volumes.get(name);
    if (volume?.kind !== 'block') {
      throw new ContainerConfigError(
        `cannot find volume ${goQuote(name)} to pass into container ${goQuote(containerName)}`,
      );
    }
    // The kubelet starts a container without a device whose link is gone, and so do we.
    if (volume.link === undefined) return [];
    return [{ name, devicePath, hostPath: volume.link, permissions: volume.readOnly ? 'r' : 'mrw' } as const];
  });
}
