/** What a failing system call becomes when it leaves this room: the text is the one a kubelet prints for the same failure. */
import { MountletError, errorCode, messageOf } from '../../base/errors.ts';
import { errnoOf, errnoText } from '../system-call-error.ts';

export class VolumeWriteError extends MountletError {
  readonly reason = 'VolumeWriteFailed';
  /** `ENOSPC`, where the cause was a system error. */
  readonly code: string | undefined;

  /** `path` is for calls on a descriptor, whose errors do not know it. */
  constructor(cause: unknown, path?: string) {
    super(systemErrorText(cause, path), { cause });
    this.code = errorCode(cause);
  }
}

/** A file was to get an owner that this process may not give it. */
export class OwnerRefusedError extends MountletError {
  readonly reason = 'OwnerRefused';
  readonly path: string;
  readonly uid: number;

  constructor(path: string, uid: number, options?: ErrorOptions) {
    super(`Cannot give "${path}" to user ${uid}: run as root, or leave the owner out of the volume`, options);
    this.path = path;
    this.uid = uid;
  }
}

/** `open /volume/a: no space left on device`: the call, its paths, and the system's text. */
export function systemErrorText(thrown: unknown, knownPath?: string): string {
  const code = errnoOf(thrown);
  const message = messageOf(thrown);
  if (code === undefined || !(thrown instanceof Error)) return message;
  const { syscall, path = knownPath, dest } = thrown as NodeJS.ErrnoException & { readonly dest?: string };
  if (syscall === undefined) return message;
  return `${[syscall, path, dest].filter((part) => part !== undefined).join(' ')}: ${errnoText(code)}`;
}
