/**
 * Hands requests for logs, commands and ports to the node that runs the pod, and reads what nodes say of themselves. Bytes of an upgraded connection go through as they
 * are, both ways, each side at the pace of the other. The node sees this server's certificate and nothing of the client's
 * credentials: who may ask was decided here.
 */
import { setMaxListeners } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../base/clock.ts';
import { type Node, nodePort } from '../../kube/kinds/node.ts';
import { isYes, podLogQuery } from '../../kube/kinds/pod/pod-requests.ts';
import type { KeyPair } from '../identity/certificates.ts';
import { StatusError, internalError, notFound } from '../model/status.ts';
import type { ApiRequest, Exchange } from '../rest/api-request.ts';
import type { NodeConnector, NodeRequest } from '../rest/pod-subresources.ts';
import { dialProblem, passBody, relay } from './http-relay.ts';
import { asksForWebSocket, sendLog } from './log-socket.ts';

interface NodeProxyDeps {
  readonly clock: Clock;
  readonly nodes: { node(name: string): Node | undefined };
}

interface NodeProxySettings {
  /** Signs the certificates of nodes. */
  readonly authorityPem: string;
  /** Whatever they show is believed. */
  readonly isInsecure: boolean;
  /** Shown to nodes. */
  readonly client: KeyPair;
}

type NodeAnswer =
  | { readonly kind: 'answer'; readonly response: IncomingMessage }
  | { readonly kind: 'upgraded'; readonly response: IncomingMessage; readonly socket: Duplex; readonly head: Buffer };

// How long a node may take to answer at all.
const answerMs = 30_000;
// How long one side may take to close after the other has.
const closingMs = 10_000;
const listenersMax = 30;
/** A thousand containers take about a megabyte. */
const readBytesMax = 16 * 1024 * 1024;

/** The headers of an upgrade that go to the node. All others, credentials above all, stay here. */
const requestHeaders = [
  'upgrade',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'x-stream-protocol-version',
  'user-agent',
];
const responseHeaders = ['upgrade', 'sec-websocket-accept', 'sec-websocket-protocol', 'x-stream-protocol-version'];

export class NodeProxy implements NodeConnector {
  readonly #deps: NodeProxyDeps;
  readonly #settings: NodeProxySettings;

  constructor(deps: NodeProxyDeps, settings: NodeProxySettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  async connect(nodeRequest: NodeRequest, { exchange, query, signal }: ApiRequest): Promise<void> {
    const node = this.#node(nodeRequest.pod.spec.nodeName ?? '');
    const { upgrade } = exchange;
    const isLog = nodeRequest.logOptions !== undefined;
    const answer = await this.#ask(
      {
        ...nodeAddress(node),
        method: isLog ? 'GET' : exchange.method,
        path: nodePath(nodeRequest, query),
        headers: isLog ? {} : upgradeHeaders(exchange),
        rejectUnauthorized: nodeRequest.logOptions?.insecureSkipTLSVerifyBackend !== true,
      },
      node.metadata.name,
      signal,
    );
    if (answer.kind === 'upgraded' && upgrade !== undefined) {
      await this.#passThrough(upgrade, answer, signal);
      return;
    }
    const { response } = answer;
    if (isLog && response.statusCode === 200) {
      if (asksForWebSocket(exchange)) await sendLog(response as AsyncIterable<Buffer>, exchange, signal);
      else await passBody(response, exchange, 200, logHeaders, signal);
    } else throw await nodeRefusal(response, !isLog);
  }

  async read(nodeName: string, path: string, signal: AbortSignal): Promise<string> {
    const target = { ...nodeAddress(this.#node(nodeName)), method: 'GET', path };
    const { response } = await this.#ask(target, nodeName, signal);
    if (response.statusCode !== 200) throw await nodeRefusal(response, false);
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of response as AsyncIterable<Buffer>) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > readBytesMax) throw internalError(`the answer of the node is longer than ${readBytesMax} bytes`);
    }
    return Buffer.concat(pieces).toString('utf8');
  }

  addressOf(nodeName: string): { readonly host: string; readonly port: number } {
    return nodeAddress(this.#node(nodeName));
  }

  async relay(nodeName: string, path: string, request: ApiRequest): Promise<void> {
    const address = this.addressOf(nodeName);
    await relay({ scheme: 'https', ...address, path }, request, this.#tls(nodeName, address.host));
  }

  #node(name: string): Node {
    const node = this.#deps.nodes.node(name);
    if (node === undefined) throw notFound({ group: '', name: 'nodes' }, name);
    return node;
  }

  /** Who this server is to the node, and how it knows the node. */
  #tls(nodeName: string, host: string): RequestOptions {
    const { authorityPem, client, isInsecure } = this.#settings;
    return {
      ...(isInsecure && { rejectUnauthorized: false }),
      // An address may have been another node's a moment ago, and a node says itself which it has: its name counts.
      checkServerIdentity: (_host, { subject }) => misnamed(`system:node:${nodeName}`, subject.CN),
      ca: authorityPem,
      cert: client.certificatePem,
      key: client.keyPem,
      // An address may not be named in the handshake.
      servername: isIP(host) === 0 ? host : '',
    };
  }

  #ask(target: RequestOptions, nodeName: string, signal: AbortSignal): Promise<NodeAnswer> {
    return new Promise((resolve, reject) => {
      const tls = this.#tls(nodeName, String(target.host));
      const request = httpsRequest({ ...target, ...tls, agent: false, signal });
      request.setTimeout(answerMs, () => request.destroy(new Error(`no answer within ${answerMs / 1000} s`)));
      request.on('response', (response) => {
        request.setTimeout(0);
        resolve({ kind: 'answer', response });
      });
      request.on('upgrade', (response, socket, head) => {
        request.setTimeout(0);
        socket.setTimeout(0);
        resolve({ kind: 'upgraded', response, socket, head });
      });
      request.on('error', (error) => {
        const reason: unknown = signal.reason;
        reject(signal.aborted ? reason : internalError(`error dialing backend: ${dialProblem(error)}`));
      });
      request.end();
    });
  }

  async #passThrough(
    client: { readonly socket: Duplex; readonly head: Buffer },
    node: Extract<NodeAnswer, { kind: 'upgraded' }>,
    signal: AbortSignal,
  ): Promise<void> {
    client.socket.write(responseHead(node.response));
    if (node.head.length > 0) client.socket.write(node.head);
    if (client.head.length > 0) node.socket.write(client.head);
    const over = new AbortController();
    // Each direction listens to both sockets; Node takes more than ten listeners for a leak.
    setMaxListeners(listenersMax, client.socket, node.socket);
    const directions = [
      pipeline(client.socket, node.socket, { signal }),
      pipeline(node.socket, client.socket, { signal }),
    ];
    // A side that is gone, on purpose or not, needs no error.
    const ended = directions.map((direction) => direction.catch(() => {}));
    await Promise.race(ended);
    const patience = this.#deps.clock.sleep(closingMs, over.signal).catch(() => {});
    await Promise.race([Promise.all(ended), patience]);
    over.abort();
    client.socket.destroy();
    node.socket.destroy();
    await Promise.all(ended);
  }
}

function misnamed(wanted: string, names: string | readonly string[] | undefined): Error | undefined {
  if (names === wanted) return undefined;
  return new Error(`tls: failed to verify certificate: x509: certificate is valid for ${String(names)}, not ${wanted}`);
}

function upgradeHeaders(exchange: Exchange): Record<string, string> {
  const headers: Record<string, string> = { connection: 'Upgrade' };
  for (const name of requestHeaders) {
    const value = exchange.header(name);
    if (value !== undefined) headers[name] = value;
  }
  return headers;
}

function responseHead({ headers }: IncomingMessage): string {
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade'];
  for (const name of responseHeaders) {
    const value = headers[name];
    if (value !== undefined) lines.push(`${name}: ${[value].flat().join(', ')}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

const logHeaders = { 'content-type': 'text/plain', 'cache-control': 'no-cache, private' };

const acceptedProtocols = 'x-accepted-stream-protocol-versions';
const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};
// Enough for any message; the rest of a long page is not read.
const textBytesMax = 2048;

/** A node refuses in plain text; clients of the API understand a Status. */
async function nodeRefusal(response: IncomingMessage, isUpgrade: boolean): Promise<StatusError> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response as AsyncIterable<Buffer>) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes >= textBytesMax) break;
  }
  const text = Buffer.concat(pieces).subarray(0, textBytesMax).toString('utf8').trim();
  const accepted = response.headers[acceptedProtocols];
  const headers = typeof accepted === 'string' ? { [acceptedProtocols]: accepted } : {};
  const given = response.statusCode ?? 500;
  // The node refused this server, not the client.
  const code = given === 401 || given < 400 ? 500 : given;
  const message = given === 401 ? `the node refused this server: ${text}` : text;
  const full = isUpgrade && code >= 500 ? `unable to upgrade connection: ${message}` : message;
  return new StatusError(code, reasons[code] ?? 'InternalError', full, undefined, { headers });
}

const preferred = ['InternalIP', 'ExternalIP', 'Hostname'];

function nodeAddress(node: Node): { readonly host: string; readonly port: number } {
  const addresses = node.status?.addresses ?? [];
  const [found] = preferred.flatMap((type) => addresses.filter((address) => address.type === type));
  if (found === undefined) {
    const known = addresses.map(({ type, address }) => `{${type} ${address}}`).join(' ');
    throw internalError(`no preferred addresses found; known addresses: [${known}]`);
  }
  return { host: found.address, port: nodePort(node) };
}

/** Path and query in the node's own words, which differ from the API's. */
function nodePath({ subresource, pod, container, logOptions }: NodeRequest, query: URLSearchParams): string {
  const { namespace = '', name } = pod.metadata;
  const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join('/')}`;
  if (logOptions !== undefined)
    return withQuery(path('containerLogs', namespace, name, container), podLogQuery(logOptions));
  if (subresource === 'portforward') {
    const ports = query.getAll('ports').join(',');
    return withQuery(path('portForward', namespace, name), new URLSearchParams(ports === '' ? {} : { port: ports }));
  }
  const asked = new URLSearchParams();
  for (const [ours, theirs] of streamNames) if (isYes(query, ours)) asked.set(theirs, '1');
  if (subresource === 'exec') for (const word of query.getAll('command')) asked.append('command', word);
  return withQuery(path(subresource, namespace, name, container), asked);
}

const streamNames = [
  ['stdin', 'input'],
  ['stdout', 'output'],
  ['stderr', 'error'],
  ['tty', 'tty'],
] as const;

function withQuery(path: string, query: URLSearchParams): string {
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}
