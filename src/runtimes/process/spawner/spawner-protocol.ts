/**
 * What a node asks of its spawner. One connection follows what happens and carries numbered calls; `exec` and `attach` have one
 * each, for the frames of their streams in both directions. `start` and `exec` are followed by an image. A program is known by an ID
 * that the node chooses.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { errorCode } from '../../../base/errors.ts';
import type { LogLimits } from './container-log.ts';

/** In the runtime's directory: where it listens, and the ends that the node has not taken yet. */
export const socketName = 'spawner.sock';
export const exitsName = 'exits';

/** Another number is another protocol: such a spawner is replaced, and what it runs is ended. */
export const spawnerProtocol = 2;

/** The first message of a connection. */
export type SpawnerRequest =
  /** Answered with a SpawnerState, then with ChildFacts whenever something started or ended, and with CallAnswers to SpawnerCalls. */
  | { readonly ask: 'follow' }
  /** Answered with a StartAnswer, then output, then an ExecEnd. Ended with the connection. */
  | { readonly ask: 'exec'; readonly id: string; readonly tty: boolean }
  | { readonly ask: 'attach'; readonly id: string }
  /** Ends the spawner and everything it runs. */
  | { readonly ask: 'end' };

export type SpawnerCall =
  /** Answered with a StartAnswer. */
  | { readonly call: 'start'; readonly id: string; readonly start: ChildStart }
  | { readonly call: 'signal'; readonly id: string; readonly signal: number }
  /** Answered with what was given at the start; undefined for one that is unknown. */
  | { readonly call: 'context'; readonly id: string }
  /** One that has not ended is killed. */
  | { readonly call: 'forget'; readonly id: string };

/** Answers the call with this number; `problem` says why it failed. */
export interface CallAnswer {
  readonly number: number;
  readonly answer?: unknown;
  readonly problem?: string;
}

export interface ChildStart {
  /** Absent for what prints nothing. */
  readonly log?: { readonly path: string; readonly limits: LogLimits };
  readonly stdin: 'none' | 'keep' | 'once';
  readonly tty: boolean;
  /** Children whose namespaces it joins: the program gets a pidfd of each, after the status socket. */
  readonly joins: readonly string[];
  /** Its processes do not end with the first one: these groups and its mount namespace say which ones have to be killed. */
  readonly strays?: { readonly groups: readonly string[] };
  /** Whether the spawner stays for it when the node is gone. */
  readonly keepsSpawner: boolean;
  /** Kept in memory only: variables may be secret. */
  readonly context: unknown;
}

export type StartAnswer =
  | {
      readonly outcome: 'started';
      readonly pid: number;
      readonly startedAtMs: number;
    }
  /** `report`: the bytes that the program sent, in hexadecimal. `problem`: why there was no program to send any. */
  | { readonly outcome: 'failed'; readonly report: string; readonly problem?: string; readonly exitCode: number };

export interface ChildFacts {
  readonly id: string;
  /** Absent while it is being launched. */
  readonly pid?: number;
  readonly startedAtMs: number;
  readonly end?: ChildEndRecord;
}

export interface ChildEndRecord {
  readonly exitCode: number;
  readonly finishedAtMs: number;
}

export interface SpawnerState {
  readonly protocol: number;
  readonly pid: number;
  readonly children: readonly ChildFacts[];
}

export interface ExecEnd {
  readonly exitCode: number;
}

/** On `exec` and `attach`, from the node. */
export type StreamMessage =
  | { readonly resize: { readonly columns: number; readonly rows: number } }
  | { readonly stdinEnded: true }
  /** The reader of the output is gone: what still runs has to end, but its exit code counts. */
  | { readonly left: true };

/** Ends that an earlier spawner recorded and the node has not taken yet. */
export function recordedEnds(directory: string): Map<string, ChildEndRecord> {
  const ends = new Map<string, ChildEndRecord>();
  for (const name of namesIn(join(directory, exitsName))) {
    if (!name.endsWith('.json')) continue;
    try {
      const text = readFileSync(join(directory, exitsName, name), 'utf8');
      ends.set(name.slice(0, -'.json'.length), JSON.parse(text) as ChildEndRecord);
    } catch {
      // cut short by a crash of the machine, which the container did not survive either
    }
  }
  return ends;
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return [];
    throw thrown;
  }
}

/** Messages between the node and its spawner on a unix socket: a length, a kind, the bytes. */
const kinds = ['message', 'image', 'stdin', 'stdout', 'stderr'] as const;
type FrameKind = (typeof kinds)[number];

export interface Frame {
  readonly kind: FrameKind;
  readonly bytes: Buffer;
}

const headerBytes = 5;
/** Above what the kernel takes as the variables and arguments of one program, twice. */
const frameBytesMax = 16 * 1024 * 1024;

/** False when the other side has to catch up first. */
export function sendFrame(socket: Duplex, kind: FrameKind, bytes: Buffer): boolean {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(bytes.length, 0);
  header.writeUInt8(kinds.indexOf(kind), 4);
  socket.cork();
  socket.write(header);
  const isFree = socket.write(bytes);
  socket.uncork();
  return isFree;
}

export function sendMessage(socket: Duplex, message: object): boolean {
  return sendFrame(socket, 'message', Buffer.from(JSON.stringify(message)));
}

export function messageIn({ bytes }: Frame): unknown {
  return JSON.parse(bytes.toString());
}

/** The frames of a socket until its other side ends it. */
export async function* readFrames(socket: Duplex): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (rest.length - at >= headerBytes) {
      const length = rest.readUInt32LE(at);
      const kind = kinds[rest.readUInt8(at + 4)];
      if (kind === undefined || length > frameBytesMax) throw new Error('Not a message of the spawner');
      if (rest.length - at < headerBytes + length) break;
      yield { kind, bytes: rest.subarray(at + headerBytes, at + headerBytes + length) };
      at += headerBytes + length;
    }
    rest = rest.subarray(at);
  }
}
