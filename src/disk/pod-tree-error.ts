/** What goes wrong in the directories of pods, in the words that the kubelet's messages end with. */
import { MountletError } from '../base/errors.ts';
import { errnoOf } from './system-call-error.ts';

/** The message is what the kernel said, in the words of Go where a path belongs to it. */
export class PodTreeError extends MountletError {
  readonly reason = 'PodDirectory';
}

/** What is mounted is in use, and never deleted. */
export function mountPointError(path: string): PodTreeError {
  return new PodTreeError(`cannot delete directory ${path}: it is a mount point`);
}

/** Turns a failed system call into an error with these words. */
export function attempt<Result>(act: () => Result, inWords: (code: string) => string): Result {
  try {
    return act();
  } catch (thrown) {
    const code = errnoOf(thrown);
    if (thrown instanceof PodTreeError || code === undefined) throw thrown;
    throw new PodTreeError(inWords(code), { cause: thrown });
  }
}
