/**
 * An exact copy of files that this program wrote itself: bytes, modes, owners and times. Not for trees that others can
 * change: it goes by paths, and reads every file whole.
 */
import {
  chownSync,
  fchmodSync,
  fchownSync,
  futimesSync,
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  utimesSync,
  writeFileSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';

/** `source` may be `/proc/self/fd/<descriptor>`; `target` must not exist. Throws the system's error. */
export function copyTree(source: string, target: string): void {
  const status = statSync(source);
  if (!status.isDirectory()) return copyFile(source, status, target);
  mkdirSync(target, { mode: 0o700 }); // closed until it has its owner
  for (const entry of readdirSync(source, { withFileTypes: true })) {
    const [from, to] = [join(source, entry.name), join(target, entry.name)];
    // A version of a volume has nothing else, and a device or a fifo could not be read.
    if (entry.isDirectory() || entry.isFile()) copyTree(from, to);
  }
  chownSync(target, status.uid, status.gid);
  chmodSync(target, status.mode & 0o7777);
  utimesSync(target, status.atime, status.mtime);
}

function copyFile(source: string, { uid, gid, mode, atime, mtime }: Stats, target: string): void {
  const descriptor = openSync(target, 'wx', 0o600);
  try {
    writeFileSync(descriptor, readFileSync(source));
    fchownSync(descriptor, uid, gid);
    fchmodSync(descriptor, mode & 0o7777);
    futimesSync(descriptor, atime, mtime);
  } finally {
    closeSync(descriptor);
  }
}
