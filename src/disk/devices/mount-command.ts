/**
 * Mounts that may take long, and those whose file system has a helper program: devices and NFS. mount(8) knows which
 * options are the kernel's and which the file system's, and another process waits for the device or the server.
 * What takes no time is in mounts/.
 */
import { lstatSync, rmdirSync } from 'node:fs';
import { MountletError } from '../../base/errors.ts';
import { readMountTable } from '../mounts/mount-table.ts';
import { systemCallError } from '../system-call-error.ts';
import { ProgramTimeoutError, exitText, spoken } from './programs.ts';
import type { ProgramOutput, Programs } from './programs.ts';

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
  return readMountTable().some(({ mountPoint }) => mountPoint === target);
}

/**
 * Unmounts as often as something is mounted there, with force when that does not end, then removes the empty directory.
 * What is already gone is a success.
 */
export async function runUnmount(programs: Programs, target: string, signal: AbortSignal): Promise<void> {
  // Mounted twice over, one unmount would show the other mount and not the directory.
  for (let layers = 0; layers < layersMax && isInMountTable(target); layers += 1) {
    await unmountOnce(programs, target, signal);
  }
  if (isInMountTable(target)) throw new MountCommandError(`failed to cleanup mount point ${target}`);
  removeEmptyDirectory(target);
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

/** Only an empty directory is removed: whatever else is there is somebody's storage. */
export function removeEmptyDirectory(directory: string): void {
  try {
    if (lstatSync(directory, { throwIfNoEntry: false }) !== undefined) rmdirSync(directory);
  } catch (thrown) {
    throw systemCallError(thrown, directory);
  }
}
