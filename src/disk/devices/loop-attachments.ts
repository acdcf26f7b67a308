/**
 * Files attached to this node as loop devices, each under a name. Attaching is written down before it is done, so that
 * nothing attached is ever forgotten, and only loop devices made here are ever released.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  statfsSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { Semaphore } from '../../base/semaphore.ts';
import { guarded, systemCallError } from '../../linux/system-call-error.ts';
import { readPrivateFile, replacePrivateFile } from '../paths/node-files.ts';
import { safeOpen } from '../paths/safe-open.ts';
import { blockDeviceAt, deviceNumbers, deviceSizeBytes } from './block-device.ts';
import type { FormatMark } from './device-mount.ts';
import { type FileIdentity, type LoopDevice, LoopDevices } from './loop-devices.ts';
import type { Programs } from './programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface LoopAttachmentDeps {
  /** Where they are written down: below the node's root. */
  readonly directory: string;
  readonly programs: Programs;
  readonly clock: Clock;
}

export class LoopAttachments {
  readonly #records: AttachmentRecords;
  readonly #devices: LoopDevices;
  readonly #clock: Clock;
  /** Looking whether a file has a loop device and making one must not be interrupted by another who does the same. */
  readonly #turn = new Semaphore(1);

  constructor({ directory, programs, clock }: LoopAttachmentDeps) {
    this.#records = new AttachmentRecords(directory);
    this.#devices = new LoopDevices(programs);
    this.#clock = clock;
  }

  /** What is attached, or was about to be, under this name. Asks no device. */
  find(name: string): Attachment | undefined {
    return this.#records.find(name);
  }

  all(): readonly Attachment[] {
    return this.#records.all();
  }

  /** Before anything is attached: a process that was killed may have left the drafts of what it was about to write down. */
  removeUnfinished(): void {
    this.#records.removeUnfinished();
  }

  /** Remembers a formatting that `mountDevice` began, so that a later one can finish it. */
  formatMark(name: string): FormatMark {
    return this.#records.formatMark(name);
  }

  /** Resolves with the loop device of the file, `/dev/loop0`: the one it has, or a new one. */
  attach(name: string, path: string, signal: AbortSignal): Promise<string> {
    return this.#alone(signal, async () => {
      const descriptor = openWithoutLinks(path);
      try {
        return await this.#attach(name, path, fileOf(descriptor, path), signal);
      } finally {
        closeSync(descriptor); // until then no other file can have its inode
      }
    });
  }

  /** What is not attached is a success. Fails while the loop device is in use; it then goes with its last user. */
  detach(name: string, signal: AbortSignal): Promise<void> {
    return this.#alone(signal, async () => {
      const attachment = this.find(name);
      if (attachment === undefined) return;
      if (attachment.isOurs) {
        const heir = this.all().find((other) => other.name !== name && isSameFile(other, attachment));
        if (heir === undefined) await this.#release(attachment, signal);
        else this.#records.write({ ...heir, isOurs: true });
      }
      this.#records.remove(name);
    });
  }

  /** The loop device of what is attached under this name. */
  async deviceOf(name: string, signal: AbortSignal): Promise<string | undefined> {
    const attachment = this.find(name);
    if (attachment === undefined) return undefined;
    const devices = await this.#devices.of(attachment, signal);
    return devices.find(({ isWhole }) => isWhole)?.path;
  }

  /** Makes the loop device as large as its file has become. */
  refresh(device: string, signal: AbortSignal): Promise<void> {
    return this.#devices.refresh(device, signal);
  }

  /** Makes the file, and its loop device, at least so large. The file gets no blocks by that: a hole is added to its end. */
  grow(name: string, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    return this.#alone(signal, async () => {
      const attachment = this.find(name);
      const device = attachment && (await this.deviceOf(name, signal));
      if (attachment === undefined || device === undefined) {
        throw new DiskError('AttachmentFailed', `Cannot grow "${name}": it has no loop device; attach it first`);
      }
      growFile(attachment, sizeBytes);
      await this.refresh(device, signal);
    });
  }

  async #attach(name: string, path: string, file: OpenFile, signal: AbortSignal): Promise<string> {
    const before = this.find(name);
    if (before !== undefined && !isSameFile(before, file) && (await this.#devices.of(before, signal)).length > 0) {
      throw new DiskError(
        'AttachmentFailed',
        `Cannot attach "${path}" as "${name}": another file, "${before.path}", is attached under that name; release it first`,
      );
    }
    const { device, inode } = file;
    const attachment = { name, path, device, inode, isOurs: true };
    const present = await this.#devices.of(file, signal);
    for (const one of present) requireUsable(path, one);
    const [found] = present;
    if (found === undefined) return this.#make(attachment, signal);
    const isOurs = this.all().some((one) => isSameFile(one, file) && one.isOurs);
    this.#records.write({ ...attachment, isOurs });
    // A loop device counts in sectors: what is left at the end of the file is not part of it.
    const wholeBytes = file.sizeBytes - (file.sizeBytes % 512n);
    if (deviceSizeBytes(blockDeviceAt(found.path)) < wholeBytes) await this.refresh(found.path, signal);
    return found.path;
  }

  async #make(attachment: Attachment, signal: AbortSignal): Promise<string> {
    const { name, path } = attachment;
    this.#records.write(attachment);
    let made: string;
    try {
      made = await this.#devices.make(path, signal);
    } catch (error) {
      if (error instanceof DiskError && error.reason === 'LoopDeviceFailed') this.#records.remove(name); // it said itself that it made none
      throw error;
    }
    const present = await this.#devices.of(attachment, signal);
    const [first] = present;
    if (first?.path === made) return made;
    // The file was exchanged, or another process made a loop device of it too: the second gives way.
    const findMade = async (): Promise<readonly string[]> =>
      (await this.#devices.all(signal)).map(({ path: device }) => device).filter((device) => device === made);
    await this.#devices.releaseAll(findMade, this.#clock, signal);
    if (first === undefined || present.every((one) => one.path !== made)) {
      this.#records.remove(name);
      throw new DiskError(
        'AttachmentFailed',
        `Cannot attach "${path}": another file was put in its place just now; try again`,
      );
    }
    this.#records.write({ ...attachment, isOurs: false });
    return first.path;
  }

  async #release(attachment: Attachment, signal: AbortSignal): Promise<void> {
    const find = async (): Promise<readonly string[]> =>
      (await this.#devices.of(attachment, signal)).map(({ path }) => path);
    const left = await this.#devices.releaseAll(find, this.#clock, signal);
    if (left.length === 0) return;
    const names = left.map((path) => `"${path}"`).join(', ');
    throw new DiskError(
      'AttachmentFailed',
      `Cannot release ${names} of "${attachment.path}": in use; it goes with its last user, so unmount what is mounted from it`,
    );
  }

  async #alone<Result>(signal: AbortSignal, act: () => Promise<Result>): Promise<Result> {
    const release = await this.#turn.acquire(signal);
    try {
      return await act();
    } finally {
      release();
    }
  }
}

/** Two loop devices of one file have caches of their own: what is mounted from both is destroyed. */
function requireUsable(path: string, { path: device, isLeaving, isWhole }: LoopDevice): void {
  if (!isWhole) {
    throw new DiskError(
      'AttachmentFailed',
      `Cannot attach "${path}": "${device}" shows a part of it; release that loop device first`,
    );
  }
  if (isLeaving) {
    throw new DiskError(
      'AttachmentFailed',
      `Cannot attach "${path}": "${device}" has it and goes with its last user; unmount what is mounted from it`,
    );
  }
}

interface OpenFile extends FileIdentity {
  readonly sizeBytes: bigint;
}

/** Never shrinks it. */
function growFile({ path, device, inode }: Attachment, sizeBytes: bigint): void {
  const descriptor = openWithoutLinks(path, constants.O_RDWR);
  try {
    const file = fileOf(descriptor, path);
    if (!isSameFile(file, { device, inode })) {
      throw new DiskError('AttachmentFailed', `Cannot grow "${path}": another file was put in its place`);
    }
    const pageBytes = 4096n; // a loop device counts in sectors, and some file systems in pages
    const wholeBytes = ((sizeBytes + pageBytes - 1n) / pageBytes) * pageBytes;
    if (file.sizeBytes >= wholeBytes) return;
    guarded(path, () => {
      const { blocks } = fstatSync(descriptor, { bigint: true });
      const { bavail, bsize } = statfsSync(`/proc/self/fd/${descriptor}`, { bigint: true });
      // A file with more in it than its disk can hold fails its users in the middle of a write, and fills the disk for others.
      const bytesMax = blocks * 512n + bavail * bsize;
      if (wholeBytes > bytesMax) {
        const why = `Cannot grow "${path}" to ${sizeBytes} bytes: its file system has room for ${bytesMax}`;
        throw new DiskError('StorageTooSmall', `${why}; free some, or ask for less`);
      }
      ftruncateSync(descriptor, Number(wholeBytes));
    });
  } finally {
    closeSync(descriptor);
  }
}

/** A link anywhere on the way is refused: a user who may change it could have any file of this machine formatted. */
function openWithoutLinks(path: string, access: number = constants.O_RDONLY): number {
  let named: number;
  try {
    named = safeOpen('/', path);
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    throw new DiskError('AttachmentFailed', `Cannot attach "${path}": ${error.message}`, { cause: error });
  }
  try {
    if (!fstatSync(named).isFile())
      throw new DiskError('AttachmentFailed', `Cannot attach "${path}": it is not a regular file`);
    return openSync(`/proc/self/fd/${named}`, access | constants.O_NONBLOCK);
  } catch (thrown) {
    throw systemCallError(thrown, path);
  } finally {
    closeSync(named);
  }
}

function fileOf(descriptor: number, path: string): OpenFile {
  try {
    const { dev, ino, size } = fstatSync(descriptor, { bigint: true });
    return { device: deviceNumbers(dev), inode: String(ino), sizeBytes: size };
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

function isSameFile(a: FileIdentity, b: FileIdentity): boolean {
  return a.device === b.device && a.inode === b.inode;
}

/**
 * What is written down about files that are attached as loop devices, each under a name: after a crash it
 * says which loop devices are ours.
 *
 *   <directory>/<name>/loop         the file that is, or is about to be, attached under this name
 *   <directory>/<name>/formatting   of a file that had only zeros in it when formatting it began, and did not end
 */
interface Attachment extends FileIdentity {
  /** One path segment. */
  readonly name: string;
  readonly path: string;
  /** False when the loop device was made by another program: then it is used and never released. */
  readonly isOurs: boolean;
}

class AttachmentRecords {
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
    guarded(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
    replacePrivateFile(join(directory, 'loop'), JSON.stringify({ path, device, inode, isOurs, boot: bootId() }));
  }

  remove(name: string): void {
    const directory = this.#directoryOf(name);
    // Drafts that a crash left go too. What was begun to be formatted is remembered for the next attachment.
    for (const entry of entriesOf(directory).filter((one) => one !== 'formatting')) {
      guarded(directory, () => rmSync(join(directory, entry), { force: true }));
    }
    guarded(directory, () => removeIfEmpty(directory));
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
      throw new DiskError('AttachmentUnreadable', `Cannot attach anything as "${name}": that is no plain file name`);
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
    throw new DiskError(
      'AttachmentUnreadable',
      `${why}; release its loop device with losetup and remove "${directory}"`,
      {
        cause,
      },
    );
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
