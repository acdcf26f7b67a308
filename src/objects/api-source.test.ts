/** Answers that the real server does not give: see api-objects.test.ts for those that it does. */
import { ApiObjectSource } from './api-objects.ts';
import { managedConfigMaps } from './object-manager.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OperatingError } from '../base/errors.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { ForbiddenError, NotFoundError } from '../client/api/api-errors.ts';
import type { ReflectorNotice } from '../client/reflector.ts';
import type { ConfigMapReader } from '../plugins/configmap.ts';
import type { TokenSource } from '../plugins/projected.ts';
import type { SecretReader } from '../plugins/secret.ts';
import { FakeClock, ObservedClock, settle } from '../testing/fakes/fake-clock.ts';
import { FakeObjectManager } from '../testing/fakes/scripted-object-source.ts';
import { listOf, scriptedApiServer, versionedConfigMap } from '../testing/servers/scripted-api-server.ts';
import { ApiTokenRequester, TokenManager } from './tokens.ts';

const { signal } = new AbortController();
const id = { namespace: 'shop', name: 'a' };

/** A client with just these methods. */
function clientWith(methods: Partial<Record<keyof ApiClient, unknown>>): ApiClient {
  return methods as unknown as ApiClient;
}

function sourceOf(
  methods: Partial<Record<keyof ApiClient, unknown>>,
  notify: (notice: ReflectorNotice) => void = () => {},
) {
  const client = clientWith(methods);
  return new ApiObjectSource(managedConfigMaps.resource, { client, clock: new FakeClock(), random: () => 0, notify });
}

for (const metadata of [{ name: 'a', namespace: 'bank' }, { name: 'b', namespace: 'shop' }, { name: 'a' }]) {
  test(`an answer with the object ${metadata.namespace ?? ''}/${metadata.name} is refused where shop/a was asked for`, async () => {
    const source = sourceOf({ get: () => Promise.resolve({ metadata, data: { key: 'not yours' } }) });
    await assert.rejects(source.get(id, { mayBeCached: false }, signal), (error: Error) => {
      assert.ok(error instanceof OperatingError && error.reason === 'WrongObject');
      return !error.message.includes('not yours');
    });
  });
}

test('only a read that may be cached says so', async () => {
  const places: unknown[] = [];
  const get = (_: unknown, place: unknown): Promise<unknown> => {
    places.push(place);
    return Promise.resolve({ metadata: id });
  };
  const source = sourceOf({ get });
  await source.get(id, { mayBeCached: false }, signal);
  await source.get(id, { mayBeCached: true }, signal);
  assert.deepEqual(places, [id, { ...id, resourceVersion: '0' }]);
});

test('a watch asks for one object by its name, no older than was seen, and reports a refusal', async () => {
  const queries: Record<string, unknown>[] = [];
  const refusal = new ForbiddenError({ message: 'configmaps is forbidden', reason: 'Forbidden', code: 403 });
  const refuse = (_: unknown, query: Record<string, unknown>): Promise<never> => {
    queries.push(query);
    return Promise.reject(refusal);
  };
  const stop = new AbortController();
  const heard: unknown[] = [];
  const source = sourceOf({ list: refuse, watch: refuse });
  const options = { notBefore: '7', interrupted: (error: unknown) => void heard.push(error) };
  const scope = { namespace: 'shop', name: String.raw`a,b=c\d` };
  const events = source.watch(scope, options, stop.signal)[Symbol.asyncIterator]();
  const first = events.next();
  await settle();
  stop.abort();
  await first;
  assert.match((heard[0] as Error).message, /configmaps is forbidden/);
  for (const query of queries) {
    assert.equal(query['namespace'], 'shop');
    assert.equal(query['fieldSelector'], String.raw`metadata.name=a\,b\=c\\d`);
    assert.equal(query['resourceVersion'], '7');
  }
  const { timeoutSeconds } = queries.find((query) => query['timeoutSeconds'] !== undefined) ?? {};
  assert.equal(timeoutSeconds, 1_800);
});

const notFound = new NotFoundError({ message: 'the server could not find the requested resource', code: 404 });
const body = { metadata: { name: 'clerk' }, spec: { audiences: [] } };
for (const { it, read, message } of [
  {
    it: 'a server without tokens is distinguished from a missing account',
    read: () => Promise.resolve({ resources: [{ name: 'pods' }, null] }),
    message: 'the API server does not have TokenRequest endpoints enabled',
  },
  {
    it: 'a missing account is distinguished from a server without tokens',
    read: () => Promise.resolve({ resources: [{ name: 'serviceaccounts/token' }] }),
    message: 'the server could not find the requested resource',
  },
  {
    it: 'a server that does not say what it has counts as one without tokens',
    read: () => Promise.reject(new Error('away')),
    message: 'the API server does not have TokenRequest endpoints enabled',
  },
]) {
  test(it, async () => {
    const requester = new ApiTokenRequester(clientWith({ create: () => Promise.reject(notFound), read }));
    await assert.rejects(requester.requestToken({ namespace: 'shop', name: 'clerk' }, body, signal), { message });
  });
}

test('the plugins can be given all of this', () => {
  const configMaps: ConfigMapReader = new FakeObjectManager<ConfigMap>();
  const secrets: SecretReader = new FakeObjectManager<Secret>();
  const deps = { requester: undefined, clock: new FakeClock(), random: () => 0, notify: () => {} };
  const tokens: TokenSource = new TokenManager(deps);
  assert.ok([configMaps, secrets, tokens].every((part) => typeof part.get === 'function'));
});

test('a server that ignores the question for initial events is waited for once, not once for each object', async (t) => {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const { client } = server.client();
  const deps = { client, clock, random: () => 0, notify: () => {} };
  const source = new ApiObjectSource(managedConfigMaps.resource, deps);
  const stop = new AbortController();
  t.after(() => stop.abort());
  const options = { notBefore: undefined, interrupted: () => {} };
  const first = (name: string): Promise<unknown> =>
    source.watch({ namespace: 'shop', name }, options, stop.signal)[Symbol.asyncIterator]().next();
  const one = first('a');
  const stream = await server.next();
  assert.equal(stream.query['sendInitialEvents'], 'true');
  stream.begin();
  assert.equal(await clock.nextSleep(), 10_000);
  await clock.advance(10_000);
  (await server.next()).answer(200, listOf('7', versionedConfigMap('a', '5')));
  await one;
  const two = first('b');
  const list = await server.next();
  assert.equal(list.query['watch'], undefined);
  list.answer(200, listOf('7', versionedConfigMap('b', '6')));
  await two;
});
