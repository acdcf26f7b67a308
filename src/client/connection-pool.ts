/**
 * All connections to one API server. A new one is opened when those there are have no room, so that no request ever waits
 * in a full connection; one stream is kept free for short requests. TLS decides whether the server speaks HTTP/2; one that does
 * not is spoken to in HTTP/1.1.
 */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { TlsIdentity } from './credentials.ts';
import { isSameIdentity } from './credentials.ts';
import type { Dialled, Endpoint, Protocol } from './dial.ts';
import { dial } from './dial.ts';
import { withDeadline } from './deadline.ts';
import { Http1Connections } from './http1-connections.ts';
import { Http2Connection } from './http2-connection.ts';
import { ClientClosedError, ConnectionFailedError } from './transport-errors.ts';
import type { HttpRequest, HttpSink, Transport } from './transport.ts';

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

interface Waiter {
  readonly isLongLived: boolean;
  /** Sends; the stream is taken before this returns. */
  readonly go: (connection: Http2Connection | Http1Connections) => void;
  readonly fail: (error: unknown) => void;
}

export class ConnectionPool implements Transport {
  readonly #endpoint: Endpoint;
  readonly #clock: Clock;
  readonly #settings: PoolSettings;
  readonly #stop = new AbortController();
  readonly #connections = new Set<Http2Connection>();
  readonly #waiters = new Set<Waiter>();
  readonly #tasks = new Set<Promise<void>>();
  #http1: Http1Connections | undefined;
  #speaksHttp1 = false;
  /** The connection that told us so; Node's agent, which opens its own, gets it for the first request. */
  #spare: { readonly socket: Socket; readonly identity: TlsIdentity | undefined } | undefined;
  #identity: TlsIdentity | undefined;
  #opening = 0;
  /** The server's limit for one connection; undefined until the first is open. */
  #streamsMax: number | undefined;
  #isChecking = false;

  constructor(endpoint: Endpoint, clock: Clock, settings: PoolSettings) {
    this.#endpoint = endpoint;
    this.#clock = clock;
    this.#settings = settings;
  }

  /** Connections that exist, for metrics and tests. */
  get size(): number {
    return this.#connections.size + (this.#http1?.watches ?? 0);
  }

  send({ path, ...rest }: HttpRequest, sink: HttpSink, signal: AbortSignal): Promise<void> {
    const request = { ...rest, path: `${this.#endpoint.url.pathname.replace(/\/+$/, '')}${path}` };
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#stop.signal.aborted) return reject(this.#stop.signal.reason);
      this.#become(request.identity);
      const settle = (act: () => void): void => {
        this.#waiters.delete(waiter);
        signal.removeEventListener('abort', onAbort);
        try {
          act();
        } catch (error) {
          reject(error);
        }
      };
      const onAbort = (): void => waiter.fail(signal.reason);
      const waiter: Waiter = {
        isLongLived: request.isLongLived,
        go: (connection) =>
          settle(() => {
            connection.send(request, sink, signal);
            resolve();
          }),
        fail: (error) => settle(() => reject(error)),
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiters.add(waiter);
      this.#serve();
    });
  }

  async close(): Promise<void> {
    this.#stop.abort(new ClientClosedError());
    for (const waiter of this.#waiters) waiter.fail(this.#stop.signal.reason);
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
    if (this.#speaksHttp1) {
      this.#http1 ??= this.#newHttp1();
      for (const waiter of this.#waiters) waiter.go(this.#http1);
      return;
    }
    let free = this.#free();
    for (const waiter of this.#waiters) {
      // The last free stream is for short requests: else a node whose watches fill its connections could ask nothing.
      if (free < (waiter.isLongLived ? 2 : 1)) continue;
      const connection = this.#fullestWithRoom();
      if (connection === undefined) break;
      waiter.go(connection);
      free -= 1;
    }
    this.#openMore(free);
  }

  #free(): number {
    let free = 0;
    for (const connection of this.#connections) free += connection.room;
    return free;
  }

  /** The fullest, so that those which are no longer needed run empty and close. */
  #fullestWithRoom(): Http2Connection | undefined {
    let fullest: Http2Connection | undefined;
    for (const connection of this.#connections) {
      if (connection.room > 0 && (fullest === undefined || connection.room < fullest.room)) fullest = connection;
    }
    return fullest;
  }

  #openMore(free: number): void {
    const { connectionsMax } = this.#settings;
    const isReserving = [...this.#waiters].some(({ isLongLived }) => isLongLived);
    const missing = this.#waiters.size === 0 ? 0 : this.#waiters.size + (isReserving ? 1 : 0) - free;
    // Until the first connection tells the limit, one is enough to find out.
    const wanted = this.#streamsMax === undefined ? Math.sign(missing) : Math.ceil(missing / this.#streamsMax);
    const allowed = Math.min(wanted, connectionsMax - this.#connections.size);
    while (this.#opening < allowed && !this.#stop.signal.aborted) this.#track(this.#openOne());
  }

  async #openOne(): Promise<void> {
    this.#opening += 1;
    const identity = this.#identity;
    let failure: unknown;
    try {
      const opened = await this.#open(['h2', 'http/1.1'], identity, this.#stop.signal);
      if (opened instanceof Http2Connection) this.#add(opened, identity);
      else {
        this.#speaksHttp1 = true;
        this.#spare = { socket: opened.socket, identity };
      }
    } catch (error) {
      failure = error;
    }
    this.#opening -= 1;
    if (failure !== undefined) this.#failWaiters(failure);
    this.#serve();
  }

  /** Those that the remaining attempts have no room for are told; the others may still be lucky. */
  #failWaiters(error: unknown): void {
    const others = this.#opening * (this.#streamsMax ?? 1);
    for (const waiter of [...this.#waiters].slice(others)) waiter.fail(error);
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
      const opened = await this.#open(['http/1.1'], this.#identity, signal);
      assert.ok(!(opened instanceof Http2Connection), 'a server speaks only what it was offered');
      return opened.socket;
    } catch (error) {
      // Behind the same address there may be a newer server the next time.
      this.#speaksHttp1 = false;
      throw error;
    }
  }

  #open(
    protocols: readonly Protocol[],
    identity: TlsIdentity | undefined,
    signal: AbortSignal,
  ): Promise<Http2Connection | Dialled> {
    const { url } = this.#endpoint;
    const { openTimeoutMs } = this.#settings;
    const late = (): Error =>
      new ConnectionFailedError(url.origin, new Error(`no answer within ${openTimeoutMs / 1000} s`));
    return withDeadline(this.#clock, openTimeoutMs, late, signal, async (limited) => {
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

  async #runChecks(): Promise<void> {
    this.#isChecking = true;
    try {
      while (this.#connections.size > 0) {
        await this.#clock.sleep(checkEveryMs, this.#stop.signal);
        for (const connection of this.#connections) connection.check(this.#settings);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    } finally {
      this.#isChecking = false;
    }
  }

  #track(task: Promise<void>): void {
    this.#tasks.add(task);
    void task.finally(() => this.#tasks.delete(task));
  }
}
