/**
 * All connections to one API server. A new one is opened when those there are have no room, so that no request ever waits
 * in a full connection; one stream is kept free for short requests. TLS decides whether the server speaks HTTP/2; one that does
 * not is spoken to in HTTP/1.1.
 */
import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import type { Socket } from 'node:net';
import { onAbort, withDeadline } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { type Dialled, type Endpoint, type Protocol, dial } from './dial.ts';
import { Http1Connections } from './http1-connections.ts';
import { Http2Connection } from './http2-connection.ts';
import {
  ClientClosedError,
  ConnectionFailedError,
  type HttpRequest,
  type HttpSink,
  type TlsIdentity,
  type Transport,
  isSameIdentity,
} from './transport.ts';

export interface PoolSettings {
  /** HTTP/2 connections. Requests above what they take wait for a free stream. */
  readonly connectionsMax: number;
  readonly http1ShortConnectionsMax: number;
  readonly http1WatchesMax: number;
  /** TCP, proxy and TLS together. */
  readonly openTimeoutMs: number;
  readonly pingAfterMs: number;
  readonly pingTimeoutMs: number;
  readonly idleMsMax: number;
}

export const poolDefaults: PoolSettings = {
  connectionsMax: 256, // 25,600 watches of a server that allows 100 streams
  http1ShortConnectionsMax: 32,
  http1WatchesMax: 10_000, // each holds a file descriptor
  openTimeoutMs: 30_000,
  pingAfterMs: 30_000, // these two as client-go
  pingTimeoutMs: 15_000,
  idleMsMax: 90_000,
};

// Dead peers and idle connections are looked for this often; the limits above are that much longer at worst.
const checkEveryMs = 5_000;

/**
 * While requests wait for a server that is away, one connection is tried this often, for all of them. Nodes that lost it at
 * the same moment do not ask at the same moment: they began to wait after a first retry, which comes at random.
 */
const tryEveryMs = 1_000;
/** A server that takes longer is reached by the next request, which has `openTimeoutMs`. */
const tryMsMax = 2_000;

type Connection = Http2Connection | Http1Connections;

export class ConnectionPool implements Transport {
  readonly #endpoint: Endpoint;
  readonly #clock: Clock;
  readonly #settings: PoolSettings;
  readonly #stop = new AbortController();
  readonly #connections = new Set<Http2Connection>();
  readonly #waiting = new WaitingRequests<Connection>();
  readonly #tasks = new Set<Promise<void>>();
  #http1: Http1Connections | undefined;
  #speaksHttp1 = false;
  /** The connection that showed it; Node's agent, which opens its own, gets it for the first request. */
  #spare: { readonly socket: Socket; readonly identity: TlsIdentity | undefined } | undefined;
  #identity: TlsIdentity | undefined;
  #opening = 0;
  /** The server's limit for one connection; undefined until the first is open. */
  #streamsMax: number | undefined;
  #isChecking = false;
  /** The last attempt to connect failed. */
  #isAway = false;
  #isTrying = false;
  readonly #paused = new Set<() => void>();
  readonly #onReturn = new Set<() => void>();

  constructor(endpoint: Endpoint, clock: Clock, settings: PoolSettings) {
    this.#endpoint = endpoint;
    this.#clock = clock;
    this.#settings = settings;
    setMaxListeners(0, this.#stop.signal); // one for each connection that is being opened
  }

  /** Connections that exist, for metrics and tests. */
  get size(): number {
    return this.#connections.size + (this.#http1?.watches ?? 0);
  }

  async send({ path, ...rest }: HttpRequest, sink: HttpSink, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#stop.signal.throwIfAborted();
    this.#become(rest.identity);
    const request = { ...rest, path: `${this.#endpoint.url.pathname.replace(/\/+$/, '')}${path}` };
    const connection = this.#roomFor(request.isLongLived);
    if (connection !== undefined) return connection.send(request, sink, signal);
    const sent = this.#waiting.wait(request.isLongLived, (given) => given.send(request, sink, signal), signal);
    this.#openMore();
    await sent;
  }

  async pause(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const nap = new AbortController();
    const wake = (): void => nap.abort('over');
    const stopListening = onAbort(signal, wake);
    this.#paused.add(wake);
    if (this.#isAway && !this.#isTrying) this.#track(this.#tryToConnect());
    await this.#clock.sleep(ms, nap.signal).catch(() => {});
    this.#paused.delete(wake);
    stopListening();
    signal.throwIfAborted();
  }

  onReturn(listener: () => void): void {
    this.#onReturn.add(listener);
  }

  async close(): Promise<void> {
    this.#stop.abort(new ClientClosedError());
    this.#waiting.fail(this.#stop.signal.reason);
    this.#http1?.close();
    this.#spare?.socket.destroy();
    for (const connection of this.#connections) connection.destroy(new ClientClosedError());
    await Promise.all(this.#tasks);
  }

  /** A renewed certificate is shown by new connections; those that showed the old one end when their streams have. */
  #become(identity: TlsIdentity | undefined): void {
    if (isSameIdentity(this.#identity, identity)) return;
    this.#identity = identity;
    for (const connection of this.#connections) connection.drain();
  }

  #serve(): void {
    this.#waiting.serve((isLongLived) => this.#roomFor(isLongLived));
    this.#openMore();
  }

  /**
   * The fullest that has room, so that those which are no longer needed run empty and close. The last free stream of all is for
   * short requests: else a node whose watches fill its connections could ask nothing.
   */
  #roomFor(isLongLived: boolean): Connection | undefined {
    if (this.#speaksHttp1) return (this.#http1 ??= this.#newHttp1());
    let free = 0;
    let fullest: Http2Connection | undefined;
    for (const connection of this.#connections) {
      const { room } = connection;
      free += room;
      if (room > 0 && (fullest === undefined || room < fullest.room)) fullest = connection;
    }
    return isLongLived && free < 2 ? undefined : fullest;
  }

  #openMore(): void {
    if (this.#waiting.size === 0) return;
    let free = 0;
    for (const { room, takesMore, streamsMax } of this.#connections) {
      // A server that allows none for now says so on every connection, and also when that is over.
      if (takesMore && streamsMax === 0) return;
      free += room;
    }
    const missing = this.#waiting.size + (this.#waiting.hasWatches ? 1 : 0) - free;
    // Until the first connection knows the limit, one is enough to find out.
    const wanted = this.#streamsMax === undefined ? 1 : Math.ceil(missing / this.#streamsMax);
    const allowed = Math.min(wanted, this.#settings.connectionsMax - this.#connections.size);
    while (this.#opening < allowed && !this.#stop.signal.aborted) this.#track(this.#openOne());
  }

  async #openOne(timeoutMs = this.#settings.openTimeoutMs): Promise<void> {
    this.#opening += 1;
    const identity = this.#identity;
    let failure: unknown;
    try {
      const opened = await this.#open(['h2', 'http/1.1'], identity, timeoutMs, this.#stop.signal);
      if (opened instanceof Http2Connection) this.#add(opened, identity);
      else {
        this.#speaksHttp1 = true;
        this.#spare = { socket: opened.socket, identity };
      }
      this.#reached();
    } catch (error) {
      failure = error;
      this.#isAway = true;
    }
    this.#opening -= 1;
    // Those that the remaining attempts have no room for fail now; the others may still succeed.
    if (failure !== undefined) this.#waiting.fail(failure, this.#opening * (this.#streamsMax ?? 1));
    this.#serve();
  }

  #add(connection: Http2Connection, identity: TlsIdentity | undefined): void {
    this.#connections.add(connection);
    this.#streamsMax = Math.max(1, connection.streamsMax);
    if (!isSameIdentity(identity, this.#identity)) connection.drain();
    if (this.#stop.signal.aborted) connection.destroy(new ClientClosedError());
    else if (!this.#isChecking) this.#track(this.#runChecks());
  }

  #newHttp1(): Http1Connections {
    const { http1ShortConnectionsMax, http1WatchesMax, idleMsMax } = this.#settings;
    return new Http1Connections(
      {
        origin: this.#endpoint.url.origin,
        shortConnectionsMax: http1ShortConnectionsMax,
        watchesMax: http1WatchesMax,
        idleMsMax,
      },
      (signal) => this.#openHttp1(signal),
    );
  }

  async #openHttp1(signal: AbortSignal): Promise<Socket> {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare?.socket.destroyed === false && isSameIdentity(spare.identity, this.#identity)) return spare.socket;
    spare?.socket.destroy();
    try {
      const opened = await this.#open(['http/1.1'], this.#identity, this.#settings.openTimeoutMs, signal);
      assert.ok(!(opened instanceof Http2Connection), 'a server speaks only what it was offered');
      this.#reached();
      return opened.socket;
    } catch (error) {
      this.#isAway = true;
      // Behind the same address there may be a newer server the next time.
      this.#speaksHttp1 = false;
      throw error;
    }
  }

  #open(
    protocols: readonly Protocol[],
    identity: TlsIdentity | undefined,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<Http2Connection | Dialled> {
    const { url } = this.#endpoint;
    const late = (): Error =>
      new ConnectionFailedError(url.origin, new Error(`no answer within ${timeoutMs / 1000} s`));
    return withDeadline(this.#clock, timeoutMs, late, signal, async (limited) => {
      const dialled = await dial(this.#endpoint, identity, protocols, limited);
      if (dialled.protocol === 'http/1.1') return dialled;
      const connection = new Http2Connection(url.origin, dialled.socket, this.#clock, (changed) => {
        if (changed.isClosed) this.#connections.delete(changed);
        this.#serve();
      });
      await connection.opened(limited);
      return connection;
    });
  }

  async #tryToConnect(): Promise<void> {
    this.#isTrying = true;
    try {
      while (this.#isAway && this.#paused.size > 0) {
        await this.#clock.sleep(tryEveryMs, this.#stop.signal);
        if (this.#isAway) await this.#openOne(tryMsMax);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    } finally {
      this.#isTrying = false;
    }
  }

  #reached(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    for (const wake of this.#paused) wake();
    for (const listener of this.#onReturn) listener();
  }

  async #runChecks(): Promise<void> {
    this.#isChecking = true;
    try {
      while (this.#connections.size > 0) {
        await this.#clock.sleep(checkEveryMs, this.#stop.signal);
        for (const connection of this.#connections) this.#check(connection);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    } finally {
      this.#isChecking = false;
    }
  }

  #check(connection: Http2Connection): void {
    try {
      connection.check(this.#settings);
    } catch (error) {
      connection.destroy(error as Error);
    }
  }

  #track(task: Promise<void>): void {
    this.#tasks.add(task);
    void task.finally(() => this.#tasks.delete(task));
  }
}

interface Waiter<C> {
  /** Sends; the stream is taken before this returns. */
  readonly go: (connection: C) => void;
  readonly fail: (error: unknown) => void;
}

/** Requests that no connection has room for yet, short ones before watches. Each leaves by being sent, by failing or by its signal. */
class WaitingRequests<C> {
  readonly #short = new Set<Waiter<C>>();
  readonly #long = new Set<Waiter<C>>();

  get size(): number {
    return this.#short.size + this.#long.size;
  }

  get hasWatches(): boolean {
    return this.#long.size > 0;
  }

  /** Resolves when it was sent. */
  wait(isLongLived: boolean, send: (connection: C) => void, signal: AbortSignal): Promise<void> {
    const queue = isLongLived ? this.#long : this.#short;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        queue.delete(waiter);
        stopListening();
      };
      const waiter: Waiter<C> = {
        go: (connection) => {
          leave();
          try {
            resolve(send(connection));
          } catch (error) {
            reject(error);
          }
        },
        fail: (error) => {
          leave();
          reject(error);
        },
      };
      const stopListening = onAbort(signal, () => waiter.fail(signal.reason));
      queue.add(waiter);
    });
  }

  /** Sends those for which `roomFor` finds a connection. */
  serve(roomFor: (isLongLived: boolean) => C | undefined): void {
    for (const [queue, isLongLived] of [
      [this.#short, false],
      [this.#long, true],
    ] as const) {
      for (const waiter of queue) {
        const connection = roomFor(isLongLived);
        if (connection === undefined) break;
        waiter.go(connection);
      }
    }
  }

  /** All but the first `spared`. */
  fail(error: unknown, spared = 0): void {
    for (const waiter of [...this.#short, ...this.#long].slice(spared)) waiter.fail(error);
  }
}
