/** Checks that arguments of several commands share. */
import { InvalidArgumentError, Option } from 'commander';

/** A script whose variable is not set gives an empty text, which would mean the current directory. */
export function notEmpty(path: string): string {
  if (path === '') throw new InvalidArgumentError('It is empty.');
  return path;
}

export const subPathUpdates = new Option(
  '--subpath-updates <boolean>',
  "whether subPath mounts follow their volumes; false: they keep the content they began with, as the kubelet's do (default: true)",
)
  .choices(['true', 'false'])
  .argParser((text) => {
    if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('Allowed choices are true, false.');
    return text === 'true';
  });

/** What containers see of the machine, for every command that runs some. */
export const hostFiles = new Option(
  '--host-files <view>',
  'what containers see of this machine: system (programs, libraries and what everyone may read in /etc), all, or none (default: system)',
).choices(['system', 'all', 'none']);

export const hostPath = new Option(
  '--host-path <dir>',
  'a directory of this machine that containers see too; can be repeated',
).argParser((path: string, before: readonly string[] | undefined) => [...(before ?? []), notEmpty(path)]);

export const writableLayer = new Option(
  '--writable-layer <size>',
  'how much a container can write outside of its volumes (default: 256Mi)',
);

export interface SandboxOptions {
  readonly hostFiles?: string;
  readonly hostPath?: readonly string[];
  readonly writableLayer?: string;
}
