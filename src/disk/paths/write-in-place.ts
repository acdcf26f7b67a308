/** A single file that is written over, not replaced: containers that have it mounted see the new content. */
import {
  closeSync,
  constants,
  fchmodSync,
  ftruncateSync,
  lstatSync,
  openSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { systemCallError } from '../system-call-error.ts';

/** Has exactly this mode afterwards, whatever the umask. Anything but a file in its place is removed, never followed. */
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
