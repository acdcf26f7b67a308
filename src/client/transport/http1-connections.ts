/**
 * HTTP/1.1 for servers and proxies that speak nothing newer: every watch has a connection of its own, short requests share
 * a few that are kept open.
 */
import { Agent, type AgentOptions, type ClientRequest, request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { onAbort } from '../../base/abort.ts';
import {
  ClientError,
  ConnectionFailedError,
  ConnectionLostError,
  type HttpRequest,
  type HttpSink,
  type TlsIdentity,
  isSameIdentity,
} from './transport.ts';

interface Http1Settings {
  readonly origin: string;
  /** Requests above this wait for one another; watches above it are refused. */
  readonly shortConnectionsMax: number;
  readonly watchesMax: number;
  readonly idleMsMax: number;
}

type Open = (signal: AbortSignal) => Promise<Socket>;

export class Http1Connections {
  readonly #settings: Http1Settings;
  readonly #open: Open;
  readonly #stop = new AbortController();
  readonly #requests = new Set<ClientRequest>();
  #agent: Agent | undefined;
  #identity: TlsIdentity | undefined;
  #watches = 0;

  constructor(settings: Http1Settings, open: Open) {
    this.#settings = settings;
    this.#open = open;
  }

  get watches(): number {
    return this.#watches;
  }

  send(request: HttpRequest, sink: HttpSink, signal: AbortSignal): void {
    const { origin, watchesMax } = this.#settings;
    if (request.isLongLived && this.#watches >= watchesMax) {
      const text = `Cannot open more than ${watchesMax} connections to "${origin}": watch fewer objects`;
      throw new ClientError('TooManyConnections', text);
    }
    const url = new URL(origin);
    const { body } = request;
    const outgoing = httpRequest({
      host: url.hostname,
      port: url.port,
      agent: request.isLongLived ? this.#newAgent({ keepAlive: false }) : this.#sharedAgent(request.identity),
      method: request.method,
      path: request.path,
      headers: { host: url.host, ...request.headers, ...(body !== undefined && { 'content-length': body.length }) },
    });
    if (request.isLongLived) this.#watches += 1;
    this.#requests.add(outgoing);
    let isComplete = false;
    let isAnswered = false;
    let isTold = false;
    let failure: unknown;
    const cancel = (): void => {
      outgoing.destroy();
      // One without a connection, because that is being opened or all are in use, closes only when it gets one.
      if (outgoing.socket === null) queueMicrotask(finish);
    };
    const stopListening = onAbort(signal, cancel);
    const finish = (): void => {
      if (isTold) return;
      isTold = true;
      stopListening();
      this.#requests.delete(outgoing);
      if (request.isLongLived) this.#watches -= 1;
      if (signal.aborted) sink.failed(signal.reason);
      else if (isComplete) sink.end();
      else sink.failed(asFailure(failure));
    };
    outgoing.on('response', (response) => {
      isAnswered = true;
      sink.head({ status: response.statusCode ?? 0, headers: response.headers });
      response.on('data', (chunk: Buffer) => {
        if (!signal.aborted) sink.data(chunk);
      });
      response.on('error', (error) => (failure = error));
      response.on('close', () => {
        isComplete = response.complete;
        finish();
      });
    });
    outgoing.on('error', (error) => (failure = error));
    outgoing.on('close', () => {
      // The answer closes after the request does, and knows whether it was whole.
      if (!isAnswered) finish();
    });
    outgoing.end(body);
    if (signal.aborted) cancel();
  }

  close(): void {
    this.#stop.abort();
    for (const request of this.#requests) request.destroy();
    this.#agent?.destroy();
  }

  #sharedAgent(identity: TlsIdentity | undefined): Agent {
    if (this.#agent !== undefined && isSameIdentity(this.#identity, identity)) return this.#agent;
    this.#agent?.destroy();
    this.#identity = identity;
    const { shortConnectionsMax, idleMsMax } = this.#settings;
    return (this.#agent = this.#newAgent({
      keepAlive: true,
      maxSockets: shortConnectionsMax,
      timeout: idleMsMax,
    }));
  }

  #newAgent(options: AgentOptions): Agent {
    const open = (_: unknown, done: (error: unknown, socket?: Socket) => void): void => {
      void (async () => {
        try {
          done(null, await this.#open(this.#stop.signal));
        } catch (error) {
          done(error);
        }
      })();
    };
    return Object.assign(new Agent(options), { createConnection: open });
  }
}

function asFailure(cause: unknown): Error {
  if (cause instanceof ConnectionFailedError) return cause;
  return new ConnectionLostError('The connection to the API server broke off', { cause });
}
