/** What a request to a node asks for, read from its path. Paths are the kubelet's, because API servers know those. */

export type NodeRoute =
  | { readonly kind: 'healthz' | 'pods' | 'runningPods' | 'metrics' }
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
  ['/pods', 'pods'],
  ['/runningpods', 'runningPods'],
  ['/metrics', 'metrics'],
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

/** Empty for what is no proper text. */
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
  if (kind === 'healthz') return ['healthz', 'proxy'];
  return kind === 'metrics' ? ['metrics'] : ['proxy'];
}
