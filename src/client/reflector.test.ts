/** Every rule of the reflector, over real connections to a server that follows a script. Time is fake: a sleep is seen and skipped. */
import { ClientError } from './transport/transport.ts';
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type FakeClock, ObservedClock } from '../testing/fakes/fake-clock.ts';
import {
  type ScriptedApiServer,
  type ScriptedRequest,
  aStatus,
  bookmark,
  listOf,
  scriptedApiServer,
  versionedConfigMap,
} from '../testing/servers/scripted-api-server.ts';
import { type ApiObject, configMaps } from './api/resource-reference.ts';
import { type Reflection, type ReflectorNotice, reflect } from './reflector.ts';

interface Scene {
  readonly server: ScriptedApiServer;
  readonly clock: ObservedClock;
  /** Of the requests, which have limits of their own. */
  readonly requestClock: FakeClock;
  readonly notices: ReflectorNotice[];
  readonly stop: AbortController;
  /** The next thing the reflector reports: `replaced 7: web`, `changed web@8`, `deleted web`, or `end`. */
  told(): Promise<string>;
  /** Waits for a back-off, checks its base, and skips it. */
  backsOff(baseMs: number): Promise<void>;
}

interface SceneSettings {
  readonly streamsInitialEvents?: boolean;
  readonly watchTimeoutSecondsMin?: number;
  readonly random?: () => number;
  readonly namespace?: string;
  readonly fieldSelector?: string;
}

/** Classic list and watch unless a test asks for the stream. */
async function scene(t: TestContext, settings: SceneSettings = {}): Promise<Scene> {
  const server = await scriptedApiServer(t);
  const clock = new ObservedClock();
  const notices: ReflectorNotice[] = [];
  const stop = new AbortController();
  const { random = () => 0, streamsInitialEvents = false, ...rest } = settings;
  const { client, clock: requestClock } = server.client({ pool: { pingAfterMs: Infinity } });
  const notify = (notice: ReflectorNotice): void => void notices.push(notice);
  const deps = { client, clock, random, notify, initialEvents: { isMissing: !streamsInitialEvents } };
  const target = {
    resource: configMaps,
    namespace: 'shop',
    ...rest,
  };
  const reflections = reflect(deps, target, stop.signal);
  t.after(() => stop.abort());
  return {
    server,
    clock,
    requestClock,
    notices,
    stop,
    async told() {
      const { done, value } = await reflections.next();
      return done === true ? 'end' : show(value);
    },
    async backsOff(baseMs) {
      assert.equal(await clock.nextSleep(), baseMs);
      await clock.advance(baseMs);
    },
  };
}

function show(reflection: Reflection<ApiObject>): string {
  if (reflection.kind !== 'replaced')
    return `${reflection.kind} ${reflection.object.metadata.name}@${reflection.object.metadata.resourceVersion}`;
  const names = reflection.objects.map(({ metadata }) => metadata.name);
  return `replaced ${reflection.resourceVersion}: ${names.join(' ')}`;
}

const web = (version: string): object => versionedConfigMap('web', version);

/** Brings a reflector to where it watches from version 7; `next` is what it reports first. */
async function watching(s: Scene): Promise<{ watch: ScriptedRequest; next: Promise<string> }> {
  const first = s.told();
  (await s.server.next()).answer(200, listOf('7', web('5')));
  assert.equal(await first, 'replaced 7: web');
  const next = s.told();
  return { watch: await s.server.next(), next };
}

test('lists everything, then reports each change', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('ADDED', versionedConfigMap('db', '8'));
  assert.equal(await next, 'changed db@8');
  watch.event('MODIFIED', web('9'));
  assert.equal(await s.told(), 'changed web@9');
  watch.event('DELETED', versionedConfigMap('db', '10'));
  assert.equal(await s.told(), 'deleted db@10');
});

test('lists at version 0, then at the last, and at none after 410; success clears the mark', async (t) => {
  const s = await scene(t);
  const first = s.told();
  const list = await s.server.next();
  assert.equal(list.query['resourceVersion'], '0');
  assert.equal(list.path, '/api/v1/namespaces/shop/configmaps');
  list.answer(200, listOf('7', web('5')));
  await first;
  let next = s.told();
  (await s.server.next()).refuse(500, 'InternalError');
  await s.backsOff(800);
  const relist = await s.server.next();
  assert.equal(relist.query['resourceVersion'], '7');
  relist.refuse(410, 'Expired');
  const empty = await s.server.next();
  assert.equal(empty.query['resourceVersion'], undefined, 'at once, without a version');
  empty.answer(200, listOf('20'));
  assert.equal(await next, 'replaced 20: ');
  next = s.told();
  (await s.server.next()).refuse(500, 'InternalError');
  await s.backsOff(1600);
  const third = await s.server.next();
  assert.equal(third.query['resourceVersion'], '20', 'the mark is gone');
  third.answer(200, listOf('21'));
  assert.equal(await next, 'replaced 21: ');
});

for (const reason of ['Expired', 'Gone']) {
  test(`a list refused as ${reason} is repeated at no version`, async (t) => {
    const s = await scene(t);
    const told = s.told();
    (await s.server.next()).refuse(410, reason);
    const again = await s.server.next();
    assert.equal(again.query['resourceVersion'], undefined);
    again.answer(200, listOf('3'));
    assert.equal(await told, 'replaced 3: ');
  });
}

const tooLarge = 'Too large resource version';
const tooLargeStatuses = [
  { it: 'by its cause', message: 'x', details: { causes: [{ reason: 'ResourceVersionTooLarge' }] } },
  { it: 'by the message of its cause', message: 'x', details: { causes: [{ message: tooLarge }] } },
  { it: 'by its message', message: `Timeout: ${tooLarge}: 99, current: 5`, details: {} },
];
for (const { it, message, details } of tooLargeStatuses) {
  test(`a version the server has not seen, reported ${it}, is given up`, async (t) => {
    const s = await scene(t);
    const told = s.told();
    (await s.server.next()).refuse(504, 'Timeout', message, { details });
    const again = await s.server.next();
    assert.equal(again.query['resourceVersion'], undefined);
    again.answer(200, listOf('3'));
    assert.equal(await told, 'replaced 3: ');
  });
}

test('any other failure to list is reported in the words of the kubelet, and retried after a wait', async (t) => {
  const s = await scene(t);
  const told = s.told();
  (await s.server.next()).refuse(403, 'Forbidden', 'configmaps is forbidden: no');
  await s.backsOff(800);
  (await s.server.next()).answer(200, listOf('3'));
  assert.equal(await told, 'replaced 3: ');
  const [notice] = s.notices;
  assert.ok(notice?.kind === 'WatchFailed' && notice.error instanceof ClientError && !notice.isExpected);
  assert.equal(notice.error.reason, 'ListFailed');
  assert.equal(notice.error.message, 'failed to list *v1.ConfigMap: configmaps is forbidden: no');
});

test('a table is not a list', async (t) => {
  const s = await scene(t);
  const told = s.told();
  (await s.server.next()).answer(200, { kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata: {}, rows: [] });
  await s.backsOff(800);
  (await s.server.next()).answer(200, listOf('3'));
  await told;
  const [notice] = s.notices;
  assert.ok(notice?.kind === 'WatchFailed');
  assert.match(String(notice.error), /unsupported list gvk: meta\.k8s\.io\/v1, Kind=Table/);
});

const page = (continueToken: string, ...names: string[]): object => ({
  kind: 'ConfigMapList',
  metadata: { resourceVersion: '7', continue: continueToken },
  items: names.map((name) => ({ metadata: { name, namespace: 'shop', resourceVersion: '1' } })),
});

test('version 0 asks for pages; a server that gives them is asked for pages again', async (t) => {
  const s = await scene(t);
  let told = s.told();
  const first = await s.server.next();
  assert.deepEqual(first.query, { resourceVersion: '0', limit: '500' });
  first.answer(200, page('c1', 'a', 'b'));
  const second = await s.server.next();
  assert.deepEqual(second.query, { limit: '500', continue: 'c1' }, 'a later page names no version');
  second.answer(200, page('', 'c'));
  assert.equal(await told, 'replaced 7: a b c');
  told = s.told();
  (await s.server.next()).refuse(500, 'InternalError');
  await s.backsOff(800);
  const relist = await s.server.next();
  assert.deepEqual(relist.query, { resourceVersion: '7', limit: '500' });
  relist.answer(200, page('', 'a'));
  assert.equal(await told, 'replaced 7: a');
});

test('a relist at a version asks for everything at once', async (t) => {
  const s = await scene(t);
  const { watch } = await watching(s);
  watch.refuse(500, 'InternalError');
  await s.backsOff(800);
  assert.deepEqual((await s.server.next()).query, { resourceVersion: '7' });
});

test('when a later page has expired, everything is listed at once at the version first asked for', async (t) => {
  const s = await scene(t);
  const told = s.told();
  (await s.server.next()).answer(200, page('c1', 'a'));
  (await s.server.next()).refuse(410, 'Expired');
  const whole = await s.server.next();
  assert.deepEqual(whole.query, { resourceVersion: '0' });
  whole.answer(200, listOf('9', web('8')));
  assert.equal(await told, 'replaced 9: web');
});

const timeouts = [
  { min: 300, random: 0, seconds: '300' },
  { min: 300, random: 0.999, seconds: '599' },
  { min: 10, random: 0, seconds: '300' },
  { min: 1800, random: 0, seconds: '1800' },
  { min: 1800, random: 0.5, seconds: '2700' },
];
for (const { min, random, seconds } of timeouts) {
  test(`a minimum of ${min} s with chance ${random} watches for ${seconds} s`, async (t) => {
    const s = await scene(t, { watchTimeoutSecondsMin: min, random: () => random, fieldSelector: 'metadata.name=web' });
    const { watch } = await watching(s);
    assert.deepEqual(watch.query, {
      watch: 'true',
      resourceVersion: '7',
      allowWatchBookmarks: 'true',
      timeoutSeconds: seconds,
      fieldSelector: 'metadata.name=web',
    });
  });
}

test('bookmarks move the version and nothing else; a closed watch goes on there at once', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('BOOKMARK', bookmark('50'));
  watch.end();
  const again = await s.server.next();
  assert.equal(again.query['resourceVersion'], '50');
  assert.equal(again.query['watch'], 'true');
  again.event('MODIFIED', web('51'));
  assert.equal(await next, 'changed web@51');
  assert.deepEqual(s.notices, []);
});

test('foreign objects and tables are skipped and move no version; unknown types are skipped and do', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('ADDED', { kind: 'Secret', apiVersion: 'v1', metadata: { name: 'x', resourceVersion: '90' } });
  watch.event('ADDED', { kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata: { resourceVersion: '91' } });
  watch.event('ADDED', { kind: 'ConfigMap', apiVersion: 'v1' });
  watch.event('RENAMED', web('60'));
  watch.end();
  const again = await s.server.next();
  assert.equal(again.query['resourceVersion'], '60');
  assert.equal(s.notices.filter(({ kind }) => kind === 'WatchEventSkipped').length, 4);
  again.event('MODIFIED', web('61'));
  assert.equal(await next, 'changed web@61');
});

test('versions of a watch that began at none count only after something else than ADDED', async (t) => {
  const s = await scene(t);
  const first = s.told();
  (await s.server.next()).answer(200, listOf('0'));
  await first;
  let next = s.told();
  const watch = await s.server.next();
  assert.equal(watch.query['resourceVersion'], '0');
  watch.event('ADDED', versionedConfigMap('late', '40'));
  watch.event('ADDED', versionedConfigMap('early', '30'));
  assert.equal(await next, 'changed late@40');
  assert.equal(await s.told(), 'changed early@30');
  next = s.told();
  watch.end();
  const again = await s.server.next();
  assert.equal(again.query['resourceVersion'], '0', 'nothing was recorded');
  again.event('ADDED', versionedConfigMap('late', '40'));
  assert.equal(await next, 'changed late@40');
  next = s.told();
  again.event('BOOKMARK', bookmark('41'));
  again.end();
  assert.equal((await s.server.next()).query['resourceVersion'], '41');
});

test('a watch that closes at once and empty is an error; it is relisted after a wait', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.end();
  await s.backsOff(800);
  const [notice] = s.notices;
  assert.ok(notice?.kind === 'WatchFailed' && notice.error instanceof ClientError);
  assert.equal(notice.error.reason, 'VeryShortWatch');
  assert.equal(
    notice.error.message,
    'very short watch: *v1.ConfigMap: Unexpected watch close - watch lasted less than a second and no items received',
  );
  const relist = await s.server.next();
  assert.deepEqual(relist.query, { resourceVersion: '7' });
  relist.answer(200, listOf('8'));
  assert.equal(await next, 'replaced 8: ');
});

test('an empty watch that lasted a second is not an error', async (t) => {
  const s = await scene(t);
  const { watch } = await watching(s);
  watch.begin();
  await s.clock.advance(1_000);
  watch.end();
  const again = await s.server.next();
  assert.equal(again.query['watch'], 'true');
  assert.deepEqual(s.notices, []);
});

for (const reason of ['Expired', 'Gone']) {
  test(`an ERROR event ${reason} is relisted at the last version first, and reported as expected`, async (t) => {
    const s = await scene(t);
    const { watch, next } = await watching(s);
    watch.event('MODIFIED', web('9'));
    assert.equal(await next, 'changed web@9');
    const then = s.told();
    watch.event('ERROR', aStatus(410, reason, 'too old resource version: 9 (1000)'));
    watch.end();
    await s.backsOff(800);
    const relist = await s.server.next();
    assert.deepEqual(relist.query, { resourceVersion: '9' });
    relist.answer(200, listOf('1001', web('1000')));
    assert.equal(await then, 'replaced 1001: web');
    assert.deepEqual(
      s.notices.map((notice) => notice.kind === 'WatchFailed' && notice.isExpected),
      [true],
    );
  });
}

test('an ERROR event 429 waits and watches again without a list', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('ERROR', aStatus(429, 'TooManyRequests'));
  await s.backsOff(800);
  const again = await s.server.next();
  assert.equal(again.query['watch'], 'true');
  assert.equal(again.query['resourceVersion'], '7');
  again.event('MODIFIED', web('8'));
  assert.equal(await next, 'changed web@8');
});

test('a watch refused by 429 waits as long as the server asks, and is not relisted', async (t) => {
  const s = await scene(t);
  const { watch } = await watching(s);
  watch.refuse(429, 'TooManyRequests', 'slow down', {}, { 'retry-after': '5' });
  await s.backsOff(5_000);
  assert.deepEqual((await s.server.next()).query['resourceVersion'], '7');
});

test('while no server listens the watch is retried, and nothing is listed', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('MODIFIED', web('8'));
  assert.equal(await next, 'changed web@8');
  const then = s.told();
  await s.server.stop();
  await s.backsOff(800);
  await s.backsOff(1600);
  assert.equal(await s.clock.nextSleep(), 3200);
  await s.server.start();
  await s.clock.advance(3200);
  const again = await s.server.next();
  assert.equal(again.query['watch'], 'true');
  assert.equal(again.query['resourceVersion'], '8');
  again.event('MODIFIED', web('9'));
  assert.equal(await then, 'changed web@9');
  assert.ok(s.notices.every((notice) => notice.kind === 'WatchFailed' && notice.isExpected));
});

test('an internal error ends the attempt', async (t) => {
  const s = await scene(t);
  const { watch } = await watching(s);
  watch.event('ERROR', aStatus(500, 'InternalError'));
  await s.backsOff(800);
  assert.equal((await s.server.next()).query['watch'], undefined);
});

test('waits are 0.8 s doubling to 30 s, spread to twice that, and start again after two minutes', async (t) => {
  const s = await scene(t, { random: () => 0.5 });
  void s.told();
  const waits: number[] = [];
  for (let attempt = 0; attempt < 9; attempt++) {
    (await s.server.next()).refuse(403, 'Forbidden');
    const ms = await s.clock.nextSleep();
    waits.push(ms);
    await s.clock.advance(ms);
  }
  // 1.2 + 2.4 + 4.8 + 9.6 + 19.2 + 38.4 + 45 s is more than two minutes.
  assert.deepEqual(waits, [1200, 2400, 4800, 9600, 19200, 38400, 45000, 1200, 2400]);
});

test('waits start again after a watch that went well for ten seconds, and not after a short one', async (t) => {
  const s = await scene(t, { random: () => 0.5 });
  let told = s.told();
  const waits: number[] = [];
  for (const watchMs of [100, 100, 100, 10_000, 100]) {
    (await s.server.next()).answer(200, listOf('7'));
    await told;
    told = s.told();
    const watch = await s.server.next();
    watch.event('ADDED', versionedConfigMap('web', '8'));
    await told;
    told = s.told();
    await s.clock.advance(watchMs);
    watch.event('ERROR', aStatus(500, 'InternalError'));
    const ms = await s.clock.nextSleep();
    waits.push(ms);
    await s.clock.advance(ms);
  }
  assert.deepEqual(waits, [1200, 2400, 4800, 1200, 2400]);
});

const stages = ['before it began', 'in a list', 'in a wait', 'in a watch', 'when a watch is opened'] as const;
for (const stage of stages) {
  test(`stopping ${stage} ends it`, async (t) => {
    const s = await scene(t);
    if (stage === 'before it began') {
      s.stop.abort();
      assert.equal(await s.told(), 'end');
      return assert.equal(s.server.unread, 0);
    }
    let told = s.told();
    const list = await s.server.next();
    if (stage === 'in a wait') {
      list.refuse(403, 'Forbidden');
      await s.clock.nextSleep();
    } else if (stage !== 'in a list') {
      list.answer(200, listOf('7'));
      await told;
      told = s.told();
      const watch = await s.server.next();
      if (stage === 'in a watch') watch.begin();
    }
    s.stop.abort();
    assert.equal(await told, 'end');
  });
}

test('leaving the loop ends the watch on the server', async (t) => {
  const s = await scene(t);
  const { watch, next } = await watching(s);
  watch.event('MODIFIED', web('8'));
  await next;
  const closed = watch.closed();
  s.stop.abort();
  await s.told();
  await closed;
});

const streamed = (t: TestContext): Promise<Scene> => scene(t, { streamsInitialEvents: true });

test('the stream asks for initial events at no version, and becomes the watch', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  assert.deepEqual(stream.query, {
    watch: 'true',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
    allowWatchBookmarks: 'true',
    timeoutSeconds: '300',
  });
  stream.event('ADDED', web('5'));
  stream.event('BOOKMARK', bookmark('7', true));
  stream.event('MODIFIED', web('8'));
  assert.equal(await told, 'replaced 7: web');
  assert.equal(await s.told(), 'changed web@8');
  assert.equal(s.server.unread, 0, 'one request did it all');
});

test('a single end bookmark suffices when there are no objects', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  (await s.server.next()).event('BOOKMARK', bookmark('7', true));
  assert.equal(await told, 'replaced 7: ');
});

test('only a bookmark with the annotation "true" ends the initial events', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.event('ADDED', web('5'));
  stream.event('BOOKMARK', bookmark('6'));
  stream.event('BOOKMARK', bookmark('7', 'yes'));
  stream.event('ADDED', versionedConfigMap('db', '4'));
  stream.event('BOOKMARK', bookmark('8', true));
  assert.equal(await told, 'replaced 8: web db');
});

test('changes and deletions among the initial events count', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.event('ADDED', web('5'));
  stream.event('ADDED', versionedConfigMap('db', '4'));
  stream.event('DELETED', versionedConfigMap('db', '6'));
  stream.event('MODIFIED', web('7'));
  stream.event('BOOKMARK', bookmark('8', true));
  assert.equal(await told, 'replaced 8: web');
});

test('a stream that ends early is begun again from nothing, without a list', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.event('ADDED', versionedConfigMap('gone', '5'));
  stream.end();
  const again = await s.server.next();
  assert.equal(again.query['sendInitialEvents'], 'true');
  again.event('ADDED', web('6'));
  again.event('BOOKMARK', bookmark('7', true));
  assert.equal(await told, 'replaced 7: web');
});

test('a server whose streams always end early is not asked in a tight loop', async (t) => {
  const s = await streamed(t);
  void s.told();
  for (let attempt = 0; attempt < 2; attempt++) {
    const stream = await s.server.next();
    stream.event('ADDED', web('5'));
    stream.end();
  }
  assert.equal(await s.clock.nextSleep(), 10_000, 'the guard of the first stream');
  assert.equal(await s.clock.nextSleep(), 10_000, 'the guard of the second');
  assert.equal(await s.clock.nextSleep(), 800);
});

test('a stream that ends after its initial events goes on as a plain watch', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.event('BOOKMARK', bookmark('7', true));
  stream.event('MODIFIED', web('8'));
  stream.end();
  await told;
  assert.equal(await s.told(), 'changed web@8');
  const next = s.told();
  const again = await s.server.next();
  assert.equal(again.query['sendInitialEvents'], undefined);
  assert.equal(again.query['resourceVersion'], '8');
  again.event('MODIFIED', web('9'));
  assert.equal(await next, 'changed web@9');
});

test('a server that refuses initial events is listed', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  (await s.server.next()).refuse(422, 'Invalid', 'sendInitialEvents is forbidden');
  const list = await s.server.next();
  assert.deepEqual(list.query, { resourceVersion: '0', limit: '500' });
  list.answer(200, listOf('7', web('5')));
  assert.equal(await told, 'replaced 7: web');
  const next = s.told();
  const watch = await s.server.next();
  assert.equal(watch.query['sendInitialEvents'], undefined);
  watch.event('MODIFIED', web('8'));
  assert.equal(await next, 'changed web@8');
});

test('initial events refused by 429 are waited for', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  (await s.server.next()).refuse(429, 'TooManyRequests');
  await s.backsOff(800);
  const again = await s.server.next();
  assert.equal(again.query['sendInitialEvents'], 'true');
  again.event('BOOKMARK', bookmark('7', true));
  assert.equal(await told, 'replaced 7: ');
});

test('a relist streams at the last version; when that has expired, at none, and once more only after a wait', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.event('BOOKMARK', bookmark('7', true));
  await told;
  assert.equal(await s.clock.nextSleep(), 10_000, 'the guard of the stream');
  const next = s.told();
  stream.event('ERROR', aStatus(410, 'Expired'));
  await s.backsOff(800);
  const second = await s.server.next();
  assert.equal(second.query['resourceVersion'], '7');
  second.refuse(410, 'Expired');
  const third = await s.server.next();
  assert.equal(third.query['resourceVersion'], undefined);
  third.refuse(410, 'Expired');
  await s.backsOff(1600);
  const fourth = await s.server.next();
  fourth.event('BOOKMARK', bookmark('9', true));
  assert.equal(await next, 'replaced 9: ');
});

test('a server that ignores the question for initial events is listed after ten silent seconds', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const stream = await s.server.next();
  stream.begin();
  assert.equal(await s.clock.nextSleep(), 10_000);
  const closed = stream.closed();
  await s.clock.advance(10_000);
  const list = await s.server.next();
  assert.equal(list.query['watch'], undefined);
  list.answer(200, listOf('7', web('5')));
  assert.equal(await told, 'replaced 7: web');
  await closed;
  const [notice] = s.notices;
  assert.ok(notice?.kind === 'InitialEventsUnavailable');
  assert.equal(
    (notice.error as Error).message,
    '*v1.ConfigMap: awaiting required bookmark event for initial events stream, no events received for 10s',
  );
  const next = s.told();
  (await s.server.next()).refuse(500, 'InternalError');
  await s.backsOff(800);
  const relist = await s.server.next();
  assert.equal(relist.query['sendInitialEvents'], undefined, 'and it is not asked again');
  relist.answer(200, listOf('8'));
  assert.equal(await next, 'replaced 8: ');
});

test('a server that does not even begin to answer the question for initial events is listed after a minute', async (t) => {
  const s = await streamed(t);
  const told = s.told();
  const closed = (await s.server.next()).closed();
  await s.requestClock.advance(70_000);
  await closed;
  const list = await s.server.next();
  assert.equal(list.query['watch'], undefined);
  list.answer(200, listOf('7', web('5')));
  assert.equal(await told, 'replaced 7: web');
  const [notice] = s.notices;
  assert.ok(notice?.kind === 'InitialEventsUnavailable');
  assert.match(
    (notice.error as Error).message,
    /^Heard nothing for \d+ s in "watch configmaps": the watch was given up$/,
  );
});
