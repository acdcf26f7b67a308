import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Exchange, ResponseStream } from '../../apiserver/rest/api-request.ts';
import { systemClock } from '../../base/clock.ts';
import { ApiClient, apiClientDefaults } from '../../client/api/api-client.ts';
import { AlreadyExistsError, ForbiddenError, NotFoundError } from '../../client/api/api-errors.ts';
import { configMaps, pods, secrets } from '../../client/api/resource-reference.ts';
import { anonymous } from '../../client/credentials/credentials.ts';
import { ClientClosedError, type HttpRequest, type HttpSink } from '../../client/transport/transport.ts';
import { type RunningApiServer, runningApiServer } from '../../testing/servers/test-api-server.ts';
import { InProcessTransport } from './in-process-transport.ts';

const signal = new AbortController().signal;
const admin = { verified: true, subject: { CN: 'admin', O: 'system:masters' } };
const aNode = { verified: true, subject: { CN: 'system:node:one', O: 'system:nodes' } };
const inDefault = (name: string): { namespace: string; name: string } => ({ namespace: 'default', name });

async function world(t: TestContext, peer = admin): Promise<{ server: RunningApiServer; client: ApiClient }> {
  const server = await runningApiServer(t);
  const transport = new InProcessTransport(server.serve, peer, systemClock);
  const client = new ApiClient({ transport, credentials: anonymous, clock: systemClock }, apiClientDefaults);
  t.after(() => client.close());
  return { server, client };
}

/** The calls of a sink, as text. */
class Heard implements HttpSink {
  readonly words: string[] = [];
  #wake: () => void = () => {};

  head({ status }: { readonly status: number }): void {
    this.#hear(`head ${status}`);
  }

  data(chunk: Buffer): void {
    this.#hear(`data ${chunk.toString().trim().slice(0, 60)}`);
  }

  end(): void {
    this.#hear('end');
  }

  failed(error: unknown): void {
    this.#hear(`failed ${(error as Error).name}`);
  }

  async until(word: RegExp): Promise<void> {
    while (!this.words.some((heard) => word.test(heard))) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  #hear(word: string): void {
    this.words.push(word);
    this.#wake();
  }
}

const aRequest = (path: string, isLongLived = false): HttpRequest => ({
  method: 'GET',
  path,
  headers: { accept: 'application/json' },
  isLongLived,
});

test('the server answers as it does over a network', async (t) => {
  const { client } = await world(t);
  const made = { metadata: { name: 'web' }, data: { a: '1' } };
  await client.create(configMaps, { namespace: 'default' }, made, signal);
  await assert.rejects(client.create(configMaps, { namespace: 'default' }, made, signal), AlreadyExistsError);
  await assert.rejects(client.get(configMaps, inDefault('other'), signal), NotFoundError);
  const patched = await client.patch(configMaps, { ...inDefault('web'), type: 'merge' }, { data: { b: '2' } }, signal);
  assert.deepEqual({ ...(patched as { readonly data?: object }).data }, { a: '1', b: '2' });
  const large = { metadata: { name: 'large' }, data: { a: 'x'.repeat(4 * 1024 * 1024) } };
  await assert.rejects(client.create(configMaps, { namespace: 'default' }, large, signal), { code: 413 });
});

test('a node may do what nodes may, and no more', async (t) => {
  const { server, client } = await world(t, aNode);
  await server.client().create(secrets, { namespace: 'default' }, { metadata: { name: 'key' } }, signal);
  await assert.rejects(client.get(secrets, inDefault('key'), signal), ForbiddenError);
  const { items } = await client.list(pods, { fieldSelector: 'spec.nodeName=one' }, signal);
  assert.deepEqual(items, []);
});

test('a watch goes on until one side ends it, and both sides see the end', async (t) => {
  const server = await runningApiServer(t);
  const transport = new InProcessTransport(server.serve, admin, systemClock);
  const watch = '/api/v1/namespaces/default/secrets?watch=true';
  const [left, ended] = [new AbortController(), new AbortController()];
  const [first, second] = [new Heard(), new Heard()];
  await transport.send(aRequest(watch, true), first, left.signal);
  await transport.send(aRequest(watch, true), second, ended.signal);
  await Promise.all([first.until(/head 200/), second.until(/head 200/)]);
  left.abort(new ClientClosedError());
  await first.until(/failed/);
  await server.client().create(secrets, { namespace: 'default' }, { metadata: { name: 'key' } }, signal);
  await second.until(/ADDED/);
  await server.close();
  await second.until(/^end$/);
  assert.deepEqual(first.words, ['head 200', 'failed ClientClosedError'], 'nothing after it left');
  assert.equal(second.words.at(-1), 'end');
});

test('a closed client ends what is open and takes no more', async (t) => {
  const server = await runningApiServer(t);
  const transport = new InProcessTransport(server.serve, admin, systemClock);
  const heard = new Heard();
  await transport.send(aRequest('/api/v1/pods?watch=true', true), heard, signal);
  await heard.until(/head/);
  await transport.close();
  await heard.until(/failed ClientClosedError/);
  await assert.rejects(transport.send(aRequest('/api'), heard, signal), ClientClosedError);
});

test('an answer that breaks off is not taken for a complete one; nothing runs inside of the server', async () => {
  const heard = new Heard();
  let exchange: Exchange | undefined;
  const transport = new InProcessTransport((given) => (exchange = given), admin, systemClock);
  await transport.send(aRequest('/'), heard, signal);
  let closed = 0;
  exchange?.onClose(() => (closed += 1));
  const stream: ResponseStream | undefined = exchange?.openStream(200, {});
  stream?.write(Buffer.from('half'));
  assert.deepEqual(heard.words, []);
  await heard.until(/data/);
  stream?.destroy();
  stream?.write(Buffer.from('more'));
  stream?.end();
  await heard.until(/failed/);
  assert.deepEqual(heard.words, ['head 200', 'data half', 'failed ConnectionLostError']);
  assert.equal(closed, 1);
});

test('a server that writes faster than is read waits until it is', async () => {
  const heard = new Heard();
  let exchange: Exchange | undefined;
  const transport = new InProcessTransport((given) => (exchange = given), admin, systemClock);
  await transport.send(aRequest('/'), heard, signal);
  const stream = exchange?.openStream(200, {});
  const drained = new Promise<void>((resolve) => stream?.onDrain(resolve));
  assert.equal(stream?.write(Buffer.alloc(512 * 1024)), true);
  assert.equal(stream?.write(Buffer.alloc(512 * 1024)), false);
  await drained;
  assert.equal(heard.words.length, 3);
  assert.equal(stream?.write(Buffer.from('small')), true);
});
