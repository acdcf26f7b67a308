/**
 * What is written down about files that are attached as loop devices, each under a name: whoever comes after a crash knows
 * from it which loop devices are ours.
 *
 *   <directory>/<name>/loop         the file that is, or is about to be, attached under this name
 *   <directory>/<name>/formatting   of a file that had only zeros in it when formatting it began, and did not end
 */
import { mkdirSync, readFileSync, readdirSync, rmSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { readPrivateFile, replacePrivateFile } from '../paths/private-file.ts';
import { systemCallError } from '../system-call-error.ts';
import type { FormatMark } from './device-mount.ts';
import type { FileIdentity } from './loop-devices.ts';

export interface Attachment extends FileIdentity {
  /** One path segment. */
  readonly name: string;
  readonly path: string;
  /** False when somebody else had made the loop device: then it is used, and left to him. */
  readonly isOurs: boolean;
}

class AttachmentRecordError extends MountletError {
  readonly reason = 'AttachmentUnreadable';
}

export class AttachmentRecords {
  readonly #directory: string;

  /** Below the node's root; made when it is needed. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  find(name: string): Attachment | undefined {
    const directory = this.#directoryOf(name);
    const text = readPrivateFile(join(directory, 'loop'));
    return text === undefined ? undefined : parseRecord(name, text, directory);
  }

  all(): readonly Attachment[] {
    return entriesOf(this.#directory).flatMap((name) => this.find(name) ?? []);
  }

  write({ name, path, device, inode, isOurs }: Attachment): void {
    const directory = this.#directoryOf(name);
    guard(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
    replacePrivateFile(join(directory, 'loop'), JSON.stringify({ path, device, inode, isOurs, boot: bootId() }));
  }

  remove(name: string): void {
    const directory = this.#directoryOf(name);
    // Drafts that a crash left go too. What was begun to be formatted is remembered for the next attachment.
    for (const entry of entriesOf(directory).filter((one) => one !== 'formatting')) {
      guard(directory, () => rmSync(join(directory, entry), { force: true }));
    }
    guard(directory, () => removeIfEmpty(directory));
  }

  /** Of attachments that a crash or a reboot left without a record: drafts, and records of another boot. */
  removeUnfinished(): void {
    for (const name of entriesOf(this.#directory)) if (this.find(name) === undefined) this.remove(name);
  }

  formatMark(name: string): FormatMark {
    const mark = join(this.#directoryOf(name), 'formatting');
    const inode = (): string | undefined => this.find(name)?.inode;
    return {
      begin: () => replacePrivateFile(mark, inode() ?? ''),
      end: () => rmSync(mark, { force: true }),
      wasBegun: () => inode() !== undefined && readPrivateFile(mark) === inode(),
    };
  }

  /** Names come from objects and from the names of other directories. */
  #directoryOf(name: string): string {
    if (['', '.', '..'].includes(name) || /[/\0]/.test(name)) {
      throw new AttachmentRecordError(`Cannot attach anything as "${name}": that is no plain file name`);
    }
    return join(this.#directory, name);
  }
}

function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw systemCallError(error, directory);
  }
}

/** No loop device outlives a boot, and numbers of devices change: a record of another boot says nothing. */
function parseRecord(name: string, text: string, directory: string): Attachment | undefined {
  let record: Partial<Record<string, unknown>>;
  try {
    record = JSON.parse(text) as Partial<Record<string, unknown>>;
  } catch (cause) {
    const why = `Cannot read what is attached as "${name}": ${messageOf(cause)}`;
    throw new AttachmentRecordError(`${why}; release its loop device with losetup and remove "${directory}"`, {
      cause,
    });
  }
  const { path, device, inode, isOurs, boot } = record;
  if (boot !== bootId()) return undefined;
  return { name, path: String(path), device: String(device), inode: String(inode), isOurs: isOurs === true };
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errorCode(error) ?? '')) throw error;
  }
}

function guard<Result>(path: string, act: () => Result): Result {
  try {
    return act();
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}
