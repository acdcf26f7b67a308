/** The protocols that clients and this server may agree on, and how they do. */

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
