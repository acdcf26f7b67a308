/** A call of the API as an HTTP request: its path, query, headers and body. How often it is sent is the client's business. */
import type { CurrentCredentials } from '../credentials/credentials.ts';
import type { HttpRequest } from '../transport/transport.ts';
import { type ObjectPlace, type ResourceReference, objectPath, resourceName } from './resource-reference.ts';

/** What a request may ask for beside the place of its object: the API's query parameters. */
export interface Selection {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface ListQuery extends Selection {
  readonly resourceVersion?: string | undefined;
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan' | undefined;
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
}

export interface WatchQuery extends Selection {
  readonly resourceVersion?: string | undefined;
  readonly resourceVersionMatch?: 'NotOlderThan' | undefined;
  readonly allowWatchBookmarks?: boolean | undefined;
  readonly sendInitialEvents?: boolean | undefined;
  readonly timeoutSeconds?: number | undefined;
}

export interface GetOptions {
  /** `0` lets the server answer from its memory, which may be a little old. */
  readonly resourceVersion?: string | undefined;
}

export interface WriteOptions {
  readonly fieldManager?: string | undefined;
  readonly dryRun?: 'All' | undefined;
}

export interface PatchOptions extends WriteOptions {
  readonly type: 'merge' | 'strategic' | 'json' | 'apply';
  /** Of `apply`: take over fields that others own. */
  readonly force?: boolean | undefined;
}

export const jsonType = 'application/json';
// A server that cannot do this answers with the whole object.
export const metadataType = `${jsonType};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,${jsonType}`;

const patchTypes: Readonly<Record<PatchOptions['type'], string>> = {
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml',
};

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Call {
  /** For messages: `get configmaps "web"`. */
  readonly what: string;
  readonly method: string;
  readonly path: string;
  readonly query?: Query;
  readonly accept?: string;
  readonly contentType?: string;
  readonly body?: unknown;
}

export function getCall(resource: ResourceReference, place: ObjectPlace & GetOptions): Call {
  return { ...callOf('get', resource, place), method: 'GET', query: { resourceVersion: place.resourceVersion } };
}

export function patchCall(resource: ResourceReference, place: ObjectPlace & PatchOptions, patch: unknown): Call {
  const query = { ...writeQuery(place), force: place.force };
  const about = callOf('patch', resource, place);
  return { ...about, method: 'PATCH', query, body: patch, contentType: patchTypes[place.type] };
}

export function callOf(verb: string, resource: ResourceReference, place: ObjectPlace): Pick<Call, 'what' | 'path'> {
  return { what: `${verb} ${resourceName(resource)} "${place.name}"`, path: objectPath(resource, place) };
}

export function writeQuery({ fieldManager, dryRun }: WriteOptions): Query {
  return { fieldManager, dryRun };
}

export function requestOf(
  call: Call,
  { headers, identity }: CurrentCredentials,
  userAgent: string,
  isLongLived: boolean,
): HttpRequest {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined && value !== '' && !(name === 'limit' && value === 0)) query.set(name, String(value));
  }
  const text = query.toString();
  return {
    method: call.method,
    path: text === '' ? call.path : `${call.path}?${text}`,
    headers: {
      accept: call.accept ?? jsonType,
      'user-agent': userAgent,
      ...(call.contentType !== undefined && { 'content-type': call.contentType }),
      ...headers,
    },
    ...(call.body !== undefined && { body: Buffer.from(JSON.stringify(call.body)) }),
    isLongLived,
    identity,
  };
}
