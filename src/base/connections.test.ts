import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Connections, connectionPlaces } from './connections.ts';

/** A server with so many places, and connections to it: the server's end and whether it is still open. */
async function world(
  t: TestContext,
  places: number,
): Promise<{ connections: Connections; open: () => Promise<Socket> }> {
  const connections = new Connections(places);
  const server = createServer((socket) => connections.add(socket.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clients: Socket[] = [];
  t.after(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    connections,
    async open() {
      const accepted = once(server, 'connection') as Promise<[Socket]>;
      clients.push(connect(port, '127.0.0.1').on('error', () => {}));
      const [socket] = await accepted;
      return socket;
    },
  };
}

test('of strangers the newest stay', async (t) => {
  const { open } = await world(t, 4);
  const sockets = [await open(), await open(), await open(), await open()];
  assert.deepEqual(
    sockets.map(({ destroyed }) => destroyed),
    [true, true, false, false],
  );
});

test('a client that is known keeps its place, whatever strangers do', async (t) => {
  const { connections, open } = await world(t, 4);
  const known = await open();
  assert.equal(connections.trust(known), true);
  for (let i = 0; i < 10; i += 1) await open();
  assert.equal(known.destroyed, false);
});

test('the known connection that is idle the longest makes room for another; when none is idle there is no room', async (t) => {
  const { connections, open } = await world(t, 4);
  const [next, last] = [await open(), await open()];
  assert.ok(connections.trust(next) && connections.trust(last));
  const end = connections.begin(next);
  const other = await open();
  assert.equal(connections.trust(other), true);
  assert.deepEqual([next.destroyed, last.destroyed], [false, true], 'the idle one goes');
  connections.begin(other);
  const refused = await open();
  assert.equal(connections.trust(refused), false);
  assert.equal(refused.destroyed, false, 'it can be told so');
  end();
  assert.equal(connections.trust(refused), true);
  assert.deepEqual([next.destroyed, other.destroyed], [true, false]);
});

test('the places are a share of the descriptors of the process', () => {
  assert.equal(connectionPlaces(1 / 4, 1), 1);
  assert.ok(connectionPlaces(1 / 4, Infinity) > 1);
});
