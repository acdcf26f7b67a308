/** How a command ended, in the words that kubectl reads exit codes from. */
import type { ExecResult } from '../../runtimes/runtime.ts';
import { messageOf } from '../../base/errors.ts';

export interface CommandStatus {
  readonly metadata: Readonly<Record<string, never>>;
  readonly status: 'Success' | 'Failure';
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly causes: readonly { readonly reason: string; readonly message: string }[] };
  readonly code?: number;
}

export const succeeded: CommandStatus = { metadata: {}, status: 'Success' };

export function exited({ exitCode }: ExecResult): CommandStatus {
  if (exitCode === 0) return succeeded;
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: exit status ${exitCode}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  };
}

/** `doing` is `error executing command in container`. */
export function failed(doing: string, thrown: unknown): CommandStatus {
  return {
    metadata: {},
    status: 'Failure',
    message: `Internal error occurred: ${doing}: ${messageOf(thrown)}`,
    reason: 'InternalError',
    code: 500,
  };
}

/** Protocols before the fourth know only text, and nothing for success. */
export function statusBytes(status: CommandStatus, isStructured: boolean): Buffer {
  if (isStructured) return Buffer.from(JSON.stringify(status));
  return Buffer.from(status.status === 'Success' ? '' : (status.message ?? ''));
}
