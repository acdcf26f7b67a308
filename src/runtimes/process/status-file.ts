/**
 * What the launcher tells about a container: one line for each step, appended. Lines, not replaced files, because the one
 * who knows the exit code sits in the sandbox and has nothing of the host but this descriptor.
 */
import { readFileSync, statSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';

export interface LaunchStatus {
  readonly supervisorPid: number | undefined;
  readonly buildPid: number | undefined;
  /** The container's mount namespace, told where its processes do not end by themselves with the first one. */
  readonly mountNamespace: string | undefined;
  readonly started: boolean;
  readonly code: number | undefined;
  /** Why the command could not be executed. */
  readonly failure: string | undefined;
  /** All output was handed on and nothing is left. */
  readonly ended: boolean;
}

export function parseStatus(text: string): LaunchStatus {
  // A last line without its end is still being written.
  const lines = text.split('\n').slice(0, -1);
  // The first line of a kind counts: later ones may come from a container that took over its first process.
  const after = (word: string): string | undefined =>
    lines.find((line) => line.startsWith(`${word} `))?.slice(word.length + 1);
  const number = (word: string): number | undefined => {
    const found = after(word);
    return found !== undefined && /^\d{1,9}$/.test(found) ? Number(found) : undefined;
  };
  return {
    supervisorPid: number('supervisor'),
    buildPid: number('build'),
    mountNamespace: after('namespace'),
    started: lines.includes('started'),
    code: number('code'),
    failure: after('failed'),
    ended: lines.includes('ended'),
  };
}

export function readStatus(path: string): LaunchStatus & { readonly changedAtMs: number } {
  try {
    return { ...parseStatus(readFileSync(path, 'utf8')), changedAtMs: statSync(path).mtimeMs };
  } catch (thrown) {
    if (errorCode(thrown) !== 'ENOENT') throw thrown;
    return { ...parseStatus(''), changedAtMs: 0 };
  }
}
