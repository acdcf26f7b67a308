/**
 * Reads a file of a directory whose content belongs to somebody else, as if the directory were the root of all: `..`
 * stops at it, an absolute link starts at it, and nothing outside can be reached, even while links are being swapped.
 * Every element is opened relative to the one before, so what was checked is what is read.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { MountletError, messageOf } from '../../base/errors.ts';
import { openPathOnly } from '../mounts/mount-point.ts';
import { elementOf } from './safe-open.ts';

export class UnreadableFileError extends MountletError {
  readonly reason = 'UnreadableFile';
}

interface FileInRoot {
  /** Where it was found, all links resolved. */
  readonly path: string;
  readonly content: Uint8Array;
}

// As many links as the kernel's own limit allows times six: nobody builds more, and a loop ends.
const linksMax = 255;

/** Only a regular file of at most `sizeBytesMax` is read. */
export function readInRoot(root: string, path: string, sizeBytesMax: number): FileInRoot {
  const way: { readonly name: string; readonly descriptor: number }[] = [];
  try {
    way.push({ name: root, descriptor: openSync(root, openPathOnly | constants.O_DIRECTORY) });
    follow(way, path.split('/'));
    const found = join(...way.map(({ name }) => name));
    return { path: found, content: readRegular(way.at(-1)?.descriptor ?? -1, sizeBytesMax) };
  } catch (cause) {
    throw new UnreadableFileError(`Cannot read "${path}" in "${root}": ${messageOf(cause)}`, { cause });
  } finally {
    for (const { descriptor } of way) closeSync(descriptor);
  }
}

function follow(way: { name: string; descriptor: number }[], path: readonly string[]): void {
  const names = [...path];
  let linksLeft = linksMax;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (way.length > 1) closeSync(way.pop()?.descriptor ?? -1);
      continue;
    }
    const element = elementOf(way.at(-1)?.descriptor ?? -1, name);
    const descriptor = openSync(element, openPathOnly | constants.O_NOFOLLOW);
    way.push({ name, descriptor });
    if (!fstatSync(descriptor).isSymbolicLink()) continue;
    linksLeft -= 1;
    if (linksLeft < 0) throw new UnreadableFileError('too many links');
    // Read from the descriptor that was looked at: an empty path means the link itself.
    const target = readlinkSync(element);
    way.pop();
    closeSync(descriptor);
    if (target.startsWith('/')) for (const { descriptor: left } of way.splice(1)) closeSync(left);
    names.unshift(...target.split('/'));
  }
}

function readRegular(pathDescriptor: number, sizeBytesMax: number): Uint8Array {
  const stat = fstatSync(pathDescriptor);
  if (!stat.isFile()) throw new UnreadableFileError('it is not a regular file');
  if (stat.size > sizeBytesMax) throw new UnreadableFileError(`it is larger than ${sizeBytesMax} bytes`);
  const descriptor = openSync(`/proc/self/fd/${pathDescriptor}`, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
