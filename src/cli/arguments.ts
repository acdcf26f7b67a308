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
