/** Loop devices of this machine: a file as a block device. Whose they are is decided in loop-attachments.ts. */
import { readFileSync, readdirSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { exitText, spoken } from './programs.ts';
import type { ProgramOutput, Programs } from './programs.ts';
import { DiskError } from '../mounts/disk-error.ts';

/** A file whatever its name has become. */
export interface FileIdentity {
  /** `major:minor` of the file system it is on. */
  readonly device: string;
  readonly inode: string;
}

export interface LoopDevice {
  /** `/dev/loop0` */
  readonly path: string;
  readonly file: FileIdentity;
  /** It goes with its last user. */
  readonly isLeaving: boolean;
  readonly isReadOnly: boolean;
  /** All of the file, and not a part of it. */
  readonly isWhole: boolean;
}

/** Programs that open the loop device for a moment (udev inspects each change) have closed it within that time. */
const looksMax = 20;
const lookAgainMs = 50;
const losetupMsMax = 60_000;
// Not the file's name: it may have spaces and line ends in it.
const columns = ['NAME', 'BACK-INO', 'BACK-MAJ:MIN', 'AUTOCLEAR', 'RO', 'OFFSET', 'SIZELIMIT'];

export class LoopDevices {
  readonly #programs: Programs;

  constructor(programs: Programs) {
    this.#programs = programs;
  }

  async all(signal: AbortSignal): Promise<readonly LoopDevice[]> {
    const output = await this.#run(['--list', '--noheadings', '--output', columns.join()], signal);
    if (output.status !== 0) throw new DiskError('LoopDeviceFailed', failure('list the loop devices', output));
    return output.stdout
      .split('\n')
      .filter((line) => line.trim() !== '')
      .flatMap(parseLine)
      .toSorted((a, b) => numberOf(a) - numberOf(b));
  }

  async of(file: FileIdentity, signal: AbortSignal): Promise<readonly LoopDevice[]> {
    const devices = await this.all(signal);
    return devices.filter((one) => one.file.device === file.device && one.file.inode === file.inode);
  }

  /** Resolves with the path of a new loop device. Which file it shows must be looked at: the path leads where it leads now. */
  make(path: string, signal: AbortSignal): Promise<string> {
    return this.#make(path, [], signal);
  }

  makeReadOnly(path: string, signal: AbortSignal): Promise<string> {
    return this.#make(path, ['--read-only'], signal);
  }

  /** Those that were made of this very path: of two bind mounts of one device, each has its own. */
  madeOf(path: string): readonly string[] {
    return readdirSync('/sys/block')
      .filter((name) => /^loop\d+$/.test(name) && backingPathOf(name) === path)
      .map((name) => `/dev/${name}`);
  }

  async #make(path: string, options: readonly string[], signal: AbortSignal): Promise<string> {
    const output = await this.#run(['--find', '--show', ...options, '--', path], signal);
    const made = output.stdout.trim();
    if (output.status !== 0 || !/^\/dev\/loop\d+$/.test(made)) {
      throw new DiskError('LoopDeviceFailed', failure(`attach "${path}" to a loop device`, output));
    }
    return made;
  }

  /** One that is in use goes with its last user. */
  async release(device: string, signal: AbortSignal): Promise<void> {
    const output = await this.#run(['--detach', device], signal);
    const isGone = output.status !== 0 && /no such device|ENXIO/i.test(output.stderr);
    if (output.status !== 0 && !isGone) throw new DiskError('LoopDeviceFailed', failure(`release "${device}"`, output));
  }

  /** Releases all that `find` finds, and waits until they have gone. Returns those that are still in use. */
  async releaseAll(
    find: () => Promise<readonly string[]>,
    clock: Pick<Clock, 'sleep'>,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    let left = await find();
    for (const device of left) await this.release(device, signal);
    for (let looks = 0; looks < looksMax; looks += 1) {
      left = await find();
      if (left.length === 0) break;
      await clock.sleep(lookAgainMs, signal);
    }
    return left;
  }

  /** Takes over the size that its file has now. */
  async refresh(device: string, signal: AbortSignal): Promise<void> {
    const output = await this.#run(['--set-capacity', device], signal);
    if (output.status !== 0)
      throw new DiskError('LoopDeviceFailed', failure(`take over the size of "${device}"`, output));
  }

  #run(args: readonly string[], signal: AbortSignal): Promise<ProgramOutput> {
    return this.#programs.run({ program: 'losetup', args, timeoutMs: losetupMsMax }, signal);
  }
}

function backingPathOf(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').replace(/\n$/, '');
  } catch {
    return undefined; // it shows no file, or went while it was looked at
  }
}

function parseLine(line: string): readonly LoopDevice[] {
  const [path = '', inode = '', device = '', autoclear, readOnly, offset, sizeLimit] = line.trim().split(/\s+/);
  if (!/^\/dev\/loop\d+$/.test(path)) {
    throw new DiskError(
      'LoopDeviceFailed',
      `Cannot list the loop devices: unexpected line "${line}"; is losetup that of util-linux?`,
    );
  }
  if (!/^\d+:\d+$/.test(device)) return []; // it went while it was looked at, and shows no file
  const isWhole = offset === '0' && sizeLimit === '0';
  return [{ path, file: { device, inode }, isLeaving: autoclear === '1', isReadOnly: readOnly === '1', isWhole }];
}

function numberOf({ path }: LoopDevice): number {
  return Number(/\d+$/.exec(path)?.[0] ?? 0);
}

function failure(what: string, output: ProgramOutput): string {
  return `Cannot ${what}: ${spoken(output).trim()} (losetup: ${exitText(output)})`;
}
