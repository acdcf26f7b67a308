/**
 * Single files that the node writes. Private ones (keys, kubeconfigs) are written under another name and take their place
 * when they are whole and on disk, so that a crash leaves the old file or the new one.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { DiskError } from '../mounts/disk-error.ts';

const privateMode = 0o600;

/** What `read` makes of the file; if there is none, `make` decides what is in it, and it is there afterwards. */
export function ensurePrivateFile<Content>(
  path: string,
  make: () => string,
  read: (content: string) => Content,
): Content {
  const found = readPrivateFile(path);
  if (found === undefined) {
    const made = make();
    replacePrivateFile(path, made);
    return read(made);
  }
  try {
    return read(found);
  } catch {
    // Without the cause, which may quote a key.
    throw new DiskError(
      'DamagedFile',
      `Cannot use "${path}": it is damaged; put a copy of it back, or remove it, and a new one will be made: whoever relies on the ` +
        'old one has to be given new credentials',
    );
  }
}

/** Undefined when there is no such file. One that others can read, or that is a link, is refused: its key may be known. */
export function readPrivateFile(path: string): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    throw systemCallError(thrown, path);
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw exposedFileError(path, 'it is not a regular file');
    if ((stat.mode & 0o077) !== 0) throw exposedFileError(path, 'others can read or change it');
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

function exposedFileError(path: string, why: string): DiskError {
  const advice = 'make it a file that only you can read (chmod 600), or remove it';
  return new DiskError('ExposedFile', `Cannot use "${path}": ${why}; ${advice}`);
}

export function replacePrivateFile(path: string, content: string): void {
  const draft = `${path}.${randomBytes(6).toString('hex')}.draft`;
  try {
    const descriptor = openSync(draft, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, privateMode);
    try {
      writeSync(descriptor, content);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(draft, path);
    syncDirectory(dirname(path));
  } catch (thrown) {
    removeIfThere(draft);
    throw systemCallError(thrown, path);
  }
}

/** The name is on disk only when its directory is. */
function syncDirectory(directory: string): void {
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // It was renamed, or never made.
  }
}

/**
 * Writes a file over instead of replacing it: containers that have it mounted see the new content. It has exactly this mode
 * afterwards, whatever the umask. Anything but a file in its place is removed, never followed.
 */
export function writeInPlace(path: string, content: string, mode: number): void {
  try {
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() === false) unlinkSync(path);
    const descriptor = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    try {
      ftruncateSync(descriptor);
      writeFileSync(descriptor, content);
      fchmodSync(descriptor, mode);
    } finally {
      closeSync(descriptor);
    }
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
