/** Authentication and authorization of requests to a node. The decisions are made outside. */
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { RequestRefused } from './streams/protocols.ts';

export interface NodeUser {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

interface NodeAction {
  readonly verb: string;
  /** Of the resource `nodes`, whose object is this node. */
  readonly subresource: string;
}

export interface NodeAccess {
  /** Undefined for a token that is not valid. */
  authenticate(token: string, signal: AbortSignal): Promise<NodeUser | undefined>;
  authorize(user: NodeUser, action: NodeAction, signal: AbortSignal): Promise<boolean>;
  /** Who shows nothing is `system:anonymous`; otherwise such a request is refused. */
  readonly allowsAnonymous: boolean;
}

const verbs: Readonly<Record<string, string>> = {
  GET: 'get',
  HEAD: 'get',
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};

const anonymous: NodeUser = { name: 'system:anonymous', uid: '', groups: ['system:unauthenticated'], extra: {} };

export async function identify(access: NodeAccess, request: IncomingMessage, signal: AbortSignal): Promise<NodeUser> {
  const shown = certifiedUser(request.socket as TLSSocket) ?? (await tokenUser(access, request, signal));
  const isAnonymous = access.allowsAnonymous && request.headers.authorization === undefined;
  const user = shown ?? (isAnonymous ? anonymous : undefined);
  if (user === undefined) throw new RequestRefused(401, 'Unauthorized');
  return user;
}

export async function permit(
  access: NodeAccess,
  user: NodeUser,
  method: string,
  subresources: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const verb = verbs[method] ?? '';
  for (const subresource of subresources) {
    if (await access.authorize(user, { verb, subresource }, signal)) return;
  }
  const text = `Forbidden (user=${user.name}, verb=${verb}, resource=nodes, subresource(s)=[${subresources.join(' ')}])\n`;
  throw new RequestRefused(403, text);
}

/** The user is the common name, each group an organization. A certificate of another authority is as good as none. */
function certifiedUser(socket: TLSSocket): NodeUser | undefined {
  if (!socket.authorized) return undefined;
  const { subject, ext_key_usage: usages } = socket.getPeerCertificate();
  const clientAuth = '1.3.6.1.5.5.7.3.2';
  if (subject?.CN === undefined || usages?.includes(clientAuth) === false) return undefined;
  const [name = ''] = [subject.CN].flat();
  const groups = [(subject as { O?: string | string[] }).O ?? []].flat();
  return name === '' ? undefined : { name, uid: '', groups: [...groups, 'system:authenticated'], extra: {} };
}

async function tokenUser(
  access: NodeAccess,
  request: IncomingMessage,
  signal: AbortSignal,
): Promise<NodeUser | undefined> {
  const [, token] = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
  return token === undefined ? undefined : await access.authenticate(token, signal);
}

/** What a request to a node asks for, read from its path. Paths are the kubelet's, because API servers know those. */
export type NodeRoute =
  | { readonly kind: 'healthz' | 'configz' | 'pods' | 'runningPods' | 'metrics' | 'resourceMetrics' | 'summary' }
  | { readonly kind: 'logs'; readonly namespace: string; readonly pod: string; readonly container: string }
  | ({ readonly kind: 'exec' | 'attach'; readonly container: string } & RoutedPod)
  | ({ readonly kind: 'portForward' } & RoutedPod);

export interface RoutedPod {
  readonly namespace: string;
  readonly pod: string;
  /** Empty: whichever pod has the name now. */
  readonly uid: string;
}

const plain = new Map([
  ['/healthz', 'healthz'],
  ['/configz', 'configz'],
  ['/pods', 'pods'],
  ['/runningpods', 'runningPods'],
  ['/metrics', 'metrics'],
  ['/metrics/resource', 'resourceMetrics'],
  ['/stats/summary', 'summary'],
] as const);

/** Undefined for what this node does not have. */
export function nodeRoute(path: string): NodeRoute | undefined {
  const kind = plain.get((path.length > 1 ? path.replace(/\/$/, '') : path) as '/pods');
  if (kind !== undefined) return { kind };
  const [empty, name, ...encoded] = path.split('/');
  const parts = encoded.map(decoded);
  if (empty !== '' || parts.includes('')) return undefined;
  const [namespace = '', pod = '', third = '', fourth] = parts;
  switch (name) {
    case 'containerLogs':
      return parts.length === 3 ? { kind: 'logs', namespace, pod, container: third } : undefined;
    case 'exec':
    case 'attach':
      if (parts.length === 3) return { kind: name, namespace, pod, uid: '', container: third };
      return parts.length === 4 ? { kind: name, namespace, pod, uid: third, container: fourth ?? '' } : undefined;
    case 'portForward':
      return parts.length === 2 || parts.length === 3 ? { kind: 'portForward', namespace, pod, uid: third } : undefined;
    default:
      return undefined;
  }
}

/** Empty if it cannot be decoded. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}

/** Under which subresources of the Node a request may be allowed; one of them is enough. */
export function subresourcesOf({ kind }: NodeRoute): readonly string[] {
  if (kind === 'pods' || kind === 'runningPods') return ['pods', 'proxy'];
  if (kind === 'healthz' || kind === 'configz') return [kind, 'proxy'];
  if (kind === 'summary') return ['stats'];
  return kind === 'metrics' || kind === 'resourceMetrics' ? ['metrics'] : ['proxy'];
}
