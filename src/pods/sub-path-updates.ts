/**
 * Whether a mount by subPath shows later content of its volume, which the kubelet never does: what the pod says, and what
 * speaks against it. How it is done, and whether this machine can, is decided elsewhere.
 */
import { posix } from 'node:path';
import type { Container, EphemeralContainer, VolumeMount } from '../kube/kinds/pod/container.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ContainerConfigError } from './container-config-error.ts';

/** `"false"` on a pod: its mounts by subPath stay as they were when their container started, as with the kubelet. */
export const subPathUpdatesAnnotation = 'mountlet.dev/subpath-updates';

export function wantsSubPathUpdates({ metadata }: Pod): boolean {
  const value = metadata.annotations?.[subPathUpdatesAnnotation] ?? 'true';
  if (value === 'true' || value === 'false') return value === 'true';
  throw new ContainerConfigError(
    `invalid annotation ${subPathUpdatesAnnotation}: ${goQuote(value)}: must be "true" or "false"`,
  );
}

/** What runtimes mount into a container on their own account. */
const runtimePaths = ['/dev', '/proc', '/sys', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf'];
const terminationMessagePathDefault = '/dev/termination-log';

/**
 * New content is mounted over a directory as a whole, and would hide what else is mounted in it. `Bidirectional` would let
 * the container mount over it on the host. Runtimes refuse recursively read-only mounts with propagation.
 */
export function canFollow(mount: VolumeMount, container: Container | EphemeralContainer): boolean {
  const { mountPropagation = 'None', recursiveReadOnly = 'Disabled' } = mount;
  if (mountPropagation === 'Bidirectional' || recursiveReadOnly !== 'Disabled') return false;
  const { volumeMounts = [], volumeDevices = [], terminationMessagePath = terminationMessagePathDefault } = container;
  const others = [
    ...volumeMounts.map(({ mountPath }) => mountPath),
    ...volumeDevices.map(({ devicePath }) => devicePath),
    ...runtimePaths,
    terminationMessagePath,
  ];
  const directory = directoryText(mount.mountPath);
  return !others.some((path) => path !== mount.mountPath && directoryText(path).startsWith(directory));
}

/** `/etc/` for `etc`, `/etc` and `//etc/./`. */
function directoryText(path: string): string {
  return posix.normalize(`/${path}/`);
}
