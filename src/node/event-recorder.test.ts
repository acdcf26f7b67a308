import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ApiClient } from '../client/api/api-client.ts';
import { events as eventResource, namespaces, withShape } from '../client/api/resource-reference.ts';
import { type Event, eventShape } from '../kube/kinds/event.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { ObservedClock, settle } from '../testing/fakes/fake-clock.ts';
import { type RunningApiServer, nodeIdentity, runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import { type EventNotice, EventRecorder, type NewEvent, nodeEventObject, podEventObject } from './event-recorder.ts';

const { signal } = new AbortController();
const resource = withShape(eventResource, eventShape);
const started: NewEvent = {
  object: podEventObject(aPod(), 'main'),
  type: 'Normal',
  reason: 'Started',
  message: 'Container started',
};

interface World {
  readonly recorder: EventRecorder;
  readonly clock: ObservedClock;
  readonly notices: EventNotice[];
  /** Ends the recorder, and waits for that. */
  readonly stop: () => Promise<void>;
}

function recording(t: TestContext, client: Pick<ApiClient, 'create' | 'patch'>, clock = new ObservedClock()): World {
  const notices: EventNotice[] = [];
  const recorder = new EventRecorder(
    { client, clock, random: () => 0.5, uuid: () => 'a-uuid', notify: (notice) => void notices.push(notice) },
    { nodeName: 'here', flushMs: 3_000 },
  );
  const stop = new AbortController();
  const running = recorder.run(stop.signal);
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
  };
  t.after(async () => {
    stop.abort();
    await clock.advance(3_000);
    await running;
  });
  return { recorder, clock, notices, stop: end };
}

async function nodeWithShop(t: TestContext): Promise<{ server: RunningApiServer; admin: ApiClient; node: ApiClient }> {
  const server = await runningApiServer(t);
  const admin = server.client();
  await admin.create(namespaces, {}, { metadata: { name: 'shop' } }, signal);
  return { server, admin, node: server.client({}, nodeIdentity(server, 'here')) };
}

async function eventsIn(client: ApiClient, namespace: string): Promise<readonly Event[]> {
  const { items } = await client.list(resource, { namespace }, signal);
  return items;
}

test('a node writes what happened to a container, and the same again raises the count', async (t) => {
  const { admin, node } = await nodeWithShop(t);
  const { recorder, notices, stop } = recording(t, node);
  for (let index = 0; index < 3; index += 1) recorder.record(started);
  await stop();
  const [event, ...others] = await eventsIn(admin, 'shop');
  assert.deepEqual(others, []);
  assert.equal(event?.count, 3);
  assert.deepEqual(event.source, { component: 'kubelet', host: 'here' });
  assert.deepEqual([event.reportingComponent, event.reportingInstance], ['kubelet', 'here']);
  assert.equal(event.involvedObject.fieldPath, 'spec.containers{main}');
  assert.match(event.metadata.name, /^web\.[0-9a-f]+$/);
  assert.deepEqual(notices, []);
});

test('what is about the node is written in the namespace default', async (t) => {
  const { admin, node } = await nodeWithShop(t);
  const { recorder, stop } = recording(t, node);
  recorder.record({ ...started, object: nodeEventObject('here', undefined), reason: 'Starting' });
  await stop();
  const events = await eventsIn(admin, 'default');
  assert.deepEqual(
    events.map(({ reason, involvedObject }) => [reason, involvedObject.kind, involvedObject.uid]),
    [['Starting', 'Node', 'here']],
  );
});

test('an event that the server no longer has is created again, with the full count', async (t) => {
  const { admin, node } = await nodeWithShop(t);
  const first = recording(t, node);
  first.recorder.record(started);
  const [written] = await writtenEvents(admin, 1);
  await admin.delete(resource, { namespace: 'shop', name: written?.metadata.name ?? '' }, undefined, signal);
  first.recorder.record(started);
  await first.stop();
  const [again] = await eventsIn(admin, 'shop');
  assert.equal(again?.count, 2);
  assert.notEqual(again.metadata.uid, written?.metadata.uid);
});

test('an event that the server refuses is reported and not retried, and the next goes through', async (t) => {
  const { admin, node } = await nodeWithShop(t);
  const { recorder, notices, stop } = recording(t, node);
  recorder.record({ ...started, object: { ...started.object, namespace: 'nowhere' } });
  recorder.record({ ...started, object: { ...started.object, namespace: '../shop' } });
  recorder.record(started);
  await stop();
  assert.equal((await eventsIn(admin, 'shop')).length, 1);
  const told = notices.map((notice) => (notice.kind === 'EventUnwritten' ? (notice.error as Error).name : notice.kind));
  assert.deepEqual(told, ['NotFoundError', 'InvalidPlaceError']);
});

test('nothing is said of events in a namespace that ends, which takes none', async (t) => {
  const { admin, node } = await nodeWithShop(t);
  await admin.create(namespaces, {}, { metadata: { name: 'ending', finalizers: ['example.com/x'] } }, signal);
  await admin.delete(namespaces, { name: 'ending' }, undefined, signal);
  const { recorder, notices, stop } = recording(t, node);
  recorder.record({ ...started, object: { ...started.object, namespace: 'ending' } });
  recorder.record(started);
  await stop();
  assert.equal((await eventsIn(admin, 'shop')).length, 1);
  assert.deepEqual(notices, []);
});

test('with the server away everything waits, the first time by chance, and is written when it is back', async (t) => {
  const store = memoryStore();
  const server = await runningApiServer(t, store);
  await server.client().create(namespaces, {}, { metadata: { name: 'shop' } }, signal);
  const node = server.client({}, nodeIdentity(server, 'here'));
  await server.close();
  const { recorder, clock, notices, stop } = recording(t, node);
  recorder.record(started);
  assert.equal(await clock.nextSleep(), 5_000);
  await clock.advance(5_000);
  assert.equal(await clock.nextSleep(), 10_000);
  const again = await runningApiServer(t, store, server);
  await clock.advance(10_000);
  assert.equal((await writtenEvents(again.client(), 1)).length, 1);
  await stop();
  assert.deepEqual(notices, []);
});

test('after twelve tries an event is given up', async (t) => {
  const server = await runningApiServer(t);
  const node = server.client({}, nodeIdentity(server, 'here'));
  await server.close();
  const { recorder, clock, notices } = recording(t, node);
  recorder.record(started);
  const sleeps: number[] = [];
  for (let index = 0; index < 11; index += 1) {
    sleeps.push(await clock.nextSleep());
    await clock.advance(10_000);
  }
  assert.deepEqual(sleeps, [5_000, ...Array.from({ length: 10 }, () => 10_000)]);
  while (notices.length === 0) await settle();
  assert.deepEqual(
    notices.map(({ kind }) => kind),
    ['EventUnwritten'],
  );
});

test('a thousand events are queued, more are dropped, and recording never blocks', async (t) => {
  const { recorder, notices } = recording(t, { create: hangs(), patch: hangs() });
  // The first is taken out of the queue to be written.
  recorder.record(started);
  await settle();
  for (let index = 0; index < 1_002; index += 1) recorder.record({ ...started, message: `m${index}` });
  assert.deepEqual(
    notices.map((notice) => notice.kind === 'EventLost' && notice.event.message),
    ['m1000', 'm1001'],
  );
});

test('the end of the node writes what is queued, but does not wait for a server that says nothing', async (t) => {
  const clock = new ObservedClock();
  const { recorder, notices, stop } = recording(t, { create: hangs(), patch: hangs() }, clock);
  recorder.record(started);
  recorder.record({ ...started, reason: 'Killing' });
  await settle();
  const ending = stop();
  assert.equal(await clock.nextSleep(), 3_000);
  await clock.advance(3_000);
  await ending;
  recorder.record({ ...started, reason: 'TooLate' });
  assert.deepEqual(
    notices.map(({ kind, event }) => `${kind} ${event.reason}`),
    ['EventUnwritten Started', 'EventUnwritten Killing', 'EventLost TooLate'],
  );
});

/** A server that takes a request and never answers. */
function hangs(): (resource: unknown, place: unknown, body: unknown, until: AbortSignal) => Promise<never> {
  return (_resource, _place, _body, until) =>
    new Promise((_resolve, reject) => until.addEventListener('abort', () => reject(until.reason)));
}

async function writtenEvents(client: ApiClient, count: number): Promise<readonly Event[]> {
  for (;;) {
    const events = await eventsIn(client, 'shop');
    if (events.length >= count) return events;
  }
}
