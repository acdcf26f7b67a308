/** The client against the real API server. How it behaves with servers that misbehave is in api-client-faults.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configMapShape } from '../../kube/kinds/config-map.ts';
import { runningApiServer } from '../../testing/servers/running-api-server.ts';
import { AlreadyExistsError, ConflictError, InvalidError, NotFoundError } from './api-errors.ts';
import { configMaps, leases, namespaces, nodes, serviceAccounts, withShape } from './resource-reference.ts';

const signal = new AbortController().signal;
const typed = withShape(configMaps, configMapShape);
const inShop = (name: string): { namespace: string; name: string } => ({ namespace: 'default', name });

test('an object can be created, read, updated, patched and deleted', async (t) => {
  const client = (await runningApiServer(t)).client();
  const made = await client.create(
    typed,
    { namespace: 'default' },
    { metadata: { name: 'web' }, data: { a: '1' } },
    signal,
  );
  assert.equal(made.kind, 'ConfigMap');
  assert.deepEqual({ ...(await client.get(typed, inShop('web'), signal)).data }, { a: '1' });
  const updated = await client.update(typed, inShop('web'), { ...made, data: { a: '2' } }, signal);
  assert.notEqual(updated.metadata.resourceVersion, made.metadata.resourceVersion);
  const patched = await client.patch(typed, { ...inShop('web'), type: 'merge' }, { data: { b: '3' } }, signal);
  assert.deepEqual({ ...patched.data }, { a: '2', b: '3' });
  const applied = await client.patch(
    typed,
    { ...inShop('web'), type: 'apply', fieldManager: 'test', force: true },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'web' }, data: { c: '4' } },
    signal,
  );
  assert.equal(applied.data?.['c'], '4');
  const deleted = await client.delete(configMaps, inShop('web'), { preconditions: { uid: made.metadata.uid } }, signal);
  assert.equal(deleted['status'], 'Success');
  await assert.rejects(client.get(configMaps, inShop('web'), signal), {
    name: 'NotFoundError',
    reason: 'NotFound',
    code: 404,
    message: 'configmaps "web" not found',
  });
});

test('every refusal has its own class and the words of the server', async (t) => {
  const client = (await runningApiServer(t)).client();
  const create = (name: string): Promise<unknown> =>
    client.create(configMaps, { namespace: 'default' }, { metadata: { name } }, signal);
  await create('web');
  await assert.rejects(create('web'), AlreadyExistsError);
  const invalid = await create('Not_A_Name').catch((error: unknown) => error);
  assert.ok(invalid instanceof InvalidError);
  assert.deepEqual(
    invalid.causes.map(({ field, reason }) => [field, reason]),
    [['metadata.name', 'FieldValueInvalid']],
  );
  const stale = { metadata: { name: 'web', resourceVersion: '1' } };
  await assert.rejects(client.update(configMaps, inShop('web'), stale, signal), ConflictError);
  await assert.rejects(client.get({ ...configMaps, plural: 'nothings' }, inShop('web'), signal), NotFoundError);
});

test('groups, cluster-wide kinds and subresources have their own paths', async (t) => {
  const client = (await runningApiServer(t)).client();
  const all = await client.list(namespaces, {}, signal);
  assert.ok(all.items.some(({ metadata }) => metadata.name === 'kube-system'));
  assert.equal(all.items[0]?.kind, 'Namespace', 'items are told what they are');
  await client.create(leases, { namespace: 'kube-node-lease' }, { metadata: { name: 'n' }, spec: {} }, signal);
  assert.equal((await client.get(leases, { namespace: 'kube-node-lease', name: 'n' }, signal)).metadata.name, 'n');
  await client.create(nodes, {}, { metadata: { name: 'n' } }, signal);
  const patch = { status: { phase: 'Running' } };
  const place = { name: 'n', subresource: 'status', type: 'strategic' } as const;
  assert.equal((await client.patch(nodes, place, patch, signal)).kind, 'Node');
  const token = await client.create(
    { ...serviceAccounts, kind: 'TokenRequest' },
    { namespace: 'default', name: 'default', subresource: 'token' },
    { spec: { audiences: [] } },
    signal,
  );
  assert.match(JSON.stringify(token), /"token":"ey/);
  assert.equal((await client.read('/version', {}, signal))['minor'], '34');
});

test('a list comes in pages', async (t) => {
  const client = (await runningApiServer(t)).client();
  for (const name of ['a', 'b', 'c']) {
    await client.create(configMaps, { namespace: 'default' }, { metadata: { name, labels: { app: 'x' } } }, signal);
  }
  const first = await client.list(configMaps, { namespace: 'default', limit: 2, labelSelector: 'app=x' }, signal);
  assert.deepEqual(
    first.items.map(({ metadata }) => metadata.name),
    ['a', 'b'],
  );
  const query = { namespace: 'default', limit: 2, labelSelector: 'app=x', continue: first.continueToken };
  const second = await client.list(configMaps, query, signal);
  assert.deepEqual(
    second.items.map(({ metadata }) => metadata.name),
    ['c'],
  );
  assert.equal(second.continueToken, '');
  assert.equal(second.resourceVersion, first.resourceVersion);
});

test('a watch tells what happens, until the loop is left', async (t) => {
  const client = (await runningApiServer(t)).client();
  const { resourceVersion } = await client.list(configMaps, { namespace: 'default' }, signal);
  const query = { namespace: 'default', resourceVersion, timeoutSeconds: 300 };
  const watch = await client.watch(configMaps, query, signal);
  await client.create(configMaps, { namespace: 'default' }, { metadata: { name: 'web' } }, signal);
  await client.delete(configMaps, inShop('web'), undefined, signal);
  const seen: string[] = [];
  for await (const { type, object } of watch) {
    seen.push(`${type} ${String(object['kind'])}`);
    if (type === 'DELETED') break;
  }
  assert.deepEqual(seen, ['ADDED ConfigMap', 'DELETED ConfigMap']);
});

test('a watch ends with the reason of its signal', async (t) => {
  const client = (await runningApiServer(t)).client();
  const stop = new AbortController();
  const watch = await client.watch(configMaps, { namespace: 'default' }, stop.signal);
  const next = (async () => {
    for await (const event of watch) void event;
  })();
  stop.abort(new Error('enough'));
  await assert.rejects(next, { message: 'enough' });
});

for (const name of ['', '.', '..', 'a/b', 'a%2fb']) {
  test(`the name ${JSON.stringify(name)} is never put into a path`, async (t) => {
    const client = (await runningApiServer(t)).client();
    await assert.rejects(client.get(configMaps, inShop(name), signal), { reason: 'InvalidPlace' });
  });
}
