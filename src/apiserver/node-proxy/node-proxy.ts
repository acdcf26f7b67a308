/**
 * Hands requests for logs, commands and ports to the node that runs the pod. Bytes of an upgraded connection go through as they
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
import { messageOf } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Exchange } from '../http/exchange.ts';
import { ConnectionLost } from '../http/read-body.ts';
import type { KeyPair } from '../identity/certificates.ts';
import type { ApiRequest } from '../rest/api-request.ts';
import type { NodeConnector, NodeRequest } from '../rest/subresources/connect.ts';
import { internalError, notFound } from '../status.ts';
import { nodeRefusal } from './node-refusal.ts';
import { nodeAddress, nodePath } from './node-target.ts';

interface NodeProxyDeps {
  readonly clock: Clock;
  readonly nodes: { node(name: string): Node | undefined };
}

interface NodeProxySettings {
  /** Signs the certificates of nodes. */
  readonly authorityPem: string;
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

/** What of an upgrade is for the node. Everything else, credentials above all, stays here. */
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
    const nodeName = nodeRequest.pod.spec.nodeName ?? '';
    const node = this.#deps.nodes.node(nodeName);
    if (node === undefined) throw notFound({ group: '', name: 'nodes' }, nodeName);
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
      signal,
    );
    if (answer.kind === 'upgraded' && upgrade !== undefined) {
      await this.#passThrough(upgrade, answer, signal);
      return;
    }
    const { response } = answer;
    if (isLog && response.statusCode === 200) await passLog(response, exchange, signal);
    else throw await nodeRefusal(response, !isLog);
  }

  #ask(target: RequestOptions, signal: AbortSignal): Promise<NodeAnswer> {
    const { authorityPem, client } = this.#settings;
    const host = String(target.host);
    return new Promise((resolve, reject) => {
      const request = httpsRequest({
        ...target,
        agent: false,
        ca: authorityPem,
        cert: client.certificatePem,
        key: client.keyPem,
        // An address may not be named in the handshake; it is compared with the certificate all the same.
        servername: isIP(host) === 0 ? host : '',
        signal,
      });
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
        reject(signal.aborted ? reason : internalError(`error dialing backend: ${messageOf(error)}`));
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
    // Whoever is gone, on purpose or not, has been told all that can be told.
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

async function passLog(response: IncomingMessage, exchange: Exchange, signal: AbortSignal): Promise<void> {
  const stream = exchange.openStream(200, { 'content-type': 'text/plain', 'cache-control': 'no-cache, private' });
  let wake = (): void => {};
  stream.onDrain(() => wake());
  exchange.onClose(() => wake());
  signal.addEventListener('abort', () => wake(), { once: true });
  try {
    for await (const bytes of response as AsyncIterable<Buffer>) {
      if (signal.aborted) throw new ConnectionLost('the client closed the connection');
      if (!stream.write(bytes)) await new Promise<void>((resolve) => (wake = resolve));
    }
    stream.end();
  } catch {
    // The client must not take what it has for all there is.
    stream.destroy();
  } finally {
    response.destroy();
  }
}
