/**
 * How many connections a server may hold, by state. Descriptors are shared with everything else in the process: a server that takes
 * all of them stops the volumes of a node. Of connections that are
 * not authenticated yet the oldest is closed when a new one comes: strangers push out each other, and a client gets in as long as it
 * authenticates sooner than that many strangers connect.
 *
 *   new ──▶ stranger ──a request is authenticated──▶ known      Each has half of the places. Known ones keep theirs while a
 *              └─▶ closed by a newer one               └─▶ closed when idle and another wants its place    request is open.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

/** A socket, or what stands for it on top of TLS or HTTP/2. */
type Addressed = Partial<Pick<Socket, 'remoteAddress' | 'remotePort'>>;

interface Connection {
  readonly socket: Socket;
  requests: number;
}

/** The places within a share of the descriptors that this process may open. */
export function connectionPlaces(share: number, placesMax: number): number {
  const [, limit = ''] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  return Math.min(placesMax, Math.floor((Number(limit) || Infinity) * share));
}

export class Connections {
  readonly #placesEach: number;
  readonly #strangers = new Map<string, Connection>();
  /** The one that has been idle for the longest time comes first of those that are. */
  readonly #known = new Map<string, Connection>();

  constructor(places: number) {
    this.#placesEach = Math.max(1, Math.floor(places / 2));
  }

  /** To be called for each connection that is accepted, before TLS. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    const connection = { socket, requests: 0 };
    this.#strangers.set(key, connection);
    socket.on('close', () => {
      for (const connections of [this.#strangers, this.#known]) {
        if (connections.get(key) === connection) connections.delete(key);
      }
    });
    if (this.#strangers.size > this.#placesEach) close(this.#strangers, () => true);
  }

  /** Counts a request until what is returned is called. */
  begin(socket: Addressed): () => void {
    const key = keyOf(socket);
    const connection = this.#strangers.get(key) ?? this.#known.get(key);
    if (connection === undefined) return () => {};
    connection.requests += 1;
    return () => {
      connection.requests -= 1;
      if (this.#known.get(key) === connection && this.#known.delete(key)) this.#known.set(key, connection);
    };
  }

  /** Who is at the other end is known now. False when all places of known ones are in use. */
  trust(socket: Addressed): boolean {
    const key = keyOf(socket);
    const connection = this.#strangers.get(key);
    if (connection === undefined) return true;
    if (this.#known.size >= this.#placesEach && !close(this.#known, ({ requests }) => requests === 0)) return false;
    this.#strangers.delete(key);
    this.#known.set(key, connection);
    return true;
  }
}

/** Closes the first that may be. */
function close(connections: Map<string, Connection>, may: (connection: Connection) => boolean): boolean {
  for (const [key, connection] of connections) {
    if (!may(connection)) continue;
    connections.delete(key);
    connection.socket.destroy();
    return true;
  }
  return false;
}

/** No two open connections to one port have the same. */
function keyOf({ remoteAddress, remotePort }: Addressed): string {
  return `${remoteAddress} ${remotePort}`;
}
