/** One request for a resource, as handlers get it: parsed, authenticated and authorised. And what they may answer. */
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { PeerIdentity } from '../identity/authentication.ts';
import type { User } from '../identity/user.ts';
import type { Resource } from '../model/resource.ts';
import type { Status } from '../model/status.ts';
import type { ResourceRequest } from './request-info.ts';

export interface ApiRequest {
  readonly exchange: Exchange;
  readonly info: ResourceRequest;
  /** In whose form the objects are stored. */
  readonly resource: Resource;
  /** In whose form they are asked for: the same, unless that is a view. */
  readonly served: Resource;
  readonly query: URLSearchParams;
  readonly user: User;
  /** The form of the answer that the client asked for. */
  readonly representation: Representation;
  /** Aborts when the request has taken too long, the client is gone or the server stops. */
  readonly signal: AbortSignal;
  /** Adds a warning to the answer. */
  warn(text: string): void;
}

export interface Representation {
  readonly format: 'json' | 'yaml';
  readonly as: 'object' | 'table' | 'metadata';
  /** Of the group meta.k8s.io, for tables and metadata. */
  readonly version: string;
  readonly isPretty: boolean;
}

export interface ListMetadata {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

export type Reply =
  /** One object as JSON; it is converted to what the client accepts. */
  | { readonly kind: 'object'; readonly code: number; readonly text: string }
  | { readonly kind: 'list'; readonly items: readonly string[]; readonly metadata: ListMetadata }
  | { readonly kind: 'status'; readonly code: number; readonly status: Status }
  | RawReply
  /** The handler has answered by itself, as a stream. */
  | { readonly kind: 'streamed' };

export interface RawReply {
  readonly kind: 'raw';
  readonly code: number;
  readonly headers: ResponseHeaders;
  readonly body: string | Buffer;
}

export type Handler = (request: ApiRequest) => Promise<Reply> | Reply;

export const bodyBytesMax = 3 * 1024 * 1024;
/** Of options, reviews and bindings, which are read on the main thread. */
export const optionsBytesMax = 16 * 1024;

export function success(code: number, details?: Status['details']): Reply {
  const base = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' } as const;
  return { kind: 'status', code, status: details === undefined ? { ...base, code } : { ...base, details } };
}

export type ResponseHeaders = Readonly<Record<string, string | readonly string[]>>;

/** One request and its answer, over either version of HTTP. A handler answers once, in full or as a stream. */
export interface Exchange {
  readonly method: string;
  /** Path and query as they came. */
  readonly target: string;
  readonly remoteAddress: string;
  /** Of a client that showed a certificate. */
  readonly peer: PeerIdentity | undefined;
  header(name: string): string | undefined;
  /** Of all headers of that name, each as it came. */
  headerValues(name: string): readonly string[];
  /** In lower case. */
  headerNames(): readonly string[];
  /** Rejects with a StatusError when it is longer, with a ConnectionLost when the client goes away, or as `stopReading` says. */
  readBody(bytesMax: number): Promise<Buffer>;
  /** Gives up the rest of the body. Does nothing once it has been read. */
  stopReading(reason: Error): void;
  /** Answers in full. Does nothing when the client is gone. */
  send(code: number, headers: ResponseHeaders, body: string | Buffer): void;
  /** Begins an answer of unknown length; the headers go out at once. */
  openStream(code: number, headers: ResponseHeaders): ResponseStream;
  /** Breaks off whatever was or was not answered: the client must not wait for more. */
  fail(): void;
  /** The answer has begun, so that nothing else can be answered. */
  readonly isAnswered: boolean;
  /** Called once, when the answer is complete or cannot be completed any more. The end of the request alone does not count. */
  onClose(listener: () => void): void;
  /** Of a request to leave HTTP: the bare connection and what was already read of it. */
  readonly upgrade: { readonly socket: Duplex; readonly head: Buffer } | undefined;
}

export interface ResponseStream {
  /** False when the reader does not keep up; what was given is taken all the same. */
  write(bytes: Uint8Array): boolean;
  /** Called whenever a reader that did not keep up has done so. */
  onDrain(listener: () => void): void;
  end(): void;
  /** Breaks the connection (HTTP/1.1) or the stream (HTTP/2): the reader must not believe it has seen a clean end. */
  destroy(): void;
}

export function peerOf(socket: unknown): PeerIdentity | undefined {
  const tls = socket as Partial<TLSSocket> | undefined;
  const certificate = tls?.getPeerCertificate?.();
  if (certificate === undefined || Object.keys(certificate).length === 0) return undefined;
  const keyUsages = certificate.ext_key_usage;
  return { verified: tls?.authorized === true, subject: certificate.subject, ...(keyUsages && { keyUsages }) };
}

/** The values of the headers of a name, from names and values by turns as they came. */
export function valuesOf(rawHeaders: readonly string[], name: string): readonly string[] {
  const texts: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() !== name) continue;
    texts.push(Buffer.from(rawHeaders[index + 1] ?? '', 'latin1').toString('utf8'));
  }
  return texts;
}

/** HTTP headers are bytes; Node takes each character for one byte. */
export function headerText(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
