/** The protocols that clients and this server may agree on, and how they do. */
import type { Readable, Writable } from 'node:stream';
import { messageOf, MountletError } from '../../base/errors.ts';
import type { ExecResult, TerminalSize } from '../../runtimes/runtime.ts';

export interface RemoteProtocol {
  /** The status at the end is an object, from which a client reads the exit code. */
  readonly hasStructuredStatus: boolean;
  readonly hasResize: boolean;
  /** The client can say that its input is over without ending everything. */
  readonly hasClose: boolean;
  readonly codec: 'binary' | 'base64';
}

const first = { hasStructuredStatus: false, hasResize: false, hasClose: false, codec: 'binary' } as const;
const third = { ...first, hasResize: true } as const;
const fourth = { ...third, hasStructuredStatus: true } as const;

/** Over SPDY every stream can be closed, so that the fifth adds nothing. */
export const spdyCommandProtocols: ReadonlyMap<string, RemoteProtocol> = new Map<string, RemoteProtocol>([
  ['v5.channel.k8s.io', fourth],
  ['v4.channel.k8s.io', fourth],
  ['v3.channel.k8s.io', third],
  ['v2.channel.k8s.io', first],
  ['channel.k8s.io', first],
]);

/** The empty name is that of a client which offers none. */
export const webSocketCommandProtocols: ReadonlyMap<string, RemoteProtocol> = new Map<string, RemoteProtocol>([
  ['v5.channel.k8s.io', { ...fourth, hasClose: true }],
  ['v4.channel.k8s.io', fourth],
  ['v4.base64.channel.k8s.io', { ...fourth, codec: 'base64' }],
  ['v3.channel.k8s.io', third],
  ['v2.channel.k8s.io', third],
  ['channel.k8s.io', third],
  ['base64.channel.k8s.io', { ...third, codec: 'base64' }],
  ['', third],
]);

export const spdyPortProtocol = 'portforward.k8s.io';
export const tunnelledPortProtocol = 'SPDY/3.1+portforward.k8s.io';

export const webSocketPortProtocols: ReadonlyMap<string, Pick<RemoteProtocol, 'codec'>> = new Map<
  string,
  Pick<RemoteProtocol, 'codec'>
>([
  ['v4.channel.k8s.io', { codec: 'binary' }],
  ['v4.base64.channel.k8s.io', { codec: 'base64' }],
  ['', { codec: 'binary' }],
]);

/** The client's favourite among those we know. */
export function agreeOn(offered: readonly string[], known: Iterable<string>): string | undefined {
  const names = new Set(known);
  return offered.find((name) => names.has(name));
}

export function listOf(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

/** What the node answers when it does not do what it was asked: a code and plain text, as API servers expect of a node. */
export class RequestRefused extends MountletError {
  readonly reason = 'NodeRequestRefused';
  readonly code: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }
}

/**
 * The streams between a command in a container and its client, over either transport. Both transports
 * hold little: a client that does not read makes the command wait, and a command that does not read makes the client wait.
 */
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

/** How a command ended, in the words that kubectl reads exit codes from. */
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
