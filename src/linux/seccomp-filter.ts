/**
 * The seccomp profile `RuntimeDefault` as a classic BPF program: what containerd's default profile refuses, refused. Calls that a
 * capability of the container permits anyway are allowed with it. Calls newer than this table do not exist (ENOSYS), so that
 * programs fall back to older ones; a foreign architecture kills the process, since its numbers mean other calls. Pure.
 */
import type { Architecture } from './system-program.ts';

/** Name, number on x64 (-1: it has none), on arm64, and the capabilities that allow it. */
const refusedCalls: readonly (readonly [name: string, x64: number, arm64: number, ...capabilities: string[]])[] = [
  ['acct', 163, 89, 'SYS_PACCT'],
  ['add_key', 248, 217],
  ['bpf', 321, 280, 'SYS_ADMIN', 'BPF'],
  ['chroot', 161, 51, 'SYS_CHROOT'],
  ['clock_adjtime', 305, 266, 'SYS_TIME'],
  ['clock_settime', 227, 112, 'SYS_TIME'],
  ['create_module', 174, -1],
  ['delete_module', 176, 106, 'SYS_MODULE'],
  ['fanotify_init', 300, 262, 'SYS_ADMIN'],
  ['finit_module', 313, 273, 'SYS_MODULE'],
  ['fsconfig', 431, 431, 'SYS_ADMIN'],
  ['fsmount', 432, 432, 'SYS_ADMIN'],
  ['fsopen', 430, 430, 'SYS_ADMIN'],
  ['fspick', 433, 433, 'SYS_ADMIN'],
  ['get_kernel_syms', 177, -1],
  ['get_mempolicy', 239, 236, 'SYS_NICE'],
  ['init_module', 175, 105, 'SYS_MODULE'],
  ['io_uring_enter', 426, 426],
  ['io_uring_register', 427, 427],
  ['io_uring_setup', 425, 425],
  ['ioperm', 173, -1, 'SYS_RAWIO'],
  ['iopl', 172, -1, 'SYS_RAWIO'],
  ['kcmp', 312, 272, 'SYS_PTRACE'],
  ['kexec_file_load', 320, 294, 'SYS_BOOT'],
  ['kexec_load', 246, 104, 'SYS_BOOT'],
  ['keyctl', 250, 219],
  ['lookup_dcookie', 212, 18, 'SYS_ADMIN'],
  ['mbind', 237, 235, 'SYS_NICE'],
  ['mount', 165, 40, 'SYS_ADMIN'],
  ['mount_setattr', 442, 442, 'SYS_ADMIN'],
  ['move_mount', 429, 429, 'SYS_ADMIN'],
  ['move_pages', 279, 239, 'SYS_NICE'],
  ['nfsservctl', 180, 42],
  ['open_by_handle_at', 304, 265, 'DAC_READ_SEARCH'],
  ['open_tree', 428, 428, 'SYS_ADMIN'],
  ['perf_event_open', 298, 241, 'SYS_ADMIN', 'PERFMON'],
  ['pidfd_getfd', 438, 438, 'SYS_PTRACE'],
  ['pivot_root', 155, 41],
  ['process_madvise', 440, 440, 'SYS_PTRACE'],
  ['query_module', 178, -1],
  ['quotactl', 179, 60, 'SYS_ADMIN'],
  ['quotactl_fd', 443, 443, 'SYS_ADMIN'],
  ['reboot', 169, 142, 'SYS_BOOT'],
  ['request_key', 249, 218],
  ['set_mempolicy', 238, 237, 'SYS_NICE'],
  ['set_mempolicy_home_node', 450, 450, 'SYS_NICE'],
  ['setdomainname', 171, 162, 'SYS_ADMIN'],
  ['sethostname', 170, 161, 'SYS_ADMIN'],
  ['setns', 308, 268, 'SYS_ADMIN'],
  ['settimeofday', 164, 170, 'SYS_TIME'],
  ['swapoff', 168, 225],
  ['swapon', 167, 224],
  ['_sysctl', 156, -1],
  ['sysfs', 139, -1],
  ['syslog', 103, 116, 'SYSLOG'],
  ['umount2', 166, 39, 'SYS_ADMIN'],
  ['unshare', 272, 97, 'SYS_ADMIN'],
  ['uselib', 134, -1],
  ['userfaultfd', 323, 282],
  ['ustat', 136, -1],
  ['vhangup', 153, 58, 'SYS_TTY_CONFIG'],
];

const lastKnownCall = 456; // futex_requeue
const auditArchitecture: Readonly<Record<Architecture, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };
const calls = {
  clone: { x64: 56, arm64: 220 },
  clone3: { x64: 435, arm64: 435 },
  personality: { x64: 135, arm64: 92 },
  socket: { x64: 41, arm64: 198 },
} as const;
/** Mount, cgroup, UTS, IPC, user, pid and network. clone3 takes its flags by address, where no filter can read them. */
const namespaceFlags = 0x7e020000;
const usualPersonalities = [0, 8, 0x20000, 0x20008, 0xffffffff];
const virtualMachineSockets = 40; // AF_VSOCK: it has no namespaces

const [numberAt, architectureAt, firstArgumentAt] = [0, 4, 16];
const allow = 0x7fff0000;
const killProcess = 0x80000000;
const refuse = (errno: number): number => 0x00050000 | errno;
const [notPermitted, noSuchCall] = [1, 38];

interface Instruction {
  readonly code: number;
  readonly ifTrue?: number;
  readonly ifFalse?: number;
  readonly value: number;
}

const load = (offset: number): Instruction => ({ code: 0x20, value: offset });
const answer = (action: number): Instruction => ({ code: 0x06, value: action });
/** Jumps over that many instructions when the comparison holds, or when it does not. */
const jump = (code: 0x15 | 0x25 | 0x45, value: number, ifTrue: number, ifFalse: number): Instruction => {
  return { code, value, ifTrue, ifFalse };
};
const [equal, greater, anyBit] = [0x15, 0x25, 0x45] as const;

/** `struct sock_filter[]`, for `seccomp(SECCOMP_SET_MODE_FILTER)`. */
export function defaultSeccompFilter(architecture: Architecture, capabilities: readonly string[]): Buffer {
  const has = (name: string): boolean => capabilities.includes(name);
  const number = architecture === 'x64' ? 1 : 2;
  const refused = refusedCalls
    .filter(([, , , ...permitting]) => !permitting.some(has))
    .map((row) => row[number])
    .filter((call) => call >= 0);
  const program: Instruction[] = [
    load(architectureAt),
    jump(equal, auditArchitecture[architecture], 1, 0),
    answer(killProcess),
    load(numberAt),
    jump(greater, lastKnownCall, 0, 1),
    answer(refuse(noSuchCall)),
    ...refused.flatMap((call) => [jump(equal, call, 0, 1), answer(refuse(notPermitted))]),
    ...(has('SYS_ADMIN')
      ? []
      : [
          jump(equal, calls.clone3[architecture], 0, 1),
          answer(refuse(noSuchCall)),
          jump(equal, calls.clone[architecture], 0, 4),
          load(firstArgumentAt),
          jump(anyBit, namespaceFlags, 0, 1),
          answer(refuse(notPermitted)),
          answer(allow),
        ]),
    jump(equal, calls.socket[architecture], 0, 4),
    load(firstArgumentAt),
    jump(equal, virtualMachineSockets, 0, 1),
    answer(refuse(notPermitted)),
    answer(allow),
    jump(equal, calls.personality[architecture], 0, usualPersonalities.length * 2 + 2),
    load(firstArgumentAt),
    ...usualPersonalities.flatMap((value) => [jump(equal, value, 0, 1), answer(allow)]),
    answer(refuse(notPermitted)),
    answer(allow),
  ];
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(({ code, ifTrue = 0, ifFalse = 0, value }, index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  });
  return bytes;
}
