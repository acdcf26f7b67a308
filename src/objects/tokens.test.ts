import { type ObjectNotice } from './object-manager.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OperatingError } from '../base/errors.ts';
import type { TokenRequest } from '../kube/kinds/service-account.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { type ServiceAccountTokenRequest, TokenManager, type TokenRequester, tokenRequestKey } from './tokens.ts';

const secondMs = 1_000;
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const request: ServiceAccountTokenRequest = {
  namespace: 'shop',
  serviceAccountName: 'clerk',
  audiences: ['vault'],
  expirationSeconds: 3600,
  pod: { name: 'web', uid: 'u1' },
};
const key =
  '"clerk"/"shop"/[]string{"vault"}/3600/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"web", UID:"u1"}/""';

/** A server that numbers its tokens. `answer` may change what it says. */
class Server implements TokenRequester {
  readonly asked: { readonly account: object; readonly body: TokenRequest }[] = [];
  failure: Error | undefined;
  answer: (honest: TokenRequest) => TokenRequest = (honest) => honest;
  hold: Promise<void> = Promise.resolve();
  concurrent = 0;
  concurrentMax = 0;
  readonly #clock: FakeClock;

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  async requestToken(account: object, body: TokenRequest): Promise<TokenRequest> {
    this.asked.push({ account, body });
    this.concurrent += 1;
    this.concurrentMax = Math.max(this.concurrent, this.concurrentMax);
    await this.hold;
    this.concurrent -= 1;
    if (this.failure !== undefined) throw this.failure;
    const expirationTimestamp = new Date(
      this.#clock.now() + (body.spec.expirationSeconds ?? 3600) * secondMs,
    ).toISOString();
    return this.answer({ ...body, status: { token: `token-${this.asked.length}`, expirationTimestamp } });
  }
}

function world({ random = (): number => 0 } = {}) {
  const clock = new FakeClock();
  const server = new Server(clock);
  const notices: ObjectNotice[] = [];
  const notify = (notice: ObjectNotice): void => void notices.push(notice);
  const manager = new TokenManager({ requester: server, clock, random, notify });
  const get = (other: Partial<ServiceAccountTokenRequest> = {}): Promise<string> =>
    manager.get({ ...request, ...other }, new AbortController().signal);
  return { clock, server, manager, get, notices };
}

test('a token is asked for with its audiences and lifetime, and bound to the pod', async () => {
  const { server, get } = world();
  assert.equal(await get({ serviceAccountUid: 'sa-1' }), 'token-1');
  assert.deepEqual(server.asked, [
    {
      account: { namespace: 'shop', name: 'clerk' },
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        metadata: { name: 'clerk', namespace: 'shop', uid: 'sa-1' },
        spec: {
          audiences: ['vault'],
          expirationSeconds: 3600,
          boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'web', uid: 'u1' },
        },
      },
    },
  ]);
});

const keys: readonly (readonly [string, Partial<ServiceAccountTokenRequest>, boolean])[] = [
  ['nothing', {}, true],
  ['the service account', { serviceAccountName: 'cook' }, false],
  ['the namespace', { namespace: 'bank' }, false],
  ['the audiences', { audiences: [] }, false],
  ['the lifetime', { expirationSeconds: 7200 }, false],
  ['a lifetime left out', { expirationSeconds: undefined }, false],
  ["the pod's uid", { pod: { name: 'web', uid: 'u2' } }, false],
  ["the pod's name", { pod: { name: 'db', uid: 'u1' } }, false],
  ["the service account's uid", { serviceAccountUid: 'sa-2' }, false],
];
for (const [what, other, isSame] of keys) {
  test(`a request that differs in ${what} ${isSame ? 'gets the same token' : 'gets its own'}`, async () => {
    const { server, get } = world();
    await get();
    await get(other);
    assert.equal(server.asked.length, isSame ? 1 : 2);
  });
}

test('the key of a token has the form of the kubelet, which messages show', () => {
  assert.equal(tokenRequestKey(request), key);
  assert.equal(
    tokenRequestKey({ ...request, audiences: [], expirationSeconds: undefined, serviceAccountUid: 'sa' }),
    '"clerk"/"shop"/[]string(nil)/0/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"web", UID:"u1"}/"sa"',
  );
  assert.match(tokenRequestKey({ ...request, audiences: ['a', 'b"'] }), /\[\]string\{"a", "b\\""\}/);
});

interface RefreshCase {
  readonly it: string;
  readonly lifeSeconds: number;
  readonly random?: number;
  readonly dueAfterMs: number;
}
const refreshes: readonly RefreshCase[] = [
  { it: 'after 48 minutes of an hour', lifeSeconds: 3600, dueAfterMs: 48 * minuteMs },
  {
    it: 'up to nine seconds earlier by chance',
    lifeSeconds: 3600,
    random: 0.99,
    dueAfterMs: 48 * minuteMs - 9 * secondMs,
  },
  { it: 'in whole seconds of jitter', lifeSeconds: 3600, random: 0.19, dueAfterMs: 48 * minuteMs - secondMs },
  { it: 'with a fifth in whole seconds', lifeSeconds: 3607, dueAfterMs: (3607 - 721) * secondMs },
  { it: 'after a day, however long it lives', lifeSeconds: 30 * 86_400, dueAfterMs: 24 * hourMs },
];
for (const { it, lifeSeconds, random = 0, dueAfterMs } of refreshes) {
  test(`a token is refreshed ${it}`, async () => {
    const { clock, manager, get } = world({ random: () => random });
    const start = clock.now();
    const read = (): Promise<string> => get({ expirationSeconds: lifeSeconds });
    await read();
    assert.equal(manager.nextRefresh('u1'), start + dueAfterMs);
    await clock.advance(dueAfterMs);
    assert.equal(await read(), 'token-1', 'at the very moment it is not yet due');
    await clock.advance(1);
    assert.equal(await read(), 'token-2');
    assert.equal(await read(), 'token-2');
  });
}

test('the lifetime is what the server says it granted, and without one a token is never refreshed', async () => {
  const { clock, server, manager, get, notices } = world();
  server.answer = ({ spec: { audiences }, ...rest }) => ({ ...rest, spec: { audiences } });
  await get();
  assert.equal(manager.nextRefresh('u1'), undefined);
  assert.deepEqual(notices, [{ kind: 'TokenWithoutLifetime', key }]);
  await clock.advance(59 * minuteMs);
  assert.equal(await get(), 'token-1');
  const other = { audiences: ['other'] };
  server.answer = (honest) => ({ ...honest, spec: { ...honest.spec, expirationSeconds: 7200 } });
  const start = clock.now();
  await get(other);
  assert.equal(manager.nextRefresh('u1'), start + hourMs - 1440 * secondMs);
});

test('the first token that cannot be had fails in the words of the kubelet, and the next read asks again', async () => {
  const { server, get } = world();
  server.failure = new Error('serviceaccounts "clerk" not found');
  await assert.rejects(get(), { message: 'failed to fetch token: serviceaccounts "clerk" not found' });
  server.failure = new OperatingError(
    'TokenRequestsUnsupported',
    'the API server does not have TokenRequest endpoints enabled',
  );
  await assert.rejects(get(), {
    message: 'failed to fetch token: the API server does not have TokenRequest endpoints enabled',
  });
  server.failure = undefined;
  assert.equal(await get(), 'token-3');
});

test('while the server is away the last token serves until it expires, and then its expiry is the error', async () => {
  const { clock, server, get, notices } = world();
  await get();
  server.failure = new Error('connection refused');
  await clock.advance(50 * minuteMs);
  assert.equal(await get(), 'token-1');
  assert.deepEqual(notices, [{ kind: 'TokenRefreshFailed', key, error: server.failure }]);
  await clock.advance(10 * minuteMs);
  assert.equal(await get(), 'token-1', 'valid at the very moment of its expiry');
  await clock.advance(1);
  await assert.rejects(get(), { message: `token ${key} expired and refresh failed: connection refused` });
  server.failure = undefined;
  assert.match(await get(), /^token-\d+$/);
});

test('without an API server there are no tokens', async () => {
  const manager = new TokenManager({ requester: undefined, clock: new FakeClock(), random: () => 0, notify: () => {} });
  await assert.rejects(manager.get(request, new AbortController().signal), {
    message: 'failed to fetch token: cannot use TokenManager when kubelet is in standalone mode',
  });
});

for (const { it, status, message } of [
  { it: 'no status', status: undefined, message: /has no token/ },
  { it: 'no token', status: { token: '', expirationTimestamp: '2026-08-20T19:00:00Z' }, message: /has no token/ },
  { it: 'no time', status: { token: 'x' }, message: /has no time of expiry/ },
  { it: 'a time that is none', status: { token: 'secret', expirationTimestamp: 'soon' }, message: /no time of expiry/ },
]) {
  test(`an answer with ${it} is an error that shows no token`, async () => {
    const { server, get } = world();
    server.answer = ({ spec, metadata }) => ({ metadata, spec, ...(status && { status }) });
    await assert.rejects(get(), (error: Error) => message.test(error.message) && !error.message.includes('secret'));
  });
}

test('expired tokens are dropped every minute', async () => {
  const { clock, server, manager, get } = world();
  const stop = new AbortController();
  const running = manager.run(stop.signal);
  await get({ expirationSeconds: 600 });
  await clock.advance(10 * minuteMs + minuteMs);
  assert.equal(manager.nextRefresh('u1'), undefined);
  server.failure = new Error('away');
  await assert.rejects(get({ expirationSeconds: 600 }), { message: 'failed to fetch token: away' });
  stop.abort();
  await running;
});

test('the tokens of a pod are forgotten with it, also one that is being asked for', async () => {
  const { server, manager, get } = world();
  const other = { pod: { name: 'db', uid: 'u2' } };
  await Promise.all([get(), get({ audiences: [] }), get(other)]);
  let answer = (): void => {};
  server.hold = new Promise((resolve) => (answer = resolve));
  const late = get({ audiences: ['late'] });
  await settle();
  manager.forgetPod('u1');
  answer();
  assert.equal(await late, 'token-4');
  assert.equal(manager.nextRefresh('u1'), undefined);
  assert.equal(await get(other), 'token-3');
  assert.equal(await get(), 'token-5');
});

test('reads of one token at once make one request, and a reader that gives up does not spoil it', async () => {
  const { server, manager, get } = world();
  let answer = (): void => {};
  server.hold = new Promise((resolve) => (answer = resolve));
  const reads = Array.from({ length: 5 }, () => get());
  const impatient = new AbortController();
  const given = manager.get(request, impatient.signal);
  await settle();
  impatient.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  answer();
  assert.deepEqual(new Set(await Promise.all(reads)), new Set(['token-1']));
  assert.equal(server.asked.length, 1);
});

test('readers that wait behind a failed request ask for themselves, and what they get is kept', async () => {
  const { server, manager, get } = world();
  const { answer } = server;
  server.answer = () => {
    server.answer = answer;
    throw new Error('away');
  };
  const first = assert.rejects(get(), /away/);
  const second = get();
  await first;
  assert.equal(await second, 'token-2');
  assert.equal(await get(), 'token-2');
  manager.forgetPod('u1');
});

test('a pod is notified when its token is due, again after a while, and no more once it was refreshed', async () => {
  const { clock, server, manager, get } = world();
  const stop = new AbortController();
  const running = manager.run(stop.signal);
  const told: { readonly uid: string; readonly atMs: number }[] = [];
  const listening = (async () => {
    for await (const uid of manager.due(stop.signal)) told.push({ uid, atMs: clock.now() });
  })();
  const start = clock.now();
  await settle();
  await get();
  await get({ pod: { name: 'db', uid: 'u2' }, expirationSeconds: 7200 });
  server.failure = new Error('away');
  await clock.advance(50 * minuteMs);
  await get();
  assert.deepEqual(
    told.map(({ uid, atMs }) => [uid, atMs - start]),
    [
      ['u1', 48 * minuteMs + 1],
      ['u1', 49 * minuteMs + 2],
    ],
  );
  server.failure = undefined;
  await get();
  told.length = 0;
  await clock.advance(40 * minuteMs);
  assert.deepEqual(told, []);
  stop.abort();
  await Promise.all([running, listening]);
});

test('a pod whose token expired while the server was away is notified until it has a new one', async () => {
  const { clock, server, manager, get } = world();
  const stop = new AbortController();
  const running = manager.run(stop.signal);
  let reads = 0;
  const listening = (async () => {
    for await (const _ of manager.due(stop.signal))
      await get().then(
        () => (reads += 1),
        () => {},
      );
  })();
  await get();
  server.failure = new Error('away');
  await clock.advance(3 * hourMs);
  reads = 0;
  server.failure = undefined;
  await clock.advance(2 * minuteMs);
  assert.equal(reads, 1);
  manager.forgetPod('u1');
  await clock.advance(24 * hourMs);
  assert.equal(reads, 1);
  stop.abort();
  await Promise.all([running, listening]);
});

for (const { it, expirationSeconds, aheadMs } of [
  { it: 'of a node whose clock is ahead by its life', expirationSeconds: 600, aheadMs: 600 * secondMs },
  { it: 'of a life of seconds', expirationSeconds: 5, aheadMs: 0 },
]) {
  test(`a token that is due when issued, ${it}, is reported once in a while, not in an endless loop`, async () => {
    const { clock, server, manager, get } = world({ random: () => 0.99 });
    server.answer = ({ spec, status, ...rest }) => ({
      ...rest,
      spec: { ...spec, expirationSeconds },
      status: {
        token: status?.token ?? '',
        expirationTimestamp: new Date(clock.now() - aheadMs + expirationSeconds * secondMs).toISOString(),
      },
    });
    const stop = new AbortController();
    const running = manager.run(stop.signal);
    // As a volume does: it reads a token again when it is due.
    const listening = (async () => {
      for await (const _ of manager.due(stop.signal)) await get();
    })();
    await get();
    await clock.advance(10 * minuteMs);
    assert.ok(
      server.asked.length >= 6 && server.asked.length <= 11,
      `asked ${server.asked.length} times in 10 minutes`,
    );
    stop.abort();
    await Promise.all([running, listening]);
  });
}

test('after an outage the tokens of all pods are asked for a few at a time', async () => {
  const { server, get } = world();
  let answer = (): void => {};
  server.hold = new Promise((resolve) => (answer = resolve));
  const reads = Array.from({ length: 200 }, (_, index) => get({ pod: { name: 'web', uid: `u${index}` } }));
  await settle();
  answer();
  await Promise.all(reads);
  assert.equal(server.concurrentMax, 16);
});
