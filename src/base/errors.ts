/**
 * The root of every error that mountlet reports to a user. A message says what we could not do, to what (quoted),
 * and what to do next. Anything that is not a MountletError is a bug and ends the process.
 */
export abstract class MountletError extends Error {
  /** One stable word: the same in logs, metrics, Kubernetes Events and `-o json`. */
  abstract readonly reason: string;

  override get name(): string {
    return this.constructor.name;
  }
}

/** A failure that no code tells apart from others: its reason and its message are for people. */
export class OperatingError extends MountletError {
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The text of anything that was thrown, for a message that quotes its cause. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a system error (`ENOENT`), or undefined for anything else. */
export function errorCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** As Go joins messages: one as it is, more of them in brackets, none twice. */
export function aggregated(messages: readonly string[]): string {
  const different = [...new Set(messages)];
  return different.length === 1 ? different.join('') : `[${different.join(', ')}]`;
}
