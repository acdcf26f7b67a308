/** Answers requests to a node: who asks, may they, what for, and the answer. Whatever goes wrong becomes an answer. */
import { once } from 'node:events';
import { type IncomingMessage, STATUS_CODES, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import type { Connections } from '../base/connections.ts';
import { allContainers } from '../kube/kinds/pod/pod-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { ContainerNotRunningError, NoSuchContainerError, type Runtime } from '../runtimes/runtime.ts';
import { type NodePod, type NodePods, chooseLog, logOpenRefusal, logOptions } from './container-logs.ts';
import {
  type NodeAccess,
  type NodeRoute,
  type NodeUser,
  type RoutedPod,
  identify,
  nodeRoute,
  permit,
  subresourcesOf,
} from './node-access.ts';
import { openLog, readLog } from './read-log.ts';
import { servePortForward } from './streams/port-forward.ts';
import { RequestRefused, type StreamLimits } from './streams/protocols.ts';
import { serveRemoteCommand, streamChoice } from './streams/remote-command.ts';
import type { Upgrade } from './streams/upgrades.ts';

export interface NodeServerDeps {
  readonly pods: NodePods;
  readonly runtime: Pick<Runtime, 'exec' | 'attach' | 'connect'>;
  readonly access: NodeAccess;
  readonly clock: Clock;
  /** In Prometheus' text format. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly stats: {
    summary(onlyCpuAndMemory: boolean, signal: AbortSignal): Promise<object>;
    /** In Prometheus' text format. */
    resourceMetrics(signal: AbortSignal): Promise<{ readonly contentType: string; readonly text: string }>;
  };
  /** What /configz answers: no value of it is secret. */
  readonly configuration: object;
  readonly notify: (notice: NodeServerNotice) => void;
}

export type NodeServerNotice =
  | {
      readonly kind: 'NodeRequestServed';
      readonly method: string;
      readonly path: string;
      readonly user: string;
      readonly code: number;
      readonly tookMs: number;
    }
  /** Something of ours went wrong, not of the client's. */
  | { readonly kind: 'NodeRequestFailed'; readonly path: string; readonly error: unknown };

interface Asked {
  readonly route: NodeRoute;
  readonly query: URLSearchParams;
  readonly user: string;
  readonly signal: AbortSignal;
}

/** How one kind of request is served and refused. */
interface Ways {
  readonly act: (asked: Asked) => Promise<void>;
  readonly refuse: (refusal: RequestRefused) => void;
}

export class NodeHandler {
  readonly #limits: StreamLimits;
  readonly #deps: NodeServerDeps;
  readonly #connections: Connections;
  readonly #stopping: AbortSignal;

  constructor(limits: StreamLimits, deps: NodeServerDeps, connections: Connections, stopping: AbortSignal) {
    this.#connections = connections;
    this.#limits = limits;
    this.#deps = deps;
    this.#stopping = stopping;
  }

  /** Never rejects. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {});
    await this.#serve(request, response, {
      act: (asked) => this.#answer(asked, request, response),
      refuse: (refusal) => {
        if (response.headersSent) return void response.destroy();
        response.writeHead(refusal.code, { ...plainText, ...refusal.headers });
        response.end(refusal.message);
      },
    });
  }

  /** Never rejects. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => {});
    // A session may be quiet for hours, but not for ever.
    (socket as Socket).setTimeout(this.#limits.idleMs, () => socket.destroy());
    await this.#serve(request, socket, {
      act: async (asked) => {
        try {
          await this.#session(asked, { request, socket, head });
        } catch (error) {
          if (error instanceof RequestRefused) throw error;
          // It speaks another protocol by now, in which nothing can be answered.
          socket.destroy();
          if (!asked.signal.aborted) this.#deps.notify({ kind: 'NodeRequestFailed', path: pathOf(request), error });
        }
      },
      refuse: (refusal) => refuseUpgrade(socket, refusal),
    });
  }

  async #serve(request: IncomingMessage, connection: Duplex | ServerResponse, { act, refuse }: Ways): Promise<void> {
    const { clock, access, notify } = this.#deps;
    const startedAt = clock.now();
    const gone = new AbortController();
    const end = this.#connections.begin(request.socket);
    connection.once('close', () => {
      end();
      gone.abort(new Error('the client has left'));
    });
    const signal = AbortSignal.any([gone.signal, this.#stopping]);
    const path = pathOf(request);
    const query = new URLSearchParams((request.url ?? '').slice(path.length));
    let user: NodeUser | undefined;
    let code = 200;
    try {
      const route = nodeRoute(path);
      if (route?.kind !== 'healthz') {
        user = await identify(access, request, signal);
        if (!this.#connections.trust(request.socket)) throw new RequestRefused(429, 'Too many connections');
        await permit(
          access,
          user,
          request.method ?? '',
          route === undefined ? ['proxy'] : subresourcesOf(route),
          signal,
        );
      }
      if (route === undefined) throw new RequestRefused(404, '404 page not found\n');
      await act({ route, query, user: user?.name ?? '', signal });
    } catch (error) {
      const refusal = error instanceof RequestRefused ? error : new RequestRefused(500, 'Internal Server Error');
      code = refusal.code;
      if (!(error instanceof RequestRefused) && !signal.aborted) {
        notify({ kind: 'NodeRequestFailed', path, error });
      }
      refuse(refusal);
    }
    const tookMs = clock.now() - startedAt;
    notify({ kind: 'NodeRequestServed', method: request.method ?? '', path, user: user?.name ?? '', code, tookMs });
  }

  async #answer(asked: Asked, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { route, query, signal } = asked;
    const { pods, stats, metrics, configuration } = this.#deps;
    if (route.kind === 'exec' || route.kind === 'attach' || route.kind === 'portForward') {
      throw new RequestRefused(400, 'Upgrade request required');
    }
    const methods = ['GET', 'HEAD', ...(route.kind === 'summary' ? ['POST'] : [])];
    if (!methods.includes(request.method ?? '')) throw new RequestRefused(405, '405: Method Not Allowed');
    switch (route.kind) {
      case 'healthz':
        return send(response, plainText, 'ok');
      case 'configz':
        return send(response, json, JSON.stringify(configuration));
      case 'pods':
        return send(response, json, podList(pods.list()));
      case 'runningPods':
        return send(response, json, podList(await pods.running(signal)));
      case 'summary':
        return send(response, json, JSON.stringify(await stats.summary(isTrue(query, onlyUsage), signal)));
      case 'metrics':
      case 'resourceMetrics': {
        const { contentType, text } = await (route.kind === 'metrics' ? metrics() : stats.resourceMetrics(signal));
        return send(response, { 'content-type': contentType }, text);
      }
      case 'logs':
        return this.#sendLog(asked, route, response);
    }
  }

  async #sendLog(
    { query, signal }: Asked,
    { namespace, pod, container }: Extract<NodeRoute, { kind: 'logs' }>,
    response: ServerResponse,
  ): Promise<void> {
    const options = logOptions(query);
    const found = this.#deps.pods.find(namespace, pod);
    if (found === undefined) throw new RequestRefused(404, `pod ${goQuote(pod)} does not exist`);
    const source = chooseLog(found, container, options.previous);
    const file = await openLog(source.path).catch((error: unknown) => {
      throw logOpenRefusal(source.path, error);
    });
    response.writeHead(200, plainText);
    response.flushHeaders();
    for await (const bytes of readLog(this.#deps.clock, file, source, options, signal)) {
      if (bytes.length > 0 && !response.write(bytes)) await once(response, 'drain', { signal });
    }
    response.end();
  }

  async #session({ route, query, signal }: Asked, upgrade: Upgrade): Promise<void> {
    const { runtime, clock } = this.#deps;
    const streaming = { clock, limits: this.#limits };
    if (route.kind === 'portForward') {
      const { pod } = this.#pod(route);
      const { name, uid = '' } = pod.metadata;
      const connect = (port: number, over: AbortSignal): Promise<Duplex> => runtime.connect(uid, port, over);
      return servePortForward(streaming, upgrade, { name, uid, connect }, query, signal);
    }
    if (route.kind !== 'exec' && route.kind !== 'attach') throw new RequestRefused(400, 'this path cannot be upgraded');
    const choice = streamChoice(query);
    const found = this.#pod(route);
    const id = found.runningContainer(route.container);
    // Whether the container has a terminal was decided when it started.
    const tty = allContainers(found.pod.spec).some(({ name, tty: own }) => name === route.container && own === true);
    if (id === undefined) throw new RequestRefused(500, `container not found (${goQuote(route.container)})`);
    const command = query.getAll('command');
    if (route.kind === 'exec' && command.length === 0) throw new RequestRefused(400, 'you must specify a command');
    const refuse = (error: unknown): never => {
      const hasEnded = error instanceof ContainerNotRunningError || error instanceof NoSuchContainerError;
      throw hasEnded ? new RequestRefused(500, `container not running (${id})`) : error;
    };
    return serveRemoteCommand(
      streaming,
      upgrade,
      choice,
      route.kind === 'exec'
        ? {
            failure: 'error executing command in container',
            run: (streams, over) => runtime.exec(id, { ...streams, command }, over).catch(refuse),
          }
        : {
            failure: 'error attaching to container',
            run: (streams, over) => runtime.attach(id, { ...streams, tty }, over).then(() => undefined, refuse),
          },
      signal,
    );
  }

  #pod({ namespace, pod, uid }: RoutedPod): NodePod {
    const found = this.#deps.pods.find(namespace, pod);
    if (found === undefined) throw new RequestRefused(404, 'pod does not exist');
    if (uid !== '' && found.pod.metadata.uid !== uid) throw new RequestRefused(404, 'pod not found');
    return found;
  }
}

const onlyUsage = 'only_cpu_and_memory';

/** As Go reads a yes. */
function isTrue(query: URLSearchParams, name: string): boolean {
  return /^(1|t|true)$/i.test(query.get(name) ?? '');
}

const plainText = { 'content-type': 'text/plain' };
const json = { 'content-type': 'application/json' };

function pathOf({ url = '' }: IncomingMessage): string {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}

function send(response: ServerResponse, headers: Readonly<Record<string, string>>, body: string): void {
  response.writeHead(200, { ...headers, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

function podList(items: readonly object[]): string {
  return JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: {}, items });
}

function refuseUpgrade(socket: Duplex, { code, message, headers }: RequestRefused): void {
  const lines = [
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ''}`,
    'Connection: close',
    'Content-Type: text/plain',
    `Content-Length: ${Buffer.byteLength(message)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${message}`, () => socket.destroy());
}
