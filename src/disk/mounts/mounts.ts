/**
 * Everything mountlet mounts: tmpfs for secrets, hugetlbfs, bind mounts for subPaths and local volumes. Not the mounts
 * inside of containers, which belong to the runtimes. By system calls, which take some 50 µs, less than a turn of the event loop
 * through a thread would; mounts that wait for a disk or a server are in devices/.
 */
import { closeSync, mkdtempSync, realpathSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { errorCode, messageOf } from '../../base/errors.ts';
import { SystemCallError, guarded } from '../../linux/system-call-error.ts';
import {
  type SystemCalls,
  loadSystemCalls,
  mountAttributes,
  mountFlags,
  treeFlags,
  unmountFlags,
} from '../../linux/system-calls.ts';
import { type MountEntry, isMountPoint, readMountsBelow } from './mount-table.ts';

/** Options a bind mount can have of its own: they take something away from what the mounted file system allows. */
export const bindRestrictions = ['ro', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime', 'relatime'] as const;
export type BindRestriction = (typeof bindRestrictions)[number];

interface TmpfsOptions {
  /** 0 or absent: no limit but the kernel's (half of the memory). */
  readonly sizeBytes?: bigint;
}

interface TmpfsMount {
  /** False where the kernel cannot keep this tmpfs out of swap (before Linux 6.4, or in a user namespace). */
  readonly noSwap: boolean;
}

interface BindOptions {
  readonly readOnly?: boolean;
  /** What is mounted below the source comes along (and is read-only too, if asked for). */
  readonly recursive?: boolean;
  /** More that this mount does not allow; what it mounts is seen without them for an instant. */
  readonly options?: readonly BindRestriction[];
}

/** Paths are absolute. Failures are SystemCallErrors with the errno's name as `code`. */
export interface Mounts {
  /** Why this process cannot mount, or undefined when it can. Found out once, by mounting a small tmpfs. */
  readonly unavailable: string | undefined;
  mountTmpfs(directory: string, options?: TmpfsOptions): TmpfsMount;
  /** `pageSize` as in `hugepages-2Mi`: `2Mi`. */
  mountHugetlbfs(directory: string, options: { readonly pageSize: string }): void;
  /** Follows symbolic links in the source; for a source that others can change use `bindFileDescriptor`. */
  bind(source: string, target: string, options?: BindOptions): void;
  /** Binds what an open file (O_PATH is enough) stands for, whatever has been renamed or linked since it was opened. */
  bindFileDescriptor(descriptor: number, target: string, options?: BindOptions): void;
  unmount(target: string, options?: { readonly lazy?: boolean }): void;
  /** Exact for bind mounts too; a symbolic link is not followed. A missing path is an error with code ENOENT. */
  isMountPoint(path: string): boolean;
}

interface MountSettings {
  /** Replaced by tests of older kernels. */
  readonly loadSystemCalls?: () => SystemCalls;
  /** Where the one mount is tried that answers `unavailable`. */
  readonly temporaryDirectory?: string;
}

/** Mounts of this process, by system calls. Nothing is loaded before it is used. */
export function systemMounts(settings: MountSettings = {}): Mounts {
  return new SystemMounts(settings.loadSystemCalls ?? loadSystemCalls, settings.temporaryDirectory ?? tmpdir());
}

/** Options of a tmpfs, in the kubelet's order. */
export function tmpfsOptions(sizeBytes: bigint, noSwap: boolean): string {
  if (sizeBytes < 0n) throw new RangeError(`A tmpfs cannot have ${sizeBytes} bytes`);
  return [...(sizeBytes > 0n ? [`size=${sizeBytes}`] : []), ...(noSwap ? ['noswap'] : [])].join(',');
}

class SystemMounts implements Mounts {
  readonly #load: () => SystemCalls;
  readonly #temporaryDirectory: string;
  #loaded: SystemCalls | undefined;
  #probed: { readonly unavailable: string | undefined } | undefined;
  #noSwapRefused = false;

  constructor(load: () => SystemCalls, temporaryDirectory: string) {
    this.#load = load;
    this.#temporaryDirectory = temporaryDirectory;
  }

  get #calls(): SystemCalls {
    this.#loaded ??= this.#load();
    return this.#loaded;
  }

  get unavailable(): string | undefined {
    this.#probed ??= { unavailable: this.#probe() };
    return this.#probed.unavailable;
  }

  /** Asking for capabilities would not do: a security module or a system call filter may refuse root as well. */
  #probe(): string | undefined {
    const calls = this.#calls;
    let directory: string | undefined;
    try {
      directory = mkdtempSync(join(this.#temporaryDirectory, 'mountlet-probe-'));
      calls.mount({ source: 'tmpfs', target: directory, fileSystem: 'tmpfs', flags: 0, data: 'size=4096' });
      calls.unmount(directory, unmountFlags.noFollow | unmountFlags.detach);
      return undefined;
    } catch (thrown) {
      // Where it was tried is of no interest: the directory is gone.
      return thrown instanceof SystemCallError ? thrown.problem : messageOf(thrown);
    } finally {
      if (directory !== undefined) removeIfEmpty(directory);
    }
  }

  mountTmpfs(directory: string, { sizeBytes = 0n }: TmpfsOptions = {}): TmpfsMount {
    requireAbsolute(directory);
    const mount = (noSwap: boolean): TmpfsMount => {
      const data = tmpfsOptions(sizeBytes, noSwap);
      this.#calls.mount({ source: 'tmpfs', target: directory, fileSystem: 'tmpfs', flags: 0, data });
      return { noSwap };
    };
    if (this.#noSwapRefused) return mount(false);
    try {
      return mount(true);
    } catch (thrown) {
      // Trying is the surest question: neither the kernel's version nor the user namespace has to be found out.
      if (!(thrown instanceof SystemCallError) || thrown.code !== 'EINVAL') throw thrown;
      const mounted = mount(false);
      this.#noSwapRefused = true; // only now is it sure that `noswap` was what the kernel did not like
      return mounted;
    }
  }

  mountHugetlbfs(directory: string, { pageSize }: { readonly pageSize: string }): void {
    requireAbsolute(directory);
    if (!/^\d+[A-Za-z]*$/.test(pageSize)) throw new RangeError(`"${pageSize}" is no size of a huge page`);
    const data = `pagesize=${pageSize}`;
    this.#calls.mount({ source: 'nodev', target: directory, fileSystem: 'hugetlbfs', flags: 0, data });
  }

  bind(source: string, target: string, { readOnly = false, recursive = false, options = [] }: BindOptions = {}): void {
    requireAbsolute(source);
    requireAbsolute(target);
    const restrictions: BindRestriction[] = readOnly ? ['ro', ...options] : [...options];
    if (restrictions.length > 0 && options.length === 0 && this.#bindReadOnly(source, target, recursive)) return;
    this.#calls.mount({ source, target, flags: mountFlags.bind | (recursive ? mountFlags.recursive : 0) });
    if (restrictions.length === 0) return;
    try {
      const made = entriesAt(target);
      for (const entry of recursive
        ? made
        : made.filter(({ mountPoint }) => mountPoint === realPath(target)).slice(0, 1)) {
        const flags = mountFlags.remount | mountFlags.bind | flagsOf([...entry.options, ...restrictions]);
        this.#calls.mount({ target: entry.mountPoint, flags });
      }
    } catch (thrown) {
      this.unmount(target, { lazy: true }); // better no mount than one that allows more
      throw thrown;
    }
  }

  /**
   * A read-only bind that is never seen writable, so that no container can start in between; false from a kernel that cannot
   * do that.
   */
  #bindReadOnly(source: string, target: string, recursive: boolean): boolean {
    const calls = this.#calls;
    const depth = recursive ? treeFlags.recursive : 0;
    let tree: number | undefined;
    try {
      tree = calls.openTree(source, treeFlags.clone | treeFlags.closeOnExec | depth);
      calls.setMountAttributes(tree, { set: mountAttributes.readOnly }, depth);
      calls.moveMount(tree, target, 0);
      return true;
    } catch (thrown) {
      if (isUnknownCall(thrown)) return false;
      throw thrown;
    } finally {
      if (tree !== undefined) closeSync(tree); // a copy that was mounted nowhere goes with its descriptor
    }
  }

  bindFileDescriptor(descriptor: number, target: string, options: BindOptions = {}): void {
    this.bind(`/proc/self/fd/${descriptor}`, target, options);
  }

  unmount(target: string, { lazy = false }: { readonly lazy?: boolean } = {}): void {
    requireAbsolute(target);
    this.#calls.unmount(target, unmountFlags.noFollow | (lazy ? unmountFlags.detach : 0));
  }

  isMountPoint(path: string): boolean {
    requireAbsolute(path);
    // Native code is not loaded for a question alone.
    return this.#loaded?.isMountRoot(path) ?? isMountPoint(path);
  }
}

/** What cannot be removed stays in the directory for temporary files; the answer that was found is worth more. */
export function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {}
}

function entriesAt(target: string): MountEntry[] {
  return readMountsBelow(realPath(target));
}

function realPath(path: string): string {
  return guarded(path, () => realpathSync(path));
}

function requireAbsolute(path: string): void {
  if (!isAbsolute(path)) throw new RangeError(`A path to mount must be absolute: "${path}"`);
}

/** Before Linux 5.12 not all these calls exist; a container's filter may answer for them with EPERM. */
function isUnknownCall(thrown: unknown): boolean {
  const code = errorCode(thrown);
  return code === 'ENOSYS' || code === 'EPERM';
}

const flagOf: Readonly<Record<string, number>> = {
  ro: mountFlags.readOnly,
  nosuid: mountFlags.noSetuid,
  nodev: mountFlags.noDevices,
  noexec: mountFlags.noExec,
  noatime: mountFlags.noAccessTime,
  nodiratime: mountFlags.noDirectoryAccessTime,
  relatime: mountFlags.relativeAccessTime,
  nosymfollow: mountFlags.noSymlinkFollow,
};

/** A remount replaces all flags: those that are not repeated are lost (or refused, in a user namespace). */
function flagsOf(options: MountEntry['options']): number {
  const flags = options.reduce((all, option) => all | (flagOf[option] ?? 0), 0);
  const accessTime = mountFlags.noAccessTime | mountFlags.relativeAccessTime;
  return (flags & accessTime) === 0 ? flags | mountFlags.strictAccessTime : flags; // the table shows no word for strict
}
