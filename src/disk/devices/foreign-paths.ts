/**
 * Looks at paths on file systems of servers. A server may be gone, and then whatever looks waits for it: the main thread with all
 * that the program does, or one of the few threads that all of its files share, which would keep it from ending too. So
 * another process looks, and is given up after a while. `isForeign` (mounts/mount-table.ts) says which paths these are.
 */
import { execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { readMountTable } from '../mounts/mount-table.ts';
import { DiskError } from '../mounts/disk-error.ts';
import { ProgramTimeoutError, type Programs, spoken } from './programs.ts';

/** A server that takes longer is of no use to a container that is about to start. */
const answerMsMax = 5_000;

async function run(
  programs: Programs,
  [program = '', ...args]: readonly string[],
  path: string,
  signal: AbortSignal,
): Promise<string> {
  const command = { program, args: [...args, '--', path], timeoutMs: answerMsMax };
  const output = await inTime(programs.run(command, signal), path);
  if (output.status === 0) return output.stdout.trim();
  throw new DiskError('UnreadableFile', spoken(output).trim());
}

async function inTime<T>(answer: Promise<T>, path: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof ProgramTimeoutError)) throw error;
    throw silent(path, error);
  }
}

/** Its words name the file system, since that is what has to be mended. */
function silent(path: string, cause: unknown): DiskError {
  const { source, fileSystem } =
    readMountTable()
      .filter(({ mountPoint }) => path === mountPoint || path.startsWith(`${mountPoint}/`))
      .toSorted((a, b) => a.mountPoint.length - b.mountPoint.length)
      .at(-1) ?? {};
  const what = source === undefined ? 'its file system' : `${source} (${fileSystem})`;
  return new DiskError('FileSystemSilent', `Cannot look at "${path}": ${what} does not answer; see to its server`, {
    cause,
  });
}

/** Follows links; undefined for a path that is missing. Rejects when there is no answer in time. */
export async function foreignKindOf(
  programs: Programs,
  path: string,
  signal: AbortSignal,
): Promise<'directory' | 'file' | undefined> {
  try {
    const kind = await run(programs, ['stat', '--dereference', '--format=%F'], path, signal);
    return kind === 'directory' ? 'directory' : 'file';
  } catch (error) {
    if (error instanceof DiskError && error.message.endsWith(': No such file or directory')) return undefined;
    throw error;
  }
}

export async function makeForeignDirectory(programs: Programs, path: string, signal: AbortSignal): Promise<void> {
  await run(programs, ['mkdir', '--parents', '--mode=755'], path, signal);
}

interface ForeignUsage {
  readonly availableBytes: number;
  readonly capacityBytes: number;
  readonly usedBytes: number;
  readonly inodesFree: number;
  readonly inodes: number;
  readonly inodesUsed: number;
}

export async function foreignUsageOf(programs: Programs, path: string, signal: AbortSignal): Promise<ForeignUsage> {
  const answer = await run(programs, ['stat', '--file-system', '--format=%S %b %f %a %c %d'], path, signal);
  const [blockBytes = 0, blocks = 0, blocksFree = 0, blocksAvailable = 0, inodes = 0, inodesFree = 0] = answer
    .split(' ')
    .map(Number);
  return {
    availableBytes: blocksAvailable * blockBytes,
    capacityBytes: blocks * blockBytes,
    usedBytes: (blocks - blocksFree) * blockBytes,
    inodesFree,
    inodes,
    inodesUsed: inodes - inodesFree,
  };
}

/** What the other process answers: a result, or a DiskError. */
export type ForeignAnswer =
  | { readonly result: string }
  | { readonly reason: DiskError['reason']; readonly message: string };

interface ElsewhereRequest {
  readonly path: string;
  readonly script: URL;
  readonly request: object;
  readonly timeoutMs?: number;
}

/**
 * Has a program of this package do something with a path: it reads a request in JSON and writes an answer. Given on its
 * standard input, because other processes see command lines, and a request may have something secret in it.
 */
export async function doneElsewhere(
  programs: Programs,
  { path, script, request, timeoutMs = answerMsMax }: ElsewhereRequest,
  signal: AbortSignal,
): Promise<string> {
  const command = {
    program: execPath,
    args: ['--no-warnings', fileURLToPath(script), path],
    timeoutMs,
    input: JSON.stringify(request),
  };
  const output = await inTime(programs.run(command, signal), path);
  if (output.status !== 0) throw new Error(`${fileURLToPath(script)}: ${spoken(output)}`);
  const answer = JSON.parse(output.stdout) as ForeignAnswer;
  if ('result' in answer) return answer.result;
  throw new DiskError(answer.reason, answer.message);
}
