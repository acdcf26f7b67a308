/** A TCP relay in front of a server, that cuts, stalls and refuses when a test says so: what networks and proxies do to TLS. */
import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';

export interface FaultyRelay {
  readonly port: number;
  /** Those that are open towards the client. */
  readonly connections: number;
  /** Cuts every connection, or with a number of bytes each after it has carried that many more towards the client. */
  cut(afterBytes?: number): void;
  /** Connections that are open carry nothing more in either direction, and stay open. */
  stall(): void;
  /** Refuses connections until restart(). */
  stop(): Promise<void>;
  restart(): Promise<void>;
}

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  bytesLeft: number;
  isStalled: boolean;
}

export async function faultyRelay(
  test: { after(act: () => Promise<void>): void },
  target: number,
): Promise<FaultyRelay> {
  const pairs = new Set<Pair>();
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1');
    const pair: Pair = { near, far, bytesLeft: Infinity, isStalled: false };
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const socket of [near, far]) socket.on('error', end).on('close', end);
    // Read all the same: a socket that is not read does not notice that the other side has gone.
    near.on('data', (chunk) => {
      if (!pair.isStalled) far.write(chunk);
    });
    far.on('data', (chunk: Buffer) => {
      if (pair.isStalled) return;
      near.write(chunk.subarray(0, Math.min(chunk.length, pair.bytesLeft)));
      pair.bytesLeft -= chunk.length;
      if (pair.bytesLeft <= 0) end();
    });
  });
  let port = 0;
  const listen = async (): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  };
  const cut = (afterBytes = 0): void => {
    for (const pair of pairs) {
      pair.bytesLeft = Math.min(pair.bytesLeft, afterBytes);
      if (afterBytes === 0) pair.near.destroy();
    }
  };
  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  };
  await listen();
  test.after(stop);
  return {
    get port() {
      return port;
    },
    get connections() {
      return pairs.size;
    },
    cut,
    stall: () => {
      for (const pair of pairs) pair.isStalled = true;
    },
    stop,
    restart: listen,
  };
}
