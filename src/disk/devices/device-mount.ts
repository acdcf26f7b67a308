/**
 * Mounts a block device, and makes a file system on it first when there is nothing on it. What is there is never
 * overwritten: anything that was recognised, a partition table too, is checked and mounted or refused.
 */
import { MountletError, messageOf } from '../../base/errors.ts';
import type { BlockDevice } from './block-device.ts';
import { mountPointsOf } from './block-device.ts';
import { diskFormatOf, isBlank } from './disk-format.ts';
import { canGrow, growUnmounted } from './file-system-growth.ts';
import { MountCommandError, runMount } from './mount-command.ts';
import { ProgramMissingError, exitText, spoken } from './programs.ts';
import type { ProgramOutput, Programs } from './programs.ts';

export interface DeviceMountSettings {
  readonly device: BlockDevice;
  readonly target: string;
  /** The file system to make; empty for ext4. */
  readonly fileSystem: string;
  /** As for mount(8); with `ro` among them nothing is written to the device. */
  readonly options: readonly string[];
  /** What the volume should hold: an ext file system that is smaller grows before it is mounted, if the device has. */
  readonly sizeBytes?: bigint | undefined;
  /** For storage that may be somebody's file: formats only what has zeros at both ends. */
  readonly blankOnly?: FormatMark | undefined;
}

/** Remembers that formatting was begun: half a file system is neither blank nor anybody's data. */
export interface FormatMark {
  begin(): void;
  end(): void;
  wasBegun(): boolean;
}

export interface DeviceMountOutcome {
  readonly formatted: boolean;
  /** What fsck has repaired, in its own words. */
  readonly repaired?: string | undefined;
}

type DeviceMountProblem =
  | 'FilesystemMismatch'
  | 'HasFilesystemErrors'
  | 'UnformattedReadOnly'
  | 'FormatFailed'
  | 'NotBlank'
  | 'InvalidFileSystemType'
  | 'MountFailed';

/** The kubelet's kinds of failure, and its texts. */
class DeviceMountError extends MountletError {
  readonly reason: DeviceMountProblem;
  constructor(reason: DeviceMountProblem, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Large disks take minutes, and a check of one with many files longer than that. */
const workMsMax = 30 * 60_000;

export async function mountDevice(
  programs: Programs,
  settings: DeviceMountSettings,
  signal: AbortSignal,
): Promise<DeviceMountOutcome> {
  const { device, target, sizeBytes = 0n } = settings;
  const fileSystem = settings.fileSystem === '' ? 'ext4' : settings.fileSystem;
  // It becomes part of a program's name.
  if (!/^[a-z0-9][a-z0-9_.-]{0,31}$/i.test(fileSystem)) {
    throw new DeviceMountError('InvalidFileSystemType', `Cannot use "${fileSystem}": no file system has such a name`);
  }
  const readOnly = settings.options.includes('ro');
  const found = await diskFormatOf(programs, device, signal);
  let repaired: string | undefined;
  if (found === '') await format(programs, settings, fileSystem, signal);
  else if (!readOnly) {
    repaired = await checkAndRepair(programs, device.path, signal);
    const isUnused = /^ext[34]$/.test(found) && mountPointsOf(device).length === 0;
    if (isUnused && (await canGrow(device, sizeBytes))) await growUnmounted(programs, device, signal);
  }
  const options = [...settings.options, 'defaults'];
  try {
    await runMount(programs, { source: device.path, target, fileSystem, options }, signal);
  } catch (error) {
    if (!(error instanceof MountCommandError)) throw error;
    const isMismatch = found !== '' && found !== fileSystem;
    const why = `Configured to mount disk ${device.path} as ${fileSystem} but current format is ${found}`;
    throw isMismatch
      ? new DeviceMountError('FilesystemMismatch', `${error.message.trimEnd()}\n${why}`, { cause: error })
      : new DeviceMountError('MountFailed', messageOf(error), { cause: error });
  }
  return { formatted: found === '', ...(repaired !== undefined && { repaired }) };
}

async function format(
  programs: Programs,
  { device, target, options, blankOnly }: DeviceMountSettings,
  fileSystem: string,
  signal: AbortSignal,
): Promise<void> {
  const { path } = device;
  if (options.includes('ro')) {
    throw new DeviceMountError(
      'UnformattedReadOnly',
      `cannot mount unformatted disk ${path} as we are manipulating it in read-only mode`,
    );
  }
  if (blankOnly !== undefined && !blankOnly.wasBegun() && !(await isBlank(device))) {
    const why = `Cannot format ${path}: it has data that is no file system`;
    throw new DeviceMountError('NotBlank', `${why}; use a file that holds only zeros (truncate -s SIZE FILE)`);
  }
  blankOnly?.begin();
  const args = [...formatOptions(fileSystem), path];
  const output = await programs.run({ program: `mkfs.${fileSystem}`, args, timeoutMs: workMsMax }, signal);
  if (output.status !== 0) {
    const shown = [...options, 'defaults'].join(',');
    throw new DeviceMountError(
      'FormatFailed',
      `format of disk "${path}" failed: type:("${fileSystem}") target:("${target}") options:("${shown}") errcode:(${exitText(output)}) output:(${spoken(output)}) `,
    );
  }
  blankOnly?.end();
}

function formatOptions(fileSystem: string): readonly string[] {
  if (fileSystem === 'ext4' || fileSystem === 'ext3') return ['-F', '-m0'];
  return fileSystem === 'xfs' ? ['-f'] : [];
}

/** Bits of the exit code of fsck(8). */
const corrected = 1;
const uncorrected = 4;

async function checkAndRepair(programs: Programs, path: string, signal: AbortSignal): Promise<string | undefined> {
  let output: ProgramOutput;
  try {
    output = await programs.run({ program: 'fsck', args: ['-a', path], timeoutMs: workMsMax }, signal);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined; // the kernel finds what is badly wrong when it mounts
    throw error;
  }
  if ((output.status & uncorrected) !== 0) {
    throw new DeviceMountError(
      'HasFilesystemErrors',
      `'fsck' found errors on device ${path} but could not correct them: ${spoken(output)}`,
    );
  }
  // It could not be checked (no fsck for this file system, not a file system at all): mounting tells.
  return (output.status & corrected) === 0 ? undefined : spoken(output).trim();
}
