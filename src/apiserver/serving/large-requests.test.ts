/** Large requests over real HTTP: what each of the known attacks gets, and that a worker answers as this thread would. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type LargeRequest, configMapBody, largeRequests, seenAttacks } from '../../testing/servers/large-bodies.ts';
import { MemoryStore } from '../../testing/servers/stores.ts';
import { type TestApiServer, openAuthorizer, startTestApiServer } from '../../testing/servers/test-api-server.ts';
import { type TestClient, type TestJson, type TestResponse, http1Client } from '../../testing/servers/test-client.ts';
import { ServiceRange, defaultServiceRange } from '../../kube/values/service-range.ts';
import { ServiceClaims } from '../admission/service-claims.ts';
import { StatusError } from '../model/status.ts';
import { configMaps } from '../resources/configuration.ts';
import type { ApiRequest, Exchange } from '../rest/api-request.ts';
import { plainJson } from '../rest/representation.ts';
import { requestInfo } from '../rest/request-info.ts';
import { StoreFullError } from '../store/store-errors.ts';
import { LargeRequests, workerDefaults } from './large-requests.ts';

const patient = { ...workerDefaults, workMsMax: 120_000 };
let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer();
  client = http1Client(server);
  await put('subject', { value: 'x'.repeat(100_000) });
});
after(() => server.close());

const place = '/api/v1/namespaces/default/configmaps';

async function put(name: string, data: Record<string, string>): Promise<TestResponse> {
  return client.send(place, { method: 'POST', body: configMapBody(name, data) });
}

function send({ method, path, contentType, accept, body }: LargeRequest, query = ''): Promise<TestResponse> {
  const headers = { ...(contentType && { 'content-type': contentType }), ...(accept && { accept }) };
  const target = query === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${query}`;
  return client.send(target, { method, headers, ...(body !== undefined && { body }) });
}

const refusals: readonly (readonly [name: string, code: number, message: RegExp])[] = [
  ['YAML with aliases, 120 KB', 400, /yaml: line 1: Too many anchors and aliases \(at most 5000\)/],
  ['YAML event, 2.7 MB', 413, /limit is 1572864 for YAML; send it as JSON/],
  [
    'quantity of a million digits',
    400,
    /spec\.resources\.requests\[storage\]: quantities must not be longer than 1000 characters$/,
  ],
  ['40,000 variables', 413, /27\d+ bytes of managedFields the object takes \d+ bytes, limit is 1572864/],
  ['apply of 100,000 keys', 413, /bytes of managedFields the object takes \d+ bytes, limit is 1572864/],
  ['selector of 100,000 values', 400, /^labelSelector: Too long: may not be more than 32768 characters$/],
];
for (const [index, attack] of seenAttacks().entries()) {
  test(`the server refuses this, and says why: ${attack.name}`, async () => {
    const [name, code, message] = refusals[index] ?? ['', 0, /nothing/];
    assert.equal(attack.name, name);
    const { status, json } = await send(attack);
    assert.equal(status, code, json.message);
    assert.match(json.message, message);
  });
}

test('an answer lists a hundred errors and counts the rest', async () => {
  const wrong = largeRequests(200_000).find(({ name }) => name === 'claim, wrong-selector');
  assert.ok(wrong);
  const { status, json } = await send(wrong);
  assert.equal(status, 422);
  assert.equal(json.details.causes.length, 100);
  assert.equal(json.details.causes[0].field, 'spec.selector.matchExpressions[0].operator');
  assert.match(json.message, /, and \d+ more errors\]$/);
});

test('options and reviews are small', async () => {
  const body = { kind: 'DeleteOptions', apiVersion: 'v1', unknown: 'x'.repeat(20_000) };
  const { status, json } = await client.send(`${place}/subject`, { method: 'DELETE', body });
  assert.equal(status, 413);
  assert.match(json.message, /limit is 16384/);
});

test('an object that is larger than may be stored can still get smaller, and not larger', async () => {
  const data = Object.fromEntries(Array.from({ length: 25_000 }, (_, index) => [`k${index}`.padEnd(70, 'x'), '']));
  const metadata = { name: 'huge', namespace: 'default', uid: '1', resourceVersion: '2' };
  const value = JSON.stringify({ ...configMapBody('huge', data), metadata });
  await server.store.update('/registry/core/configmaps/default/huge', () => ({ kind: 'put', value, result: 0 }));
  const headers = { 'content-type': 'application/merge-patch+json' };
  const patch = (change: object): Promise<TestResponse> =>
    client.send(`${place}/huge`, { method: 'PATCH', headers, body: { data: change } });
  const refused = await patch({ one: 'more' });
  assert.equal(refused.status, 413);
  assert.match(refused.json.message, /the object takes \d+ bytes, limit is 1572864$/);
  assert.equal((await patch({ [Object.keys(data)[0] ?? '']: null })).status, 200);
});

/** Without what differs from one creation to the next. */
function comparable(json: TestJson): unknown {
  const { metadata, ...rest } = json;
  const { uid: _uid, creationTimestamp: _at, resourceVersion: _version, managedFields, ...same } = metadata ?? {};
  const fields = managedFields?.map((entry: TestJson) => ({ ...entry, time: '' }));
  const text = JSON.stringify({ ...rest, metadata: { ...same, managedFields: fields } });
  return JSON.parse(text.replaceAll(/kube-api-access-\w{5}/g, 'kube-api-access'));
}

/**
 * The same request, small enough for the main thread and padded so that it is not: JSON ignores space between its tokens,
 * and so does everything that reads it.
 */
test('a worker answers as the main thread does, whatever the body', async () => {
  const kinds = largeRequests(8_000).filter(
    ({ body, contentType = '' }) => body?.startsWith('{') && !contentType.includes('json-patch'),
  );
  let large = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...kinds), fc.integer({ min: 1_500, max: 12_000 }), async ({ name }, bytes) => {
      const small = largeRequests(bytes).find((one) => one.name === name);
      assert.ok(small?.body !== undefined);
      const here = await send(small, 'dryRun=All');
      const there = await send({ ...small, body: `${small.body}${' '.repeat(40_000)}` }, 'dryRun=All');
      assert.equal(there.status, here.status);
      assert.deepEqual(there.headers['warning'], here.headers['warning']);
      assert.deepEqual(comparable(there.json), comparable(here.json));
      large += 1;
    }),
    { numRuns: 60, seed: 20261117 },
  );
  assert.ok(large >= 60);
});

test('bodies up to the limit are answered, with the object or a reason that names a field or a limit', async () => {
  for (const one of largeRequests(150_000)) {
    const answer = await send(one);
    const { status, text } = answer;
    if (status < 300) continue;
    const { json } = answer;
    assert.ok(status >= 400 && status < 500, `${one.name}: ${status} ${text.slice(0, 200)}`);
    assert.match(
      json.message,
      /\w+(\.\w+|\[).*: |limit is \d+|at most \d+|more than \d+|yaml: line \d+|max depth/,
      one.name,
    );
  }
  assert.deepEqual(
    server.notices.filter(({ kind }) => kind !== 'RequestServed'),
    [],
  );
});

test('an answer of the worker has the revision that the store gave it, and is what is stored', async () => {
  const { json, status } = await put('large', { value: 'y'.repeat(50_000) });
  assert.equal(status, 201);
  const stored = server.store.get('/registry/core/configmaps/default/large');
  assert.equal(json.metadata.resourceVersion, String(stored?.revision));
  assert.deepEqual(JSON.parse(stored?.value ?? ''), json);
  assert.deepEqual((await client.send(`${place}/large`)).json, json);
});

test('lists are the same from the worker: selected, as a table, as YAML, in pages', async () => {
  for (let index = 0; index < 12; index += 1) {
    const metadata = { name: `listed-${index}`, labels: { listed: String(index % 2) } };
    await client.send(place, { method: 'POST', body: { ...configMapBody('', { a: 'z'.repeat(90_000) }), metadata } });
  }
  const selected = await client.send(`${place}?labelSelector=listed%3D1`);
  assert.equal(selected.json.items.length, 6);
  const names: string[] = [];
  for (let token = ''; ;) {
    const query = `labelSelector=listed&limit=5&continue=${encodeURIComponent(token)}`;
    const { json } = await client.send(`${place}?${query}`);
    names.push(...json.items.map((item: TestJson) => item.metadata.name));
    token = json.metadata.continue ?? '';
    if (token === '') break;
  }
  assert.equal(new Set(names).size, 12);
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
  const table = await client.send(`${place}?labelSelector=listed`, { headers: { accept } });
  assert.deepEqual(table.json.rows.map(({ cells }: TestJson) => cells[0]).sort(), names.toSorted());
  const gone = await client.send(`${place}?labelSelector=listed&resourceVersion=1&resourceVersionMatch=Exact`);
  assert.ok(gone.status === 200 || gone.status === 410, String(gone.status));
});

/** A request as the router gives it, for a server that is only its store. */
function patchOf(name: string, data: object): ApiRequest {
  const body = Buffer.from(JSON.stringify({ data }) + ' '.repeat(40_000));
  const exchange: Partial<Exchange> = {
    header: (header) => (header === 'content-type' ? 'application/merge-patch+json' : undefined),
    readBody: () => Promise.resolve(body),
  };
  const info = requestInfo('PATCH', { path: `${place}/${name}`, query: new URLSearchParams() });
  assert.ok(info.kind === 'resource');
  return {
    exchange: exchange as Exchange,
    info,
    resource: configMaps,
    served: configMaps,
    query: new URLSearchParams(),
    representation: plainJson,
    user: { name: 'admin', uid: '', groups: ['system:masters'], extra: {} },
    signal: new AbortController().signal,
    warn: () => {},
  };
}

const key = '/registry/core/configmaps/default/shared';
function servicesOf(store: MemoryStore): ServiceClaims {
  return new ServiceClaims(store, ServiceRange.parse(defaultServiceRange) ?? assert.fail());
}

async function sharedStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const metadata = { name: 'shared', namespace: 'default', uid: '1', resourceVersion: '2' };
  const value = JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', metadata, data: { first: '1' } });
  await store.update(key, () => ({ kind: 'put', value, result: 0 }));
  return store;
}

test('a write that others have overtaken is decided again, on what they wrote', async (t) => {
  const store = await sharedStore();
  const get = store.get.bind(store);
  let [calls, others] = [0, 3];
  t.mock.method(store, 'get', (asked: string) => {
    const stored = get(asked);
    calls += 1;
    // The first look is at its size alone.
    if (stored !== undefined && others > 0 && calls > 1) {
      others -= 1;
      const value = stored.value.replace('"first":"1"', `"first":"1","other-${others}":"2"`);
      void store.update(asked, () => ({ kind: 'put', value, result: 0 }));
    }
    return stored;
  });
  const large = new LargeRequests(
    { store, clock: { now: () => 0 }, services: servicesOf(store), authorizer: openAuthorizer },
    patient,
  );
  t.after(() => large.close());
  const reply = await large.handle('patch', patchOf('shared', { mine: '3' }));
  assert.ok(reply?.kind === 'raw');
  const { data } = JSON.parse(get(key)?.value ?? '');
  assert.deepEqual(data, { first: '1', 'other-0': '2', 'other-1': '2', 'other-2': '2', mine: '3' });
});

const failures = [
  { it: 'takes too long', limits: { ...workerDefaults, workMsMax: 1 }, code: 504 },
  { it: 'takes too much memory', limits: { ...workerDefaults, heapMiBMax: 2 }, code: 413 },
];
for (const { it, limits, code } of failures) {
  test(`a request that ${it} is refused, and hurts no other`, async (t) => {
    const store = await sharedStore();
    const large = new LargeRequests(
      { store, clock: { now: () => 0 }, services: servicesOf(store), authorizer: openAuthorizer },
      limits,
    );
    t.after(() => large.close());
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(
        large.handle('patch', patchOf('shared', { mine: '3' })),
        (error) => error instanceof StatusError && error.code === code,
      );
    }
    assert.equal(JSON.parse(store.get(key)?.value ?? '').data.mine, undefined);
  });
}

test('what the store throws is what the request fails with, and the next one works', async (t) => {
  const store = await sharedStore();
  const full = t.mock.method(store, 'update', () => Promise.reject(new StoreFullError(key, 1)));
  const large = new LargeRequests(
    { store, clock: { now: () => 0 }, services: servicesOf(store), authorizer: openAuthorizer },
    patient,
  );
  t.after(() => large.close());
  await assert.rejects(large.handle('patch', patchOf('shared', { mine: '3' })), StoreFullError);
  full.mock.restore();
  const reply = await large.handle('patch', patchOf('shared', { mine: '4' }));
  assert.ok(reply?.kind === 'raw');
  assert.equal(JSON.parse(String(reply.body)).data.mine, '4');
});

test('more large requests than may wait are asked to come back', async (t) => {
  const store = await sharedStore();
  const large = new LargeRequests(
    { store, clock: { now: () => 0 }, services: servicesOf(store), authorizer: openAuthorizer },
    patient,
  );
  t.after(() => large.close());
  const answers = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) => large.handle('patch', patchOf('shared', { [`k${index}`]: '1' }))),
  );
  const refused = answers.filter((answer) => answer.status === 'rejected');
  assert.deepEqual(
    refused.map(({ reason }) => (reason as StatusError).code),
    [429, 429, 429, 429],
  );
});
