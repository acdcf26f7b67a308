/**
 * Everything mountlet mounts: tmpfs for secrets, hugetlbfs, bind mounts for subPaths and local volumes. Not the mounts
 * inside of containers, which belong to the runtimes. All calls are synchronous: they take some 50 µs, less than a turn
 * of the event loop through a thread would.
 */
import { mkdtempSync, realpathSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { MountletError, messageOf } from '../../base/errors.ts';
import { kernelMounter } from './kernel-mounter.ts';
import { isMountPoint } from './mount-point.ts';
import { readMountsBelow, type MountEntry } from './mount-table.ts';
import type { BindRestriction, Mounter } from './mounter.ts';
import { SystemCallError, systemCallError } from '../system-call-error.ts';
import { loadSystemCalls, type SystemCalls } from './system-calls.ts';

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
  /** Fails with EINVAL when more than that is in use. */
  resizeTmpfs(directory: string, sizeBytes: bigint): void;
  unmount(target: string, options?: { readonly lazy?: boolean }): void;
  /** Exact for bind mounts too; a symbolic link is not followed. A missing path is an error with code ENOENT. */
  isMountPoint(path: string): boolean;
}

interface MountSettings {
  /** Throws when system calls cannot be made; then nothing can be mounted. */
  readonly loadSystemCalls?: () => SystemCalls;
  /** Where the one mount is tried that answers `unavailable`. */
  readonly temporaryDirectory?: string;
}

export class NotTmpfsError extends MountletError {
  readonly reason = 'NotTmpfs';
  constructor(directory: string, found: string | undefined) {
    super(
      `Cannot resize "${directory}": ${found === undefined ? 'nothing' : `a ${found}`} is mounted there, not a tmpfs`,
    );
  }
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
  #loaded: Mounter | undefined;
  #probed: { readonly unavailable: string | undefined } | undefined;
  #noSwapRefused = false;

  constructor(load: () => SystemCalls, temporaryDirectory: string) {
    this.#load = load;
    this.#temporaryDirectory = temporaryDirectory;
  }

  get #mounter(): Mounter {
    this.#loaded ??= kernelMounter(this.#load());
    return this.#loaded;
  }

  get unavailable(): string | undefined {
    this.#probed ??= { unavailable: this.#probe() };
    return this.#probed.unavailable;
  }

  /** Asking for capabilities would not do: a security module or a system call filter may refuse root as well. */
  #probe(): string | undefined {
    let directory: string | undefined;
    try {
      directory = mkdtempSync(join(this.#temporaryDirectory, 'mountlet-probe-'));
      this.#mounter.mount({ source: 'tmpfs', target: directory, fileSystem: 'tmpfs', options: 'size=4096' });
      this.#mounter.unmount(directory, true);
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
      const options = tmpfsOptions(sizeBytes, noSwap);
      this.#mounter.mount({ source: 'tmpfs', target: directory, fileSystem: 'tmpfs', options });
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
    const options = `pagesize=${pageSize}`;
    this.#mounter.mount({ source: 'nodev', target: directory, fileSystem: 'hugetlbfs', options });
  }

  bind(source: string, target: string, { readOnly = false, recursive = false, options = [] }: BindOptions = {}): void {
    requireAbsolute(source);
    requireAbsolute(target);
    const restrictions: BindRestriction[] = readOnly ? ['ro', ...options] : [...options];
    if (restrictions.length === 0) return this.#mounter.bind(source, target, recursive);
    if (options.length === 0 && this.#mounter.bindReadOnly(source, target, recursive)) return;
    this.#mounter.bind(source, target, recursive);
    try {
      const made = entriesAt(target);
      for (const entry of recursive
        ? made
        : made.filter(({ mountPoint }) => mountPoint === realPath(target)).slice(0, 1)) {
        this.#mounter.restrict(entry, restrictions);
      }
    } catch (thrown) {
      this.#mounter.unmount(target, true); // better no mount than one that allows more
      throw thrown;
    }
  }

  bindFileDescriptor(descriptor: number, target: string, options: BindOptions = {}): void {
    this.bind(`/proc/self/fd/${descriptor}`, target, options);
  }

  resizeTmpfs(directory: string, sizeBytes: bigint): void {
    requireAbsolute(directory);
    const path = realPath(directory);
    const entry = entriesAt(path).find(({ mountPoint }) => mountPoint === path); // the topmost comes first
    if (entry?.fileSystem !== 'tmpfs') throw new NotTmpfsError(directory, entry?.fileSystem);
    // A remount that does not repeat `noswap` would turn swap on, which the kernel refuses.
    this.#mounter.reconfigure(entry, tmpfsOptions(sizeBytes, entry.superOptions.includes('noswap')));
  }

  unmount(target: string, { lazy = false }: { readonly lazy?: boolean } = {}): void {
    requireAbsolute(target);
    this.#mounter.unmount(target, lazy);
  }

  isMountPoint(path: string): boolean {
    requireAbsolute(path);
    // A question alone is no reason to load native code.
    return this.#loaded === undefined ? isMountPoint(path) : this.#loaded.isMountPoint(path);
  }
}

/** What cannot be removed stays in the directory for temporary files; the answer that was found is worth more. */
function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {}
}

function entriesAt(target: string): MountEntry[] {
  return readMountsBelow(realPath(target));
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

function requireAbsolute(path: string): void {
  if (!isAbsolute(path)) throw new RangeError(`A path to mount must be absolute: "${path}"`);
}
