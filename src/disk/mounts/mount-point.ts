/**
 * Which mount a path is on, without reading the whole mount table: the kernel tells the id of the mount of every open
 * file in /proc/self/fdinfo. Exact for bind mounts within one file system too, where device numbers say nothing.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { SystemCallError, systemCallError } from '../system-call-error.ts';

/** A descriptor that names a file without opening it: needs no permission on it, and never waits for a fifo. */
export const openPathOnly = 0o10000000; // O_PATH, which Node has no name for; the same on x64 and arm64

/** The id, as in the mount table, of the mount that an open file was reached through. */
export function mountIdOf(descriptor: number): number {
  const path = `/proc/self/fdinfo/${descriptor}`;
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1];
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
