/**
 * What a request asks for, read from its method and URL alone: which verb on which resource, or which other path. Nothing is
 * looked up here; a name in a path may belong to nothing.
 */
export interface ResourceRequest {
  readonly kind: 'resource';
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  /** Empty for cluster objects and for lists over all namespaces. */
  readonly namespace: string;
  /** Empty for a collection. */
  readonly name: string;
  readonly subresource: string;
  /** The path behind the subresource, for proxies. */
  readonly rest: string;
  readonly path: string;
}

export interface PathRequest {
  readonly kind: 'path';
  /** The method in lower case: what authorisation calls the verb. */
  readonly verb: string;
  readonly path: string;
}

export type RequestInfo = ResourceRequest | PathRequest;

export interface RequestTarget {
  readonly path: string;
  readonly query: URLSearchParams;
}

const verbs: Readonly<Record<string, string>> = {
  POST: 'create',
  GET: 'get',
  HEAD: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};
const namespaceSubresources = new Set(['status', 'finalize']);

// Longer than any name the API admits, several times over; what is longer is not a typing mistake.
const pathLengthMax = 8192;

/**
 * The decoded path and the query, or undefined for a target that can mean nothing: broken escapes, control characters, steps
 * that climb (`..`). An encoded slash separates like a plain one, as in every server that decodes before it routes.
 */
export function parseTarget(target: string): RequestTarget | undefined {
  const mark = target.indexOf('?');
  const rawPath = mark < 0 ? target : target.slice(0, mark);
  if (rawPath.length > pathLengthMax || !rawPath.startsWith('/')) return undefined;
  const path = decoded(rawPath);
  if (path === undefined || /\p{Cc}|\/\.\.?(?:\/|$)/u.test(path)) return undefined;
  return { path, query: new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1)) };
}

function decoded(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export function requestInfo(method: string, { path, query }: RequestTarget): RequestInfo {
  const parts = path.split('/').slice(1);
  // Slashes at both ends mean nothing.
  while (parts[0] === '') parts.shift();
  while (parts.at(-1) === '') parts.pop();
  const [prefix] = parts;
  const head = prefix === 'api' ? 1 : prefix === 'apis' ? 2 : 0;
  // An empty part in the middle (`//`) names nothing.
  if (head === 0 || parts.length < head + 2 || parts.includes(''))
    return { kind: 'path', verb: method.toLowerCase(), path };
  const group = head === 2 ? (parts[1] ?? '') : '';
  const version = parts[head] ?? '';
  return { kind: 'resource', group, version, path, ...resourceIn(method, parts.slice(head + 1), query) };
}

type Place = Omit<ResourceRequest, 'kind' | 'group' | 'version' | 'path'>;

function resourceIn(method: string, given: readonly string[], query: URLSearchParams): Place {
  let parts = given;
  let verb = Object.hasOwn(verbs, method) ? (verbs[method] ?? '') : '';
  const [first] = parts;
  // The old way to ask for a watch: /api/v1/watch/namespaces/x/pods.
  const watchesByPath = first === 'watch' && parts.length > 1;
  if (watchesByPath) {
    parts = parts.slice(1);
    if (verb === 'get') verb = 'watch';
  }
  let namespace = '';
  if (parts[0] === 'namespaces' && parts.length > 1) {
    namespace = parts[1] ?? '';
    if (parts.length > 2 && !namespaceSubresources.has(parts[2] ?? '')) parts = parts.slice(2);
  }
  const [resource = '', name = '', subresource = '', ...rest] = parts;
  if (name === '') {
    if (verb === 'get') verb = asksToWatch(query) ? 'watch' : 'list';
    if (verb === 'delete') verb = 'deletecollection';
  }
  return { verb, resource, namespace, name, subresource, rest: rest.join('/') };
}

function asksToWatch(query: URLSearchParams): boolean {
  const value = query.get('watch');
  return value !== null && value.toLowerCase() !== 'false' && value !== '0' && value !== '';
}
