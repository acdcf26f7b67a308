/**
 * A directory whose mounts reach containers: what is mounted below it later appears in every container that has it, or a part of it,
 * with propagation from the host. Most machines share everything from the start; where not, the directory is mounted on itself.
 */
import { join, relative } from 'node:path';
import { type MountEntry, mountOf, readMountTable } from './mount-table.ts';
import type { Mounts } from './mounts.ts';
import type { ReplaceableMounts } from './replaceable-mounts.ts';

/** The path has no symbolic links. Repeating it changes nothing. */
export function shareDirectory(path: string, mounts: Mounts, replaceable: Pick<ReplaceableMounts, 'share'>): void {
  const mount = mountOf(readMountTable(), path);
  if (mount?.optionalFields.some((field) => field.startsWith('shared:')) === true) return;
  // What is mounted below it already would be hidden by a mount of the directory alone.
  if (mount?.mountPoint !== path) mounts.bind(path, path, { recursive: true });
  replaceable.share(path);
}

/** Takes away what `shareDirectory` mounted, in this process or an earlier one, unless something is mounted below it. */
export function unshareDirectory(path: string, mounts: Mounts): void {
  const table = readMountTable();
  const mount = mountOf(table, path);
  if (mount?.mountPoint !== path || table.some(({ parentId }) => parentId === mount.id)) return;
  const below = mountOf(
    table.filter(({ id }) => id !== mount.id),
    path,
  );
  if (below !== undefined && isSelfBind(mount, below)) mounts.unmount(path);
}

function isSelfBind(mount: MountEntry, below: MountEntry): boolean {
  return mount.device === below.device && mount.root === join(below.root, relative(below.mountPoint, mount.mountPoint));
}
