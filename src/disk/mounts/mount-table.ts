/**
 * The mount table of this process, as the kernel shows it in /proc/self/mountinfo, and questions about it. Pure but for
 * `readMountTable`. Paths in it have no symbolic links: resolve a path before asking about it.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readlinkSync } from 'node:fs';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { SystemCallError, guarded, systemCallError } from '../../linux/system-call-error.ts';
import { DiskError } from './disk-error.ts';

export interface MountEntry {
  readonly id: number;
  /** The mount this one is mounted on; not in the table for the outermost one. */
  readonly parentId: number;
  /** `major:minor` of the file system, the same for every bind mount of it. */
  readonly device: string;
  /** The directory (or file) of the file system that is visible here: `/` unless this is a bind mount of a part. */
  readonly root: string;
  readonly mountPoint: string;
  /** Options of this mount: `ro`, `nosuid`. */
  readonly options: readonly string[];
  /** Propagation: `shared:1`, `master:2`; empty for a private mount. */
  readonly optionalFields: readonly string[];
  readonly fileSystem: string;
  readonly source: string;
  /** Options of the file system, common to all its mounts: `size=4k`. */
  readonly superOptions: readonly string[];
}

export function readMountTable(): MountEntry[] {
  return parseMountTable(readTable().toString());
}

/** `mountsBelow` of the table as it is now. Parses only lines that mention the directory: a node may have thousands of mounts. */
export function readMountsBelow(directory: string): MountEntry[] {
  const table = readTable();
  const mention = directory === '/' ? ' /' : ` ${escape(directory)}`;
  if (!table.includes(mention)) return [];
  const lines = table.toString().split('\n');
  return mountsBelow(lines.filter((line) => line.includes(mention)).map(parseLine), directory);
}

function readTable(): Buffer {
  const path = '/proc/self/mountinfo';
  return guarded(path, () => readFileSync(path));
}

/** In the order of the kernel: of two mounts on one place the later one is on top. */
export function parseMountTable(text: string): MountEntry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(parseLine);
}

/** `36 35 98:0 /root /mount/point rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue` */
function parseLine(line: string): MountEntry {
  const fields = line.split(' ');
  const separator = fields.indexOf('-', 6);
  const [id, parentId, device, root, mountPoint, options] = fields;
  const [fileSystem, source, superOptions] = fields.slice(separator + 1);
  if (
    separator === -1 ||
    !/^\d+$/.test(id ?? '') ||
    !/^\d+$/.test(parentId ?? '') ||
    !/^\d+:\d+$/.test(device ?? '') ||
    root === undefined ||
    mountPoint === undefined ||
    options === undefined ||
    fileSystem === undefined ||
    source === undefined ||
    superOptions === undefined
  ) {
    throw new DiskError(
      'MountTableUnreadable',
      `Cannot read the mount table: unexpected line "${line}"; is /proc/self/mountinfo that of Linux?`,
    );
  }
  return {
    id: Number(id),
    parentId: Number(parentId),
    device: device ?? '',
    root: unescape(root),
    mountPoint: unescape(mountPoint),
    options: options.split(','),
    optionalFields: fields.slice(6, separator),
    fileSystem: unescape(fileSystem),
    source: unescape(source),
    superOptions: superOptions.split(',').map(unescape),
  };
}

/** A path as the kernel writes it there: space, tab, newline and backslash as three octal digits (in a source `#` too). */
export function escape(field: string): string {
  return field.replace(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}

function unescape(field: string): string {
  return field.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** What is mounted at or below a directory, in an order in which it can be unmounted: deepest first, topmost first. */
export function mountsBelow(table: readonly MountEntry[], directory: string): MountEntry[] {
  return table
    .filter(({ mountPoint }) => isWithin(directory, mountPoint))
    .toReversed()
    .toSorted((a, b) => depthOf(b.mountPoint) - depthOf(a.mountPoint));
}

function depthOf(mountPoint: string): number {
  return mountPoint === '/' ? 0 : mountPoint.split('/').length;
}

/**
 * The mount a path is on. Follows the tree of mounts down from the outermost, as the kernel does when it walks the path:
 * the longest mount point alone would be wrong where a later mount covers an earlier one.
 */
export function mountOf(table: readonly MountEntry[], path: string): MountEntry | undefined {
  const ids = new Set(table.map(({ id }) => id));
  const onTheWay = table.filter(({ mountPoint }) => isWithin(mountPoint, path));
  let found: MountEntry | undefined;
  // Each mount is entered once at most: a table read while mounts change must not make this loop for ever.
  for (let step = 0; step <= table.length; step += 1) {
    const next = onTheWay
      .filter((entry) => (found === undefined ? !ids.has(entry.parentId) : entry.parentId === found.id))
      .filter((entry) => entry.id !== found?.id)
      .toSorted((a, b) => a.mountPoint.length - b.mountPoint.length)[0];
    if (next === undefined) break;
    found = next;
  }
  return found;
}

/** The other mount points that show what `path` shows: same file system, same place in it (bind mounts of it, say). */
export function referencesOf(table: readonly MountEntry[], path: string): string[] {
  const mount = mountOf(table, path);
  if (mount === undefined) return [];
  const root = join(mount.root, relative(mount.mountPoint, path));
  return table
    .filter((entry) => entry.id !== mount.id && entry.device === mount.device && entry.root === root)
    .map(({ mountPoint }) => mountPoint);
}

/**
 * File systems on the disks and in the memory of this machine. Any other may have to ask a server, and when that is gone a call
 * waits for it, perhaps for ever, and with it the thread that made the call.
 */
const localKinds: ReadonlySet<string> = new Set(
  (
    'ext2 ext3 ext4 xfs btrfs bcachefs f2fs zfs jfs nilfs2 reiserfs vfat msdos exfat ntfs3 iso9660 udf squashfs erofs ' +
    'overlay aufs rootfs tmpfs ramfs hugetlbfs devtmpfs devpts proc sysfs cgroup cgroup2 mqueue nsfs bpf configfs ' +
    'securityfs selinuxfs debugfs tracefs pstore efivarfs fusectl binfmt_misc resctrl'
  ).split(' '),
);

/** Where file systems are mounted that may wait for a server. If that of the root does, so does everything. */
export function foreignMountPoints(): ReadonlySet<string> {
  const points = new Set<string>();
  for (const [, point = '', kind = ''] of readTable().toString().matchAll(tableColumns)) {
    if (!localKinds.has(kind) && point !== '/') points.add(unescape(point));
  }
  return points;
}

const tableColumns = /^(?:\S+ ){4}(\S+) .*? - (\S+) /gm;
/** More than the kernel follows; a path of more is not looked at. */
const stepsMax = 2_000;

/**
 * Whether a look at a path may wait for a server: it is on such a file system, or a link on the way leads there. To find out,
 * nothing is touched that may wait.
 */
export function isForeign(path: string, points = foreignMountPoints()): boolean {
  if (points.size === 0) return false;
  const left = path.split('/').toReversed();
  let here = '/';
  for (let steps = 0; steps < stepsMax; steps += 1) {
    const name = left.pop();
    if (name === undefined) return false;
    const next = join(here, name);
    if (points.has(next)) return true;
    const target = linkAt(next);
    if (target === undefined || isAbsolute(target)) here = target === undefined ? next : '/';
    if (target !== undefined) left.push(...target.split('/').toReversed());
  }
  return true;
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined; // not a link, or not there: then nothing is behind it
  }
}

/** A descriptor that names a file without opening it: needs no permission on it, and never waits for a fifo. */
export const openPathOnly = 0o10000000; // O_PATH, which Node has no name for; the same on x64 and arm64

/**
 * The id, as in the mount table, of the mount that an open file was reached through. Unlike device numbers it is exact for
 * bind mounts within one file system too, and the whole table need not be read.
 */
export function mountIdOf(descriptor: number): number {
  const path = `/proc/self/fdinfo/${descriptor}`;
  // As bytes: read as text, Node aborts the process when a close fails.
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(path).toString('latin1'))?.[1];
  if (id === undefined) throw new SystemCallError({ call: 'read', path, code: 'ENOTSUP' });
  return Number(id);
}

/**
 * Whether something is mounted at exactly this path; a symbolic link is not followed and never is one. Throws a
 * SystemCallError: ENOENT for a missing path, and what the file system says (ENOTCONN, ESTALE) for a broken mount.
 */
export function isMountPoint(path: string): boolean {
  try {
    const isDirectory = lstatSync(path).isDirectory();
    return withPath(path, (own) => {
      // Up from the directory itself where that is possible: the text of a path may go through links.
      const above = isDirectory ? `/proc/self/fd/${own}/..` : dirname(path);
      return withPath(above, (parent) => mountIdOf(own) !== mountIdOf(parent) || (isDirectory && isSame(own, parent)));
    });
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

/** Only the root directory is its own parent. */
function isSame(own: number, parent: number): boolean {
  const [a, b] = [fstatSync(own, { bigint: true }), fstatSync(parent, { bigint: true })];
  return a.ino === b.ino && a.dev === b.dev;
}

function withPath<Result>(path: string, use: (descriptor: number) => Result): Result {
  const descriptor = openSync(path, openPathOnly | constants.O_NOFOLLOW);
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Whether a path is at or below another, by their text alone: give it absolute paths without symbolic links. `.` and `..` in
 * them are resolved first.
 */
export function isWithin(base: string, path: string): boolean {
  const way = relative(base, path);
  return way !== '..' && !way.startsWith('../');
}
