/**
 * The system's own programs for block devices and file systems (mkfs, fsck, blkid, losetup, mount), run without a shell
 * and never for longer than their caller says. What their output means is decided by the callers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { lstatSync, rmdirSync } from 'node:fs';
import { onAbort } from '../../base/abort.ts';
import { constants } from 'node:os';
import { kill } from 'node:process';
import { MountletError, errorCode } from '../../base/errors.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { readMountsBelow } from '../mounts/mount-table.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly timeoutMs: number;
  /** What it reads from its standard input, which no other process can see; nothing by default. */
  readonly input?: string;
}

export interface ProgramOutput {
  /** The exit code; 128 and the signal's number for one that a signal ended. */
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Programs {
  /**
   * Resolves whatever the exit code is. Rejects with the signal's reason when that aborts, and with a ProgramMissingError
   * or a ProgramTimeoutError; with the latter at once while the same command of before cannot even be killed.
   */
  run(command: Command, signal: AbortSignal): Promise<ProgramOutput>;
}

export class ProgramMissingError extends MountletError {
  readonly reason = 'ProgramMissing';
  constructor(program: string, options?: ErrorOptions) {
    super(`Cannot run "${program}": it is not there; install ${packageOf(program)}`, options);
  }
}

/** The program was asked to end; it may have done its work, or still be doing it. */
export class ProgramTimeoutError extends MountletError {
  readonly reason = 'ProgramTimeout';
  readonly failureClass = 'uncertain';
  constructor({ program, args, timeoutMs }: Command) {
    const seconds = Math.ceil(timeoutMs / 1000);
    super(
      `Cannot finish "${[program, ...args].join(' ')}" within ${seconds} s; see what the device or server is doing`,
    );
  }
}

interface ProgramSettings {
  /** Directories, in order. The system's own programs whatever PATH says: this runs as root. */
  readonly searchPath?: string;
}

const systemDirectories = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'];

export function systemPrograms(settings: ProgramSettings = {}): Programs {
  const { searchPath = systemDirectories.join(':') } = settings;
  // Their words in English, since some of them are looked for.
  const env = { LC_ALL: 'C', PATH: searchPath };
  // Each waits for a device or a server. Another one would wait as well, and every retry would add to them.
  const abandoned = new Set<string>();
  return {
    async run(command, signal) {
      signal.throwIfAborted();
      if (command.args.some((argument) => argument.includes('\0'))) {
        throw new DiskError(
          'ProgramArgumentInvalid',
          `Cannot run "${command.program}": one of its arguments has a NUL in it, which no name can have`,
        );
      }
      const shown = JSON.stringify([command.program, ...command.args]);
      if (abandoned.has(shown)) throw new ProgramTimeoutError(command);
      const late = AbortSignal.timeout(command.timeoutMs);
      const output = await outputOf(command, env, AbortSignal.any([signal, late]), (child) => {
        abandoned.add(shown);
        child.once('exit', () => abandoned.delete(shown));
      });
      if (output !== undefined) return output;
      signal.throwIfAborted();
      throw new ProgramTimeoutError(command);
    },
  };
}

/** What goes wrong is said in the first lines; a file system that repairs itself can say a lot. */
const outputBytesMax = 64 * 1024;
/** e2fsck puts things in order when it is asked to end. */
const endMsMax = 5_000;
/** A program that waits for a device or a server cannot even be killed, so it is abandoned. */
const deathMsMax = 2_000;
/** A program that left a server of its own behind (for FUSE, for locks of NFS) may never close its outputs. */
const lastWordsMsMax = 1_000;

/** Undefined when it had to be ended. */
function outputOf(
  { program, args, input }: Command,
  env: Readonly<Record<string, string>>,
  stop: AbortSignal,
  abandon: (child: ChildProcess) => void,
): Promise<ProgramOutput | undefined> {
  return new Promise((resolve, reject) => {
    // A group of its own: mount(8) and fsck(8) start further programs, and all of them have to end.
    const child = spawn(program, args, { env, cwd: '/', detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    child.stdin.on('error', () => {}); // it ended without reading: its exit says why
    child.stdin.end(input ?? '');
    const timers: NodeJS.Timeout[] = [];
    const later = (ms: number, act: () => void): void => void timers.push(setTimeout(act, ms));
    const end = (): void => {
      endGroup(child, 'SIGTERM');
      later(endMsMax, () => endGroup(child, 'SIGKILL'));
      later(endMsMax + deathMsMax, () => {
        abandon(child);
        child.unref();
        child.stdin.destroy();
        child.stdout.destroy();
        child.stderr.destroy();
        finish(() => resolve(undefined));
      });
    };
    const finish = (settle: () => void): void => {
      stopListening();
      for (const timer of timers) clearTimeout(timer);
      settle();
    };
    const stdout = collected(child.stdout);
    const stderr = collected(child.stderr);
    child.on('error', (error) => {
      const isMissing = errorCode(error) === 'ENOENT' || errorCode(error) === 'EACCES';
      finish(() => reject(isMissing ? new ProgramMissingError(program, { cause: error }) : error));
    });
    const ended = (code: number | null, by: NodeJS.Signals | null): void => {
      const status = code ?? 128 + (by === null ? 0 : constants.signals[by]);
      finish(() => resolve(stop.aborted ? undefined : { status, stdout: stdout(), stderr: stderr() }));
    };
    child.on('close', ended);
    child.on('exit', (code, by) => {
      if (!stop.aborted) later(lastWordsMsMax, () => ended(code, by));
    });
    const stopListening = onAbort(stop, end);
  });
}

function collected(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on('data', (chunk: Buffer) => {
    if (bytes < outputBytesMax) chunks.push(chunk.subarray(0, outputBytesMax - bytes));
    bytes += chunk.length;
  });
  return () => Buffer.concat(chunks).toString('utf8');
}

function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    kill(-pid, signal);
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error; // it ended by itself
  }
}

/** As Go writes the end of a program, and so every error of the kubelet. */
export function exitText({ status }: ProgramOutput): string {
  return `exit status ${status}`;
}

/** Everything it said, as the kubelet shows it. */
export function spoken({ stdout, stderr }: ProgramOutput): string {
  return `${stdout}${stderr}`;
}

const debianPackages: readonly (readonly [programs: RegExp, name: string])[] = [
  [/^(mount|umount|losetup)$/, 'mount'],
  [/^(blkid|fsck)$/, 'util-linux'],
  [/^(mkfs\.ext[234]|e2fsck|resize2fs)$/, 'e2fsprogs'],
  [/^(mkfs\.xfs|xfs_growfs)$/, 'xfsprogs'],
  [/^(mkfs\.btrfs|btrfs)$/, 'btrfs-progs'],
  [/^mkfs\.(vfat|fat|msdos)$/, 'dosfstools'],
  [/^mkfs\.f2fs$/, 'f2fs-tools'],
  [/^mount\.nfs4?$/, 'nfs-common'],
];

function packageOf(program: string): string {
  const name = debianPackage(program);
  return name === undefined ? 'the package that has it' : `the package "${name}" (its name in Debian)`;
}

function debianPackage(program: string): string | undefined {
  return debianPackages.find(([programs]) => programs.test(program))?.[1];
}

/** Of ext4, xfs and NFS, which most volumes have: the packages that this machine lacks, by their names in Debian. */
export function missingPackages(exists: (path: string) => boolean): readonly string[] {
  const programs = ['blkid', 'mkfs.ext4', 'resize2fs', 'mkfs.xfs', 'xfs_growfs', 'mount.nfs'];
  const missing = programs.filter(
    (program) => !systemDirectories.some((directory) => exists(`${directory}/${program}`)),
  );
  return [...new Set(missing.map((program) => debianPackage(program) ?? program))];
}

/**
 * Mounts that may take long, and those whose file system has a helper program: devices and NFS. mount(8) knows which
 * options are the kernel's and which the file system's, and another process waits for the device or the server.
 * What takes no time is in mounts/.
 */
interface MountRequest {
  readonly source: string;
  readonly target: string;
  readonly fileSystem: string;
  readonly options: readonly string[];
}

/** The kubelet's text, which users search for, and what to do about it where that is known. */
export class MountCommandError extends MountletError {
  readonly reason = 'MountFailed';
  constructor(message: string, advice?: string) {
    super(advice === undefined ? message : `${message.trimEnd()}\n${advice}`);
  }
}

/** A journal that has to be replayed, or a server that has to come back. */
const mountMsMax = 120_000;
/** As long as the kubelet waits before it stops asking nicely. */
const unmountMsMax = 60_000;
/** More than any mistake of ours could pile up; a table that grows faster is not ours to fight. */
const layersMax = 16;

export async function runMount(programs: Programs, request: MountRequest, signal: AbortSignal): Promise<void> {
  const { source, target, fileSystem, options } = request;
  const said = ['-t', fileSystem, ...(options.length === 0 ? [] : ['-o', options.join(',')])];
  const command = { program: 'mount', args: [...said, '--', source, target], timeoutMs: mountMsMax };
  const output = await programs.run(command, signal);
  if (output.status === 0) return;
  const shown = [...said, source, target].join(' ');
  const text = `mount failed: ${exitText(output)}\nMounting command: mount\nMounting arguments: ${shown}\nOutput: ${spoken(output)}`;
  throw new MountCommandError(text, adviceFor(fileSystem, output));
}

function adviceFor(fileSystem: string, { stderr }: ProgramOutput): string | undefined {
  const isUnknown = stderr.includes('unknown filesystem type');
  // The helper, where there is one, speaks for itself and under its own name.
  const wantsHelper = isUnknown || stderr.includes('helper program');
  if (fileSystem === 'nfs' && wantsHelper && !stderr.includes('mount.nfs:')) {
    return 'mount.nfs is not there: install the package "nfs-common" (its name in Debian)';
  }
  return isUnknown ? `this kernel does not have ${fileSystem}` : undefined;
}

/** Asked of the mount table alone: a directory behind which a server is gone would hang. */
export function isInMountTable(target: string): boolean {
  return readMountsBelow(target).some(({ mountPoint }) => mountPoint === target);
}

/**
 * Unmounts as often as something is mounted there, with force when that does not end, then removes the empty directory.
 * What is already gone is a success.
 */
export async function runUnmount(programs: Programs, target: string, signal: AbortSignal): Promise<void> {
  await unmountLayers(programs, target, signal);
  removeEmptyDirectory(target);
}

/** The same, and what it was mounted on stays. */
export async function unmountLayers(programs: Programs, target: string, signal: AbortSignal): Promise<void> {
  // Mounted twice over, one unmount would show the other mount and not the directory.
  for (let layers = 0; layers < layersMax && isInMountTable(target); layers += 1) {
    await unmountOnce(programs, target, signal);
  }
  if (isInMountTable(target)) throw new MountCommandError(`failed to cleanup mount point ${target}`);
}

async function unmountOnce(programs: Programs, target: string, signal: AbortSignal): Promise<void> {
  const run = (...options: string[]): Promise<ProgramOutput> => {
    const args = ['--no-canonicalize', ...options, '--', target];
    return programs.run({ program: 'umount', args, timeoutMs: unmountMsMax }, signal);
  };
  let output: ProgramOutput;
  try {
    output = await run();
  } catch (error) {
    if (!(error instanceof ProgramTimeoutError)) throw error;
    output = await run('--force');
  }
  if (output.status === 0 || !isInMountTable(target)) return;
  throw new MountCommandError(
    `unmount failed: ${exitText(output)}\nUnmounting arguments: ${target}\nOutput: ${spoken(output)}`,
  );
}

/** Only an empty directory is removed: whatever else is there is a user's storage. */
export function removeEmptyDirectory(directory: string): void {
  try {
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) rmdirSync(directory);
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}
