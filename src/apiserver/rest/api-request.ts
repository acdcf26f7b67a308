/** One request for a resource, as handlers get it: parsed, authenticated and authorised. And what they may answer. */
import type { User } from '../identity/user.ts';
import type { Exchange, ResponseHeaders } from '../http/exchange.ts';
import type { ResourceRequest } from '../request-info.ts';
import type { Resource } from '../resource.ts';
import type { Status } from '../status.ts';

export interface ApiRequest {
  readonly exchange: Exchange;
  readonly info: ResourceRequest;
  /** In whose form the objects are stored. */
  readonly resource: Resource;
  /** In whose form they are asked for: the same, unless that is a view. */
  readonly served: Resource;
  readonly query: URLSearchParams;
  readonly user: User;
  /** Aborts when the request has taken too long, the client is gone or the server stops. */
  readonly signal: AbortSignal;
  /** Tells the client something that is no error. */
  warn(text: string): void;
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
  | { readonly kind: 'raw'; readonly code: number; readonly headers: ResponseHeaders; readonly body: string | Buffer }
  /** The handler has answered by itself, as a stream. */
  | { readonly kind: 'streamed' };

export type Handler = (request: ApiRequest) => Promise<Reply> | Reply;

export const bodyBytesMax = 3 * 1024 * 1024;
/** Of what is no object: options, reviews, bindings. They are read on the main thread. */
export const optionsBytesMax = 16 * 1024;

export function success(code: number, details?: Status['details']): Reply {
  const base = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' } as const;
  return { kind: 'status', code, status: details === undefined ? { ...base, code } : { ...base, details } };
}
