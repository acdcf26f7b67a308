/** Opens a file of a volume to read it, whatever its mode says. */
import { chmodSync, closeSync, constants, fstatSync, openSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { openPathOnly } from '../mounts/mount-point.ts';

// Not following a link, and not blocking on a fifo, that took the file's place since it was looked at.
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** A mode like 0000 shuts out an ordinary user from files of his own; he lets himself in for as long as opening takes. */
export function openToRead(path: string): number {
  try {
    return openSync(path, readFlags);
  } catch (thrown) {
    if (errorCode(thrown) !== 'EACCES') throw thrown;
  }
  const named = openSync(path, openPathOnly | constants.O_NOFOLLOW);
  const here = `/proc/self/fd/${named}`;
  try {
    const { mode } = fstatSync(named);
    chmodSync(here, (mode & 0o7777) | 0o400);
    try {
      return openSync(here, readFlags & ~constants.O_NOFOLLOW);
    } finally {
      chmodSync(here, mode & 0o7777);
    }
  } finally {
    closeSync(named);
  }
}
