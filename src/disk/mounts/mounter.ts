/**
 * The few mount operations that everything in mounts.ts is made of. kernel-mounter.ts does them by system calls, each in
 * about 0.05 ms: a program such as mount(8) would hold the event loop for as long as a disk or a server holds it.
 */
import type { MountEntry } from './mount-table.ts';

/** Options a bind mount can have of its own: they take something away from what the mounted file system allows. */
export const bindRestrictions = ['ro', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime', 'relatime'] as const;
export type BindRestriction = (typeof bindRestrictions)[number];

export interface NewMount {
  readonly source: string;
  readonly target: string;
  readonly fileSystem: string;
  /** As after `-o`; empty for none. */
  readonly options: string;
}

export interface Mounter {
  mount(mount: NewMount): void;
  bind(source: string, target: string, recursive: boolean): void;
  /**
   * A read-only bind that is never seen writable, or false from a kernel that cannot: then bind and remount. As what is
   * mounted is read-only or is not there, a container cannot be started in between.
   */
  bindReadOnly(source: string, target: string, recursive: boolean): boolean;
  /** Adds options (`ro`, `noexec`) to this mount, and only to this one; those it has stay. */
  restrict(entry: MountEntry, options: readonly BindRestriction[]): void;
  /** Changes options of the file system (`size=`); the mount's own options stay. */
  reconfigure(entry: MountEntry, options: string): void;
  /** `lazy` takes it out of the tree at once and lets those who use it finish. Never follows a symbolic link. */
  unmount(target: string, lazy: boolean): void;
  isMountPoint(path: string): boolean;
}
