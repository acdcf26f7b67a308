import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { settle } from '../../testing/fakes/fake-clock.ts';
import { ChannelSocket } from './channel-socket.ts';

interface Ends {
  readonly client: WebSocket;
  readonly server: ChannelSocket;
  readonly raw: WebSocket;
}

async function ends(t: TestContext, codec: 'binary' | 'base64' = 'binary', hasClose = true): Promise<Ends> {
  const http = createServer().listen(0, '127.0.0.1');
  const sockets = new WebSocketServer({ server: http, perMessageDeflate: false });
  await once(http, 'listening');
  const connected = once(sockets, 'connection') as Promise<[WebSocket]>;
  const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`);
  client.on('error', () => {});
  const [raw] = await connected;
  await once(client, 'open');
  t.after(() => {
    client.terminate();
    raw.terminate();
    sockets.close();
    http.close();
  });
  return { client, server: new ChannelSocket(raw, { codec, hasClose }), raw };
}

test('ChannelSocket gives each channel what was sent to it, until the client closes that one', async (t) => {
  const { client, server } = await ends(t);
  const input = server.input(0);
  for (const message of [[9, 1], [0, 104, 105], [], [0], [255, 0], [0, 33]]) client.send(Buffer.from(message));
  assert.equal(Buffer.concat(await input.toArray()).toString(), 'hi');
});

test('ChannelSocket speaks base64 for clients that cannot do better', async (t) => {
  const { client, server } = await ends(t, 'base64', false);
  const input = server.input(0);
  client.send(`0${Buffer.from('hi').toString('base64')}`);
  const [bytes] = (await once(input, 'data')) as [Buffer];
  assert.equal(bytes.toString(), 'hi');
  const answer = once(client, 'message') as Promise<[Buffer, boolean]>;
  server.output(1).write('yes');
  const [data, isBinary] = await answer;
  assert.deepEqual([data.toString(), isBinary], [`1${Buffer.from('yes').toString('base64')}`, false]);
});

test('ChannelSocket sends no message longer than kubectl reads', async (t) => {
  const { client, server } = await ends(t);
  const sizes: number[] = [];
  const all = new Promise<void>((resolve) => {
    client.on('message', (data: Buffer) => {
      assert.equal(data[0], 2);
      sizes.push(data.length);
      if (sizes.reduce((sum, size) => sum + size - 1, 0) === 100_000) resolve();
    });
  });
  server.output(2).write(Buffer.alloc(100_000));
  await all;
  assert.ok(Math.max(...sizes) <= 32 * 1024);
});

test('ChannelSocket holds back a client whose channel is not read, and then lets it continue', async (t) => {
  const { client, server, raw } = await ends(t);
  const input = server.input(0);
  const message = Buffer.alloc(64 * 1024);
  let sent = 0;
  while (sent < 2000 && client.bufferedAmount < 4 * 1024 * 1024) {
    client.send(message);
    sent += 1;
    await settle(1);
  }
  while (!raw.isPaused) await settle(1);
  assert.ok(input.readableLength < 2 * 1024 * 1024, 'little is held in memory');
  let received = 0;
  input.on('data', (bytes: Buffer) => (received += bytes.length));
  client.send(Buffer.from([255, 0]));
  await once(input, 'end');
  assert.equal(received, sent * (message.length - 1));
});

test('ChannelSocket holds back a writer whose client does not read', async (t) => {
  const { client, server, raw } = await ends(t);
  client.pause();
  const output = server.output(1);
  let written = 0;
  for (; written < 20_000; written += 1) {
    if (output.write(Buffer.alloc(16 * 1024))) continue;
    const drained = await Promise.race([once(output, 'drain').then(() => true), settle(200).then(() => false)]);
    if (!drained) break;
  }
  assert.ok(written < 20_000);
  assert.ok(raw.bufferedAmount < 1024 * 1024, 'little is held in memory');
});

test('ChannelSocket ends its inputs and says so when the client is gone', async (t) => {
  const { client, server } = await ends(t);
  const input = server.input(0);
  client.terminate();
  await server.closed;
  assert.equal(server.gone.aborted, true);
  assert.deepEqual(await input.toArray(), []);
});
