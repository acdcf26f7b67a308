/** Mounts by mount(8) and umount(8) of util-linux, for machines on which koffi does not load. */
import { spawnSync } from 'node:child_process';
import { lstatSync } from 'node:fs';
import { isMountPoint } from './mount-point.ts';
import type { Mounter } from './mounter.ts';
import { SystemCallError, errnoText } from '../system-call-error.ts';

export interface ProgramResult {
  /** 0 for success. */
  readonly status: number;
  readonly stderr: string;
}

export type RunProgram = (program: 'mount' | 'umount', args: readonly string[]) => ProgramResult;

/** What mount(8) or umount(8) said. Its exit code has no errno, so the code is found in its words where they name one. */
export class MountProgramError extends SystemCallError {
  override readonly reason = 'MountProgramFailed';
  /** The program's own words. */
  readonly output: string;

  constructor(program: string, path: string, output: string) {
    super({ call: program === 'mount' ? 'mount' : 'umount2', path, code: codeIn(output) });
    this.output = output.trim();
    this.message += ` (${program}: ${this.output === '' ? 'said nothing' : this.output})`;
  }
}

export function programMounter(run: RunProgram = runProgram): Mounter {
  const mount = (target: string, ...args: readonly string[]): void => call(run, 'mount', target, args);
  // All options are given: mount(8) would add those of the file system from the mount table, and in a user namespace
  // the kernel refuses some that it wrote there itself (uid=, gid=).
  const remount = (target: string, options: readonly string[]): void =>
    mount(target, '--options-mode', 'ignore', '-o', ['remount', ...options].join(), '--', target);
  return {
    mount({ source, target, fileSystem, options }) {
      const given = options === '' ? [] : ['-o', options];
      mount(target, '--no-canonicalize', '-t', fileSystem, ...given, '--', source, target);
    },
    bind(source, target, recursive) {
      mount(target, '--no-canonicalize', recursive ? '--rbind' : '--bind', '--', source, target);
    },
    bindReadOnly: () => false,
    restrict({ mountPoint, options }, more) {
      const kept = options.filter((option) => option !== 'rw' || !more.includes('ro'));
      remount(mountPoint, ['bind', ...kept, ...more]);
    },
    reconfigure({ mountPoint, options }, changes) {
      remount(mountPoint, [...options, changes]);
    },
    unmount(target, lazy) {
      // umount(8) would follow it and has no option against that.
      if (isLink(target)) throw new SystemCallError({ call: 'umount2', path: target, code: 'EINVAL' });
      call(run, 'umount', target, ['--no-canonicalize', ...(lazy ? ['--lazy'] : []), '--', target]);
    },
    isMountPoint,
  };
}

function call(run: RunProgram, program: 'mount' | 'umount', target: string, args: readonly string[]): void {
  if (args.some((argument) => argument.includes('\0'))) {
    throw new SystemCallError({ call: program, path: target, code: 'EINVAL' });
  }
  const { status, stderr } = run(program, args);
  if (status !== 0) throw new MountProgramError(program, target, stderr);
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false; // a broken mount cannot be looked at, and must be unmounted all the same
  }
}

function runProgram(program: string, args: readonly string[]): ProgramResult {
  const { status, stderr, error } = spawnSync(program, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
    // Its words in English, and the system's own program whatever PATH says: this runs as root.
    env: { LC_ALL: 'C', PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  if (error !== undefined) return { status: 127, stderr: `cannot start it: ${error.message}` };
  return { status: status ?? 1, stderr };
}

const named = ['EPERM', 'ENOENT', 'EBUSY', 'ENOTDIR', 'ENOSPC', 'EROFS', 'ELOOP', 'EACCES', 'ENODEV'] as const;
const said: readonly (readonly [words: string, code: string])[] = [
  ['must be superuser', 'EPERM'],
  ['permission denied', 'EPERM'],
  ['target is busy', 'EBUSY'],
  ['does not exist', 'ENOENT'],
  ['no mount point', 'ENOENT'],
  ['not mounted', 'EINVAL'],
  ['bad option', 'EINVAL'],
  ['unknown filesystem type', 'ENODEV'],
  ['cannot start it', 'ENOSYS'],
];

function codeIn(output: string): string {
  const text = output.toLowerCase();
  return (
    said.find(([words]) => text.includes(words))?.[1] ?? named.find((code) => text.includes(errnoText(code))) ?? 'EIO'
  );
}
