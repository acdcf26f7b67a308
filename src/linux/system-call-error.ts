/**
 * A system call that failed, as a typed error: which call, on what, which errno, and what to do about it. Everything in
 * `disk/` that meets an errno (through Node or through koffi) ends here.
 */
import { getSystemErrorMap } from 'node:util';
import { MountletError, errorCode, messageOf } from '../base/errors.ts';

interface FailedCall {
  /** The name of the system call: `mount`, `umount2`, `openat`. */
  readonly call: string;
  readonly path: string;
  /** The name of the errno: `EPERM`. */
  readonly code: string;
}

export class SystemCallError extends MountletError {
  readonly reason: string = 'SystemCallFailed';
  readonly call: string;
  readonly path: string;
  readonly code: string;
  /** What the system said and what to do about it, without the path. */
  readonly problem: string;

  constructor({ call, path, code }: FailedCall, options?: ErrorOptions) {
    const advice = adviceFor(call, code);
    const problem = `${errnoText(code)}${advice === undefined ? '' : `; ${advice}`}`;
    super(`Cannot ${call} "${path}": ${problem}`, options);
    this.problem = problem;
    this.call = call;
    this.path = path;
    this.code = code;
  }
}

/** A thrown system error of Node as ours; anything else is a bug and is passed on as it is. */
export function systemCallError(thrown: unknown, path: string): unknown {
  const code = errnoOf(thrown);
  if (thrown instanceof MountletError || code === undefined) return thrown;
  const call = thrown instanceof Error && 'syscall' in thrown ? String(thrown.syscall) : 'use';
  return new SystemCallError({ call, path, code }, { cause: thrown });
}

/** Does what the caller asks; a system error becomes one that names the path. */
export function guarded<Result>(path: string, act: () => Result): Result {
  try {
    return act();
  } catch (thrown) {
    throw systemCallError(thrown, path);
  }
}

/** The errno's name of a failure that Node or this room reports; undefined for anything else. */
export function errnoOf(thrown: unknown): string | undefined {
  const code = errorCode(thrown);
  if (code === 'ERR_INVALID_ARG_VALUE') return 'EINVAL'; // what Node says to a path with a NUL in it
  return code !== undefined && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** libuv has words of its own for these; the C library's, which Go prints too, are the ones that users search for. */
const kernelTexts: Readonly<Record<string, string>> = {
  EEXIST: 'file exists',
  EBUSY: 'device or resource busy',
  ELOOP: 'too many levels of symbolic links',
  ENOTEMPTY: 'directory not empty',
  ENAMETOOLONG: 'file name too long',
  ENODEV: 'no such device',
  EISDIR: 'is a directory',
  EXDEV: 'invalid cross-device link',
  EMFILE: 'too many open files',
  ENFILE: 'too many open files in system',
  ENOTCONN: 'transport endpoint is not connected',
  ESTALE: 'stale file handle',
  EIO: 'input/output error',
};

/** The text of an errno as the C library and Go write it: `no such file or directory`. */
export function errnoText(code: string): string {
  const known = kernelTexts[code];
  if (known !== undefined) return known;
  for (const [name, text] of getSystemErrorMap().values()) if (name === code) return text;
  return code;
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

function adviceFor(call: string, code: string): string | undefined {
  const mounting = /mount|open_tree/.test(call);
  if (code === 'EPERM' && mounting) return 'run as root, or with the capability CAP_SYS_ADMIN';
  if (code === 'EPERM' || code === 'EACCES') return 'run as a user that may do this, or change the owner or the mode';
  if (code === 'EBUSY') return 'end the processes that use it, or unmount what is mounted there, and try again';
  if (code === 'EINVAL' && call === 'umount2') return 'it is not a mount point';
  if (code === 'EINVAL' && mounting) return 'the kernel refused an option; its log (dmesg) may say which';
  if (code === 'ENODEV' && mounting) return 'this kernel does not have that file system';
  if (code === 'ENOSPC' && mounting) return 'there are too many mounts: raise the sysctl fs.mount-max';
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'free some space and try again';
  if (code === 'EMFILE' || code === 'ENFILE') return 'raise the limit of open files';
  return undefined;
}
