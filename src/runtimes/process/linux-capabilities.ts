/**
 * Which capabilities the processes of a container have. Pure. The default set is that of container engines without MKNOD
 * (this runtime has no filter for devices, so nobody gets to make them unless the pod asks for it by name).
 */
import type { ContainerSecurity } from '../runtime.ts';

/** In the order of their numbers, as capability.h has them. */
export const capabilityNames: readonly string[] = (
  'CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE ' +
  'NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN ' +
  'SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE ' +
  'MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE'
).split(' ');

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
export function unknownCapabilities(names: readonly string[]): string[] {
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
