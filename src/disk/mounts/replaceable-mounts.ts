/**
 * Mounts that are exchanged while others look at them: the new one is put beneath the one that is seen, which is then taken
 * off. At every instant a path leads to one of the two. A place below a shared mount does the same in every namespace
 * that has a copy of it as slave, so a container follows without anything in it.
 *
 *   shared base ──place──▶ base + A ──beneath──▶ base + B + A ──detach──▶ base + B
 *                                     (A is seen)                (B is seen)
 *
 * Only by system calls: mount(8) learned this years after the kernel (6.5), and a spawn would take longer than all of it.
 */
import { closeSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MountletError, messageOf } from '../../base/errors.ts';
import { SystemCallError, errnoOf } from '../../linux/system-call-error.ts';
import {
  type SystemCalls,
  loadSystemCalls,
  mountAttributes,
  moveFlags,
  propagations,
  treeFlags,
  unmountFlags,
} from '../../linux/system-calls.ts';
import { openPathOnly } from './mount-table.ts';
import { type Mounts, removeIfEmpty } from './mounts.ts';

/** What a mount may take away from what its file system allows. */
export type PlacedRestriction = 'nosuid' | 'nodev' | 'noexec';

/** Paths are absolute. Failures are SystemCallErrors with the errno's name as `code`. */
export interface ReplaceableMounts {
  /** Why mounts cannot be exchanged here, or undefined when they can. Found out once, by doing it. */
  readonly unavailable: string | undefined;
  /** What is mounted below this mount from now on reaches its copies in other namespaces, as it reaches this one. */
  share(mountPoint: string): void;
  /** Mounts what an open file (O_PATH is enough) stands for over what is seen at `target`: read-only from its first instant. */
  place(descriptor: number, target: string, restrictions?: readonly PlacedRestriction[]): void;
  /** Exchanges the mount that is seen at `target`. A failure may leave both there, the old one on top. */
  replace(descriptor: number, target: string, restrictions?: readonly PlacedRestriction[]): void;
  /** Takes the topmost mount off `target`; who has files of it open keeps them. */
  detach(target: string): void;
  /** A descriptor of a mount that shows what lies below everything mounted within it; the caller closes it. */
  openUncovered(mountPoint: string): number;
}

interface ReplaceableMountSettings {
  /** Replaced by tests of older kernels. */
  readonly loadSystemCalls?: () => SystemCalls;
  /** Where the exchange is tried that answers `unavailable`. */
  readonly temporaryDirectory?: string;
}

export function replaceableMounts(mounts: Mounts, settings: ReplaceableMountSettings = {}): ReplaceableMounts {
  return new KernelReplaceableMounts(
    mounts,
    settings.loadSystemCalls ?? loadSystemCalls,
    settings.temporaryDirectory ?? tmpdir(),
  );
}

class KernelReplaceableMounts implements ReplaceableMounts {
  readonly #mounts: Mounts;
  readonly #load: () => SystemCalls;
  readonly #temporaryDirectory: string;
  #loaded: SystemCalls | undefined;
  #probed: { readonly unavailable: string | undefined } | undefined;

  constructor(mounts: Mounts, load: () => SystemCalls, temporaryDirectory: string) {
    this.#mounts = mounts;
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

  share(mountPoint: string): void {
    this.#calls.mount({ target: mountPoint, flags: propagations.shared });
  }

  place(descriptor: number, target: string, restrictions: readonly PlacedRestriction[] = []): void {
    this.#move(descriptor, target, restrictions, 0);
  }

  replace(descriptor: number, target: string, restrictions: readonly PlacedRestriction[] = []): void {
    this.#move(descriptor, target, restrictions, moveFlags.beneath);
    this.detach(target);
  }

  detach(target: string): void {
    this.#calls.unmount(target, unmountFlags.detach | unmountFlags.noFollow);
  }

  openUncovered(mountPoint: string): number {
    return this.#calls.openTree(mountPoint, treeFlags.clone | treeFlags.closeOnExec);
  }

  #move(descriptor: number, target: string, restrictions: readonly PlacedRestriction[], flags: number): void {
    const tree = this.#calls.openTree(`/proc/self/fd/${descriptor}`, treeFlags.clone | treeFlags.closeOnExec);
    try {
      const set = restrictions.reduce<bigint>((all, name) => all | attributeOf[name], mountAttributes.readOnly);
      // Private first: the copy of a shared mount (`/`, on most machines) would share what is later mounted on it with
      // that mount, and so put it into the volume. Below a shared base the kernel makes it shared again, on its own.
      this.#calls.setMountAttributes(tree, { set, propagation: propagations.private }, 0);
      this.#calls.moveMount(tree, target, flags);
    } finally {
      closeSync(tree); // a copy that was mounted nowhere goes with its descriptor
    }
  }

  /** Versions of a kernel say little: distributions carry changes back, and a filter may refuse a call that exists. */
  #probe(): string | undefined {
    if (this.#mounts.unavailable !== undefined) return this.#mounts.unavailable;
    let directory: string | undefined;
    let mounted = false;
    try {
      directory = mkdtempSync(join(this.#temporaryDirectory, 'mountlet-probe-'));
      this.#mounts.mountTmpfs(directory);
      mounted = true;
      return this.#exchangeBelow(directory);
    } catch (thrown) {
      if (!(thrown instanceof MountletError) && errnoOf(thrown) === undefined) throw thrown;
      return reasonOf(thrown);
    } finally {
      if (mounted && directory !== undefined) this.detach(directory);
      if (directory !== undefined) removeIfEmpty(directory);
    }
  }

  #exchangeBelow(directory: string): string | undefined {
    this.share(directory);
    const target = join(directory, 'target');
    writeFileSync(target, '');
    for (const step of ['place', 'replace'] as const) {
      const source = join(directory, step);
      writeFileSync(source, step);
      const descriptor = openSync(source, openPathOnly);
      try {
        this[step](descriptor, target);
      } finally {
        closeSync(descriptor);
      }
    }
    return readFileSync(target, 'utf8') === 'replace' ? undefined : 'the kernel put a mount elsewhere than beneath';
  }
}

const attributeOf: Readonly<Record<PlacedRestriction, bigint>> = {
  nosuid: mountAttributes.noSetuid,
  nodev: mountAttributes.noDevices,
  noexec: mountAttributes.noExec,
};

function reasonOf(thrown: unknown): string {
  if (thrown instanceof SystemCallError) {
    const { call, code } = thrown;
    if (code === 'ENOSYS') return `this kernel does not have ${call}(2); Linux 6.5 or later is needed`;
    if (code === 'EINVAL' && call === 'move_mount') {
      return 'this kernel cannot put a mount beneath another; Linux 6.5 or later is needed';
    }
    return `${call}(2) failed: ${thrown.problem}`;
  }
  return messageOf(thrown);
}
