/**
 * The system calls that Node does not offer, bound with koffi: mounts, the mount flag of statx, file locks. One function
 * for each call and nothing more; callers decide what they are for. Calls that start and follow processes are in
 * processes.ts.
 *
 * Where the C library may lack a wrapper the call goes through syscall(2), with numbers that are the same on every
 * architecture (all calls since Linux 5.0 have such numbers).
 */
import { createRequire } from 'node:module';
import { getSystemErrorName } from 'node:util';
import type * as Koffi from 'koffi'; // the type alone: the module is loaded on demand
import { SystemCallError } from './system-call-error.ts';

interface MountCall {
  readonly source?: string;
  readonly target: string;
  readonly fileSystem?: string;
  readonly flags: number;
  readonly data?: string;
}

interface MountAttributeChange {
  /** Of `mountAttributes`. */
  readonly set: bigint;
  /** One of `propagations`. */
  readonly propagation?: number;
}

export interface SystemCalls {
  mount(call: MountCall): void;
  unmount(target: string, flags: number): void;
  /** The descriptor of a mount; with `treeFlags.clone` of a copy that is mounted nowhere yet. The caller closes it. */
  openTree(path: string, flags: number): number;
  /** Sets attributes of the mount that `tree` is the root of; those that are not named stay. */
  setMountAttributes(tree: number, change: MountAttributeChange, flags: number): void;
  moveMount(tree: number, target: string, flags: number): void;
  /** Whether a path is the root of a mount, bind mounts included; undefined on kernels before 5.8, which do not report it. */
  isMountRoot(path: string): boolean | undefined;
  /** Takes an exclusive lock on an open file without waiting; false when another open file has it. */
  lockFile(descriptor: number, path: string): boolean;
  /** The user at the other end of a unix socket, when it connected. */
  readonly peerUid: (descriptor: number) => number;
}

/** Flags of mount(2). */
export const mountFlags = {
  readOnly: 1,
  noSetuid: 2,
  noDevices: 4,
  noExec: 8,
  remount: 32,
  noSymlinkFollow: 256,
  noAccessTime: 1024,
  noDirectoryAccessTime: 2048,
  bind: 4096,
  recursive: 16384,
  relativeAccessTime: 1 << 21,
  strictAccessTime: 1 << 24,
} as const;

/** How a mount shares what is mounted on it with its copies: a flag of mount(2), a field of mount_setattr(2). */
export const propagations = { private: 1 << 18, shared: 1 << 20 } as const;

/** Flags of umount2(2). */
export const unmountFlags = { detach: 2, noFollow: 8 } as const;

/** Flags of open_tree(2) and mount_setattr(2). */
export const treeFlags = { clone: 1, closeOnExec: 0o2000000, emptyPath: 0x1000, recursive: 0x8000 } as const;

/** Flags of move_mount(2). `beneath` (Linux 6.5) puts the new mount under the one that is there. */
export const moveFlags = { fromEmptyPath: 4, beneath: 0x200 } as const;

/** Attributes of mount_setattr(2). */
export const mountAttributes = { readOnly: 1n, noSetuid: 2n, noDevices: 4n, noExec: 8n } as const;

const callNumbers = { openTree: 428, moveMount: 429, setMountAttributes: 442 } as const;
const currentDirectory = -100; // AT_FDCWD: unused, since all paths given here are absolute
const noFollow = 0x100; // AT_SYMLINK_NOFOLLOW
const noAutomount = 0x800; // AT_NO_AUTOMOUNT
const basicStatus = 0x7ff; // STATX_BASIC_STATS: asked for less, the kernel does not ask a broken file system and reports no error
const attributeMountRoot = 0x2000n; // STATX_ATTR_MOUNT_ROOT
const lockExclusiveNow = 2 | 4; // LOCK_EX | LOCK_NB
const socketLevel = 1; // SOL_SOCKET
const peerCredentials = 17; // SO_PEERCRED

type CText = string | null;

/** koffi holds native code and takes about 10 ms to load: the first caller loads it, not the import of this file. */
export function loadKoffi(): typeof Koffi {
  return createRequire(import.meta.url)('koffi') as typeof Koffi;
}

export function loadSystemCalls(): SystemCalls {
  const koffi = loadKoffi();
  const library = koffi.load(null); // the running program, which has its C library (glibc or musl) loaded already
  const mount: (source: CText, target: string, type: CText, flags: number, data: CText) => number = library.func(
    'mount',
    'int',
    ['str', 'str', 'str', 'ulong', 'str'],
  );
  const umount2: (target: string, flags: number) => number = library.func('umount2', 'int', ['str', 'int']);
  const flock: (descriptor: number, operation: number) => number = library.func('flock', 'int', ['int', 'int']);
  const getsockopt: (socket: number, level: number, option: number, value: Buffer, size: Buffer) => number =
    library.func('getsockopt', 'int', ['int', 'int', 'int', 'void *', 'void *']);
  const statx: (at: number, path: string, flags: number, mask: number, result: Buffer) => number = library.func(
    'statx',
    'int',
    ['int', 'str', 'int', 'uint', 'void *'],
  );
  const openTree: (call: number, at: number, path: string, flags: number) => number = library.func('syscall', 'long', [
    'long',
    'int',
    'str',
    'uint',
  ]);
  const moveMount: (call: number, from: number, fromPath: string, to: number, toPath: string, flags: number) => number =
    library.func('syscall', 'long', ['long', 'int', 'str', 'int', 'str', 'uint']);
  const mountSetattr: (
    call: number,
    at: number,
    path: string,
    flags: number,
    attributes: Buffer,
    size: number,
  ) => number = library.func('syscall', 'long', ['long', 'int', 'str', 'uint', 'void *', 'size_t']);

  /** errno belongs to the thread and is overwritten by the next call: nothing may come between. */
  const check = (call: string, path: string, result: number): number => {
    if (result !== -1) return result;
    throw new SystemCallError({ call, path, code: getSystemErrorName(-koffi.errno()) });
  };

  return {
    mount({ source, target, fileSystem, flags, data }) {
      refuseNul('mount', target, source, fileSystem, data);
      check('mount', target, mount(source ?? null, target, fileSystem ?? null, flags, data ?? null));
    },
    unmount(target, flags) {
      refuseNul('umount2', target);
      check('umount2', target, umount2(target, flags));
    },
    openTree(path, flags) {
      refuseNul('open_tree', path);
      return check('open_tree', path, openTree(callNumbers.openTree, currentDirectory, path, flags));
    },
    setMountAttributes(tree, { set, propagation = 0 }, flags) {
      const attributes = Buffer.alloc(32); // struct mount_attr: set, clear, propagation, user namespace
      attributes.writeBigUInt64LE(set, 0);
      attributes.writeBigUInt64LE(BigInt(propagation), 16);
      const result = mountSetattr(
        callNumbers.setMountAttributes,
        tree,
        '',
        flags | treeFlags.emptyPath,
        attributes,
        attributes.length,
      );
      check('mount_setattr', `/proc/self/fd/${tree}`, result);
    },
    moveMount(tree, target, flags) {
      refuseNul('move_mount', target);
      const result = moveMount(
        callNumbers.moveMount,
        tree,
        '',
        currentDirectory,
        target,
        flags | moveFlags.fromEmptyPath,
      );
      check('move_mount', target, result);
    },
    isMountRoot(path) {
      refuseNul('statx', path);
      const status = Buffer.alloc(256); // struct statx: attributes at 8, the mask of those the kernel knows at 56
      check('statx', path, statx(currentDirectory, path, noFollow | noAutomount, basicStatus, status));
      if ((status.readBigUInt64LE(56) & attributeMountRoot) === 0n) return undefined;
      return (status.readBigUInt64LE(8) & attributeMountRoot) !== 0n;
    },
    lockFile(descriptor, path) {
      if (flock(descriptor, lockExclusiveNow) === 0) return true;
      const code = getSystemErrorName(-koffi.errno());
      if (code === 'EAGAIN') return false;
      throw new SystemCallError({ call: 'flock', path, code });
    },
    peerUid(descriptor) {
      const credentials = Buffer.alloc(12); // struct ucred: process, user, group
      const size = Buffer.alloc(4);
      size.writeInt32LE(credentials.length);
      const result = getsockopt(descriptor, socketLevel, peerCredentials, credentials, size);
      check('getsockopt', `socket:${descriptor}`, result);
      return credentials.readUInt32LE(4);
    },
  };
}

/** C would stop reading at a NUL and act on another path than the one that was checked. */
function refuseNul(call: string, path: string, ...others: readonly (string | undefined)[]): void {
  if ([path, ...others].some((text) => text?.includes('\0'))) throw new SystemCallError({ call, path, code: 'EINVAL' });
}
