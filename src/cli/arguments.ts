/** Checks that arguments of several commands share. */
import { InvalidArgumentError } from 'commander';

/** A script whose variable is not set gives an empty text, which would mean the current directory. */
export function notEmpty(path: string): string {
  if (path === '') throw new InvalidArgumentError('It is empty.');
  return path;
}
