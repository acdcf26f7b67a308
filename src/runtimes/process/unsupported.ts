/** What this runtime refuses to run, rather than run it in another way than it was asked for. */
import type { ContainerRequest, PodRequest } from '../runtime.ts';
import type { Powers } from './identity.ts';
import { unknownCapabilities } from './linux-capabilities.ts';
import { isBelow } from './root-path.ts';
import type { HostMount } from './sandbox-plan.ts';

export function unsupportedReason(
  pod: PodRequest,
  { security, mounts }: ContainerRequest,
  powers: Powers,
  hostMounts: () => readonly HostMount[],
): string | undefined {
  const [sysctl] = foreignSysctls(pod.sysctls);
  if (sysctl !== undefined)
    return `sysctl "${sysctl}" belongs to the network or the whole machine, which its pods share in the process runtime`;
  const [unknown] = unknownCapabilities([...security.addCapabilities, ...security.dropCapabilities]);
  if (unknown !== undefined) return `unknown capability "${unknown}"`;
  for (const { containerPath, hostPath, propagation, recursiveReadOnly, image } of mounts) {
    if (image !== undefined) return `the process runtime has no images, so none can be mounted at "${containerPath}"`;
    if (propagation === 'Bidirectional')
      return `mount propagation Bidirectional at "${containerPath}" is not possible in the process runtime`;
    if (recursiveReadOnly)
      return `a recursively read-only mount at "${containerPath}" is not possible in the process runtime`;
    if (propagation === 'HostToContainer') {
      const on = mountOf(hostMounts(), hostPath);
      if (on !== undefined && !on.propagates) {
        return `path "${hostPath}" is mounted on "${on.mountPoint}" but it is not a shared or slave mount`;
      }
    }
  }
  if (powers.kind === 'root') return undefined;
  const { uid, gid, supplementalGroups, privileged } = security;
  if (privileged) return 'privileged containers need the process runtime to run as root';
  if (![undefined, 0, powers.uid].includes(uid) || ![undefined, 0, powers.gid].includes(gid)) {
    return `containers as user ${uid ?? powers.uid}:${gid ?? powers.gid} need the process runtime to run as root: it runs as ${powers.uid}:${powers.gid} and can be nobody else`;
  }
  const group = supplementalGroups.find((id) => id !== powers.gid);
  return group === undefined ? undefined : `supplemental group ${group} needs the process runtime to run as root`;
}

/** Those that an IPC namespace does not have for itself. */
export function foreignSysctls(sysctls: PodRequest['sysctls']): string[] {
  return Object.keys(sysctls).filter((name) => !/^(kernel\.(shm|msg)\w*|kernel\.sem|fs\.mqueue\.\w+)$/.test(name));
}

function mountOf(mounts: readonly HostMount[], path: string): HostMount | undefined {
  return mounts
    .filter(({ mountPoint }) => isBelow(mountPoint, path))
    .reduce<HostMount | undefined>(
      (best, mount) => (best && best.mountPoint.length > mount.mountPoint.length ? best : mount),
      undefined,
    );
}
