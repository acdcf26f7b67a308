/**
 * Files attached to this node as loop devices, each under a name. Attaching is written down before it is done, so that
 * nothing attached is ever forgotten, and only loop devices made here are ever released.
 */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { MountletError } from '../../base/errors.ts';
import { Turnstile } from '../../base/turnstile.ts';
import { safeOpen } from '../paths/safe-open.ts';
import { systemCallError } from '../system-call-error.ts';
import { AttachmentRecords } from './attachment-records.ts';
import type { Attachment } from './attachment-records.ts';
import { blockDeviceAt, deviceNumbers, deviceSizeBytes } from './block-device.ts';
import type { FormatMark } from './device-mount.ts';
import { LoopDeviceError, LoopDevices } from './loop-devices.ts';
import type { FileIdentity, LoopDevice } from './loop-devices.ts';
import type { Programs } from './programs.ts';

export class AttachmentError extends MountletError {
  readonly reason = 'AttachmentFailed';
}

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
  readonly #turn = new Turnstile(1);

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

  /** What `mountDevice` began with a file, for whoever finishes it. */
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

  /** What is not attached is a success. Fails while somebody uses the loop device, which then goes with its last user. */
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

  async #attach(name: string, path: string, file: OpenFile, signal: AbortSignal): Promise<string> {
    const before = this.find(name);
    if (before !== undefined && !isSameFile(before, file) && (await this.#devices.of(before, signal)).length > 0) {
      throw new AttachmentError(
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
      if (error instanceof LoopDeviceError) this.#records.remove(name); // it said itself that it made none
      throw error;
    }
    const present = await this.#devices.of(attachment, signal);
    const [first] = present;
    if (first?.path === made) return made;
    // The file was exchanged, or another process made a loop device of it too: whoever came second gives way.
    const findMade = async (): Promise<readonly string[]> =>
      (await this.#devices.all(signal)).map(({ path: device }) => device).filter((device) => device === made);
    await this.#devices.releaseAll(findMade, this.#clock, signal);
    if (first === undefined || present.every((one) => one.path !== made)) {
      this.#records.remove(name);
      throw new AttachmentError(`Cannot attach "${path}": another file was put in its place just now; try again`);
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
    throw new AttachmentError(
      `Cannot release ${names} of "${attachment.path}": in use; it goes with its last user, so unmount what is mounted from it`,
    );
  }

  async #alone<Result>(signal: AbortSignal, act: () => Promise<Result>): Promise<Result> {
    const leave = await this.#turn.enter(signal);
    try {
      return await act();
    } finally {
      leave();
    }
  }
}

/** Two loop devices of one file have caches of their own: what is mounted from both is destroyed. */
function requireUsable(path: string, { path: device, isLeaving, isWhole }: LoopDevice): void {
  if (!isWhole) {
    throw new AttachmentError(
      `Cannot attach "${path}": "${device}" shows a part of it; release that loop device first`,
    );
  }
  if (isLeaving) {
    throw new AttachmentError(
      `Cannot attach "${path}": "${device}" has it and goes with its last user; unmount what is mounted from it`,
    );
  }
}

interface OpenFile extends FileIdentity {
  readonly sizeBytes: bigint;
}

/** A link anywhere on the way is refused: whoever may change it could have any file of this machine formatted. */
function openWithoutLinks(path: string): number {
  let named: number;
  try {
    named = safeOpen('/', path);
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    throw new AttachmentError(`Cannot attach "${path}": ${error.message}`, { cause: error });
  }
  try {
    if (!fstatSync(named).isFile()) throw new AttachmentError(`Cannot attach "${path}": it is not a regular file`);
    return openSync(`/proc/self/fd/${named}`, constants.O_RDONLY | constants.O_NONBLOCK);
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
