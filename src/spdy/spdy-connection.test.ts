import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { settle } from '../testing/fakes/fake-clock.ts';
import { SpdyClient } from '../testing/servers/spdy-client.ts';
import { pingFrame, resetFrame } from './frames.ts';
import { SpdyConnection } from './spdy-connection.ts';
import type { SpdyStream } from './spdy-stream.ts';

interface Ends {
  readonly client: SpdyClient;
  readonly socket: Socket;
  readonly streams: SpdyStream[];
  readonly connection: SpdyConnection;
  readonly done: Promise<void>;
}

async function ends(t: TestContext, offer: (stream: SpdyStream) => boolean = () => true): Promise<Ends> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [peer] = await accepted;
  const streams: SpdyStream[] = [];
  const connection = new SpdyConnection(peer, (stream) => {
    streams.push(stream);
    return offer(stream);
  });
  const done = connection.run();
  t.after(async () => {
    socket.destroy();
    await done;
    server.close();
  });
  return { client: new SpdyClient(socket), socket, streams, connection, done };
}

test('SpdyConnection replies to a stream, and each direction ends by itself', async (t) => {
  const { client, streams } = await ends(t, (stream) => {
    stream.on('data', (bytes: Buffer) => stream.write(bytes.toString().toUpperCase()));
    stream.on('end', () => stream.end('!'));
    return true;
  });
  const id = client.open({ streamType: 'stdin' });
  assert.equal((await client.next((frame) => frame.kind === 'synReply'))?.kind, 'synReply');
  client.write(id, 'abc');
  client.write(id, 'def', true);
  assert.equal(await client.text(id), 'ABCDEF!');
  assert.equal(streams[0]?.headers.get('streamtype'), 'stdin');
});

test('SpdyConnection refuses what its user refuses, wrong numbers and too many', async (t) => {
  const { client } = await ends(t, (stream) => stream.headers.get('streamtype') === 'good');
  const bad = client.open({ streamType: 'bad' });
  assert.deepEqual(await client.next((frame) => frame.kind === 'reset'), { kind: 'reset', streamId: bad, code: 5 });
  for (let count = 0; count < 1025; count += 1) client.open({ streamType: 'good' });
  assert.deepEqual(await client.next((frame) => frame.kind === 'reset'), { kind: 'reset', streamId: 2051, code: 3 });
});

test('SpdyConnection answers pings of the client', async (t) => {
  const { client } = await ends(t);
  client.send(pingFrame(2));
  client.send(pingFrame(5));
  assert.deepEqual(await client.next((frame) => frame.kind === 'ping'), { kind: 'ping', id: 5 });
});

test('SpdyConnection ends with GOAWAY when the client does not speak SPDY', async (t) => {
  const { client, socket, done } = await ends(t);
  socket.write(Buffer.from('8001000100000000', 'hex'));
  await done;
  assert.equal(
    await client.next((frame) => frame.kind === 'goAway' || frame.kind === 'reset').then((f) => f?.kind),
    'goAway',
  );
});

test('SpdyConnection: a reset destroys the stream and nothing else; the end of the connection destroys all', async (t) => {
  const { client, streams, socket, done } = await ends(t);
  const [first] = [client.open({}), client.open({})];
  await client.next((frame) => frame.kind === 'synReply' && frame.streamId === 3);
  client.send(resetFrame(first, 5));
  client.send(pingFrame(1));
  await client.next((frame) => frame.kind === 'ping');
  assert.deepEqual(
    streams.map(({ destroyed }) => destroyed),
    [true, false],
  );
  socket.destroy();
  await done;
  assert.equal(streams[1]?.destroyed, true);
});

test('SpdyConnection stops reading while a stream is not read, and continues when it is', async (t) => {
  const { client, streams, socket } = await ends(t);
  const id = client.open({});
  await client.next((frame) => frame.kind === 'synReply');
  const chunk = Buffer.alloc(1024 * 1024);
  // As much as the kernel and both ends take; a bounded buffer must push back long before the last of it.
  let sent = 0;
  while (sent < 200) {
    client.write(id, chunk);
    sent += 1;
    if (socket.writableLength > 0) await settle(2);
    if (socket.writableLength > 20 * chunk.length) break;
  }
  assert.ok(sent < 200, 'the client was held back');
  const [stream] = streams;
  assert.ok(stream !== undefined && stream.readableLength < 1024 * 1024, 'little is held in memory');
  let received = 0;
  stream.on('data', (bytes: Buffer) => (received += bytes.length));
  client.write(id, '', true);
  await once(stream, 'end');
  assert.equal(received, sent * chunk.length);
  assert.equal(socket.writableLength, 0);
});

test('SpdyConnection holds back a writer whose client does not read', async () => {
  const sent: Buffer[] = [];
  let release: (() => void) | undefined;
  const transport = new Duplex({
    highWaterMark: 1024,
    read() {},
    write(bytes: Buffer, _encoding, done) {
      sent.push(bytes);
      release = done;
    },
  });
  let opened: (stream: SpdyStream) => void = () => {};
  const first = new Promise<SpdyStream>((resolve) => (opened = resolve));
  const connection = new SpdyConnection(transport, (stream) => {
    opened(stream);
    return true;
  });
  const done = connection.run();
  const wire = new Duplex({
    read() {},
    write(bytes: Buffer, _encoding, callback) {
      transport.push(bytes);
      callback();
    },
  });
  new SpdyClient(wire).open({});
  const stream = await first;
  release?.();
  let writes = 0;
  while (stream.write(Buffer.alloc(16 * 1024)) && writes < 1000) writes += 1;
  assert.ok(writes < 10, 'the stream says that it is full');
  await settle();
  assert.ok(sent.length <= 3, 'only one frame is under way');
  transport.destroy();
  await done;
});

async function bothEnds(
  t: TestContext,
  offer: (stream: SpdyStream) => boolean,
): Promise<{ readonly client: SpdyConnection; readonly server: SpdyConnection; readonly peer: Socket }> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const accepted = once(listener, 'connection') as Promise<[Socket]>;
  const socket = connect((listener.address() as AddressInfo).port, '127.0.0.1');
  const [peer] = await accepted;
  const [client, server] = [new SpdyConnection(socket), new SpdyConnection(peer, offer)];
  const done = Promise.all([client.run(), server.run()]);
  t.after(async () => {
    socket.destroy();
    await done;
    listener.close();
  });
  return { client, server, peer };
}

async function textOf(stream: SpdyStream): Promise<string> {
  let text = '';
  for await (const bytes of stream as AsyncIterable<Buffer>) text += bytes.toString();
  return text;
}

test('a client opens streams, writes and reads, and hears of a refusal', async (t) => {
  const { client } = await bothEnds(t, (stream) => {
    if (stream.headers.get('streamtype') === 'bad') return false;
    stream.pipe(stream);
    return true;
  });
  const [first, second] = await Promise.all([client.open(new Map([['streamtype', 'a']])), client.open(new Map())]);
  assert.deepEqual([first.id, second.id], [1, 3]);
  const large = 'x'.repeat(1_000_000);
  first.end(large);
  second.end('small');
  assert.deepEqual(await Promise.all([textOf(first), textOf(second)]), [large, 'small']);
  await assert.rejects(client.open(new Map([['streamtype', 'bad']])), { reason: 'SpdyProtocolError' });
});

test('a client reads everything that a server sent before it left, and a stream after that is refused', async (t) => {
  const { client, peer } = await bothEnds(t, (stream) => {
    stream.write('last words', () => peer.destroySoon());
    return true;
  });
  const stream = await client.open(new Map());
  assert.equal(await textOf(stream), 'last words');
  await assert.rejects(client.open(new Map()), { reason: 'SpdyProtocolError' });
});
