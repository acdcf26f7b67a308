/** Which capabilities containers have, and what this runtime refuses to run rather than run it differently than asked. Pure. */
import type { ContainerRequest, ContainerSecurity, PodRequest } from '../../runtime.ts';
import type { Powers } from './container-program.ts';
import { isBelow } from './root-path.ts';
import type { HostMount } from './sandbox-plan.ts';

export function unsupportedReason(
  pod: PodRequest,
  { security, mounts }: ContainerRequest,
  powers: Powers,
  hidden: readonly string[],
  hostMounts: () => readonly HostMount[],
): string | undefined {
  if (!pod.hostUsers)
    return 'hostUsers: false is not possible in the process runtime: it has no user namespaces for pods';
  const refused = refusedSecurity(pod, security, powers);
  if (refused !== undefined) return refused;
  for (const { containerPath, hostPath, propagation, image } of mounts) {
    if (image !== undefined) return `the process runtime has no images, so none can be mounted at "${containerPath}"`;
    const state = hidden.find((path) => isBelow(path, hostPath));
    if (state !== undefined && !isBelow(pod.directory, hostPath) && !security.privileged)
      return `path "${hostPath}" belongs to mountlet itself and can be mounted by privileged containers only`;
    const on = propagation === 'None' ? undefined : mountOf(hostMounts(), hostPath);
    if (on?.propagation === 'private' || (on?.propagation === 'slave' && propagation === 'Bidirectional')) {
      const needed = propagation === 'Bidirectional' ? 'shared' : 'shared or slave';
      return `path "${hostPath}" is mounted on "${on.mountPoint}" but it is not a ${needed} mount`;
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

/**
 * What a container can do to the machine with them no namespace of this runtime holds: mount, load modules, set the clock, open
 * files by handle, reconfigure the network that pods share with the machine. A container that has one could as well be privileged.
 */
const machineCapabilities =
  'AUDIT_CONTROL AUDIT_READ BLOCK_SUSPEND BPF DAC_READ_SEARCH MAC_ADMIN MAC_OVERRIDE NET_ADMIN PERFMON SYSLOG SYS_ADMIN SYS_BOOT SYS_MODULE SYS_PACCT SYS_RAWIO SYS_TIME WAKE_ALARM'.split(
    ' ',
  );

function refusedSecurity(pod: PodRequest, security: ContainerSecurity, powers: Powers): string | undefined {
  const { addCapabilities, dropCapabilities, privileged, seccomp, procMount, appArmor, seLinux } = security;
  const [unknown] = unknownCapabilities([...addCapabilities, ...dropCapabilities]);
  if (unknown !== undefined) return `unknown capability "${unknown}"`;
  if (!privileged && powers.kind === 'root') {
    const held = capabilitiesOf(security, (1n << 64n) - 1n);
    const tooMuch = held.find((name) => machineCapabilities.includes(name) || (name === 'SYS_PTRACE' && pod.hostPid));
    if (tooMuch !== undefined)
      return `capability "${tooMuch}" reaches the whole machine in the process runtime and takes a privileged container`;
  }
  if (seccomp.type === 'Localhost') return 'seccomp profiles of type Localhost are not possible in the process runtime';
  if (procMount === 'Unmasked' && !privileged)
    return 'procMount: Unmasked takes a privileged container in the process runtime';
  if (appArmor?.type === 'Localhost')
    return 'AppArmor profiles of type Localhost are not possible in the process runtime';
  if (seLinux !== undefined) return 'SELinux options are not possible in the process runtime';
  return undefined;
}

/** Why a sysctl of a pod would be set for others too; undefined when all are of its own namespaces. */
export function sysctlRefusal(sysctls: PodRequest['sysctls'], hasNetwork: boolean): string | undefined {
  const isOwn = (name: string): boolean =>
    /^(kernel\.(shm|msg)\w*|kernel\.sem|fs\.mqueue\.\w+)$/.test(name) || (hasNetwork && name.startsWith('net.'));
  const foreign = Object.keys(sysctls).find((name) => !isOwn(name.replaceAll('/', '.')));
  return foreign === undefined
    ? undefined
    : `sysctl "${foreign}" belongs to the whole machine, or to a network that the pod shares with it`;
}

function mountOf(mounts: readonly HostMount[], path: string): HostMount | undefined {
  return mounts
    .filter(({ mountPoint }) => isBelow(mountPoint, path))
    .reduce<HostMount | undefined>(
      (best, mount) => (best && best.mountPoint.length > mount.mountPoint.length ? best : mount),
      undefined,
    );
}

/** In the order of their numbers, as capability.h has them. */
export const capabilityNames: readonly string[] = (
  'CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE ' +
  'NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN ' +
  'SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE ' +
  'MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE'
).split(' ');

/**
 * Those of container engines without MKNOD: this runtime has no filter for devices, so containers cannot make them unless the
 * pod asks for it by name.
 */
const defaultCapabilities: readonly string[] =
  'CHOWN DAC_OVERRIDE FSETID FOWNER NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE'.split(
    ' ',
  );

type CapabilityRequest = Pick<ContainerSecurity, 'privileged' | 'addCapabilities' | 'dropCapabilities'>;

/** The names, in the order of their numbers. `available` is the bit mask of what this program may hand on at all. */
export function capabilitiesOf(request: CapabilityRequest, available: bigint): string[] {
  const added = request.addCapabilities.map(plainName);
  const dropped = request.dropCapabilities.map(plainName);
  const wanted = new Set(request.privileged ? capabilityNames : defaultCapabilities);
  // As the engines do: ALL first, in whichever list, then the single ones, so that "drop ALL, add X" leaves X.
  if (added.includes('ALL')) for (const name of capabilityNames) wanted.add(name);
  if (dropped.includes('ALL')) wanted.clear();
  for (const name of added) if (name !== 'ALL') wanted.add(name);
  for (const name of dropped) wanted.delete(name);
  return capabilityNames.filter((name, number) => wanted.has(name) && (available & (1n << BigInt(number))) !== 0n);
}

/** Names that no kernel of this table knows; a pod that asks for one is refused. */
function unknownCapabilities(names: readonly string[]): string[] {
  return names.filter((name) => plainName(name) !== 'ALL' && !capabilityNames.includes(plainName(name)));
}

/** One of the sets of a process, from the text of its /proc/PID/status. */
export function capabilitySetIn(status: string, set: 'CapBnd' | 'CapPrm'): bigint {
  const [, digits] = new RegExp(`^${set}:\\s*([0-9a-f]+)$`, 'm').exec(status) ?? [];
  return digits === undefined ? 0n : BigInt(`0x${digits}`);
}

function plainName(name: string): string {
  return name.toUpperCase().replace(/^CAP_/, '');
}
