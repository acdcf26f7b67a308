/**
 * The streams between a command in a container and whoever asked for it, over whichever transport they came. Both transports
 * hold little: a client that does not read makes the command wait, and a command that does not read makes the client wait.
 */
import type { Readable, Writable } from 'node:stream';
import type { TerminalSize } from '../../runtimes/runtime.ts';
import type { CommandStatus } from './command-status.ts';

export interface RemoteStreams {
  readonly stdin: Readable | undefined;
  readonly stdout: Writable | undefined;
  readonly stderr: Writable | undefined;
  readonly resizes: AsyncIterable<TerminalSize>;
  /** Aborts when the client has left or nothing came or went for too long. */
  readonly gone: AbortSignal;
  /** All output reaches the client, then the status, then the connection is closed. */
  finish(status: CommandStatus): Promise<void>;
}

/** Which streams a client wants. */
export interface StreamChoice {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

export interface StreamLimits {
  /** A connection on which nothing comes or goes is given up. */
  readonly idleMs: number;
  /** How long a client may take to open the streams it announced. */
  readonly creationMs: number;
  /** How long a client may take to close a connection that is over. */
  readonly closingMs: number;
}

export const streamLimits: StreamLimits = { idleMs: 4 * 3600_000, creationMs: 30_000, closingMs: 10_000 };
