/** A directory with all its missing parents, where a user names it. Directories of pods are made elsewhere. */
import { mkdirSync, rmdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { SystemCallError, systemCallError } from '../system-call-error.ts';

/**
 * Makes a directory and the parents it lacks; answers those it made, the deepest first. When it fails, it has made none.
 * Node's own recursive mkdir never returns where nothing can be made (/proc), and calls a read-only disk "not found".
 */
export function makeDirectories(directory: string): readonly string[] {
  const missing = missingOf(directory);
  const made: string[] = [];
  try {
    for (const path of missing.toReversed()) if (makeOne(path)) made.unshift(path);
    // Asked only now: a link to nowhere is neither missing nor a directory.
    if (!isDirectory(directory)) throw new SystemCallError({ call: 'mkdir', path: directory, code: 'ENOTDIR' });
    return made;
  } catch (thrown) {
    for (const path of made) rmdirSync(path);
    throw systemCallError(thrown, directory);
  }
}

/** False: somebody else made it meanwhile. */
function makeOne(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o755 });
    return true;
  } catch (thrown) {
    if (errorCode(thrown) === 'EEXIST' && isDirectory(path)) return false;
    throw thrown;
  }
}

function missingOf(directory: string): readonly string[] {
  const missing: string[] = [];
  for (let path = directory; !isPresent(path); path = dirname(path)) missing.push(path);
  return missing;
}

/** What cannot be looked at counts as present: making it then fails with the reason. */
function isPresent(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch (thrown) {
    return errorCode(thrown) !== 'ENOENT';
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
