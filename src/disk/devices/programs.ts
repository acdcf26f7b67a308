/**
 * The system's own programs for block devices and file systems (mkfs, fsck, blkid, losetup, mount), run without a shell
 * and never for longer than their caller says. What their output means is decided by the callers.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import { kill } from 'node:process';
import { MountletError, errorCode } from '../../base/errors.ts';

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly timeoutMs: number;
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
   * or a ProgramTimeoutError.
   */
  run(command: Command, signal: AbortSignal): Promise<ProgramOutput>;
}

export class ProgramMissingError extends MountletError {
  readonly reason = 'ProgramMissing';
  constructor(program: string, options?: ErrorOptions) {
    super(`Cannot run "${program}": it is not there; install ${packageOf(program)}`, options);
  }
}

class ProgramArgumentError extends MountletError {
  readonly reason = 'ProgramArgumentInvalid';
  constructor(program: string) {
    super(`Cannot run "${program}": one of its arguments has a NUL in it, which no name can have`);
  }
}

/** The program was told to end and may have done its work, or may be doing it still. */
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

export function systemPrograms(settings: ProgramSettings = {}): Programs {
  const { searchPath = '/usr/sbin:/usr/bin:/sbin:/bin' } = settings;
  // Their words in English, since some of them are looked for.
  const env = { LC_ALL: 'C', PATH: searchPath };
  return {
    async run(command, signal) {
      signal.throwIfAborted();
      if (command.args.some((argument) => argument.includes('\0'))) {
        throw new ProgramArgumentError(command.program);
      }
      const late = AbortSignal.timeout(command.timeoutMs);
      const output = await outputOf(command, env, AbortSignal.any([signal, late]));
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
/** A program that waits for a device or a server cannot even be killed: nobody waits for it any longer. */
const deathMsMax = 2_000;
/** A program that left a server of its own behind (for FUSE, for locks of NFS) may never close its outputs. */
const lastWordsMsMax = 1_000;

/** Undefined when it had to be ended. */
function outputOf(
  { program, args }: Command,
  env: Readonly<Record<string, string>>,
  stop: AbortSignal,
): Promise<ProgramOutput | undefined> {
  return new Promise((resolve, reject) => {
    // A group of its own: mount(8) and fsck(8) start further programs, and all of them have to end.
    const child = spawn(program, args, { env, cwd: '/', detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const timers: NodeJS.Timeout[] = [];
    const later = (ms: number, act: () => void): void => void timers.push(setTimeout(act, ms));
    const end = (): void => {
      endGroup(child, 'SIGTERM');
      later(endMsMax, () => endGroup(child, 'SIGKILL'));
      later(endMsMax + deathMsMax, () => {
        child.unref();
        child.stdout.destroy();
        child.stderr.destroy();
        finish(() => resolve(undefined));
      });
    };
    const finish = (settle: () => void): void => {
      stop.removeEventListener('abort', end);
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
    stop.addEventListener('abort', end, { once: true });
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
  const name = debianPackages.find(([programs]) => programs.test(program))?.[1];
  return name === undefined ? 'the package that has it' : `the package "${name}" (its name in Debian)`;
}
