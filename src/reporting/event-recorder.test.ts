import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { errorFromCode } from '../client/api-errors.ts';
import { events, withShape } from '../client/resource-reference.ts';
import { ConnectionLostError } from '../client/transport-errors.ts';
import { event as eventShape } from '../kube/objects/event.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { runningApiServer } from '../testing/running-api-server.ts';
import { settle } from '../testing/settle.ts';
import type { EventNotice, EventRecorderDeps } from './event-recorder.ts';
import { EventRecorder } from './event-recorder.ts';

const subject = {
  apiVersion: 'v1',
  kind: 'Pod',
  namespace: 'default',
  name: 'web',
  uid: 'u1',
  fieldPath: 'spec.containers{a}',
};
const source = { component: 'kubelet', host: 'here' };

function run(t: TestContext, recorder: EventRecorder): void {
  const stop = new AbortController();
  const done = recorder.run(stop.signal);
  t.after(async () => {
    stop.abort();
    await done;
  });
}

test('EventRecorder writes events that kubectl can show, and counts them on the server', async (t) => {
  const client = (await runningApiServer(t)).client();
  const recorder = new EventRecorder(
    { client, clock: systemClock, chance: () => 0, uuid: () => 'no-uuid', notify: () => {} },
    source,
  );
  run(t, recorder);
  for (let count = 0; count < 3; count += 1) recorder.record(subject, 'Warning', 'BackOff', 'Back-off restarting');
  recorder.record(
    { ...subject, kind: 'Node', namespace: '', name: 'here', uid: 'here' },
    'Normal',
    'Starting',
    'Starting kubelet.',
  );
  const { signal } = new AbortController();
  for (;;) {
    const { items } = await client.list(withShape(events, eventShape), { namespace: 'default' }, signal);
    const ours = items.filter(({ source: from }) => from?.component === 'kubelet');
    if (ours.length < 2) continue;
    const backOff = ours.find(({ reason }) => reason === 'BackOff');
    assert.equal(backOff?.count, 3);
    assert.match(backOff.metadata.name, /^web\.[0-9a-f]{16}$/);
    assert.equal(backOff.involvedObject.fieldPath, 'spec.containers{a}');
    assert.deepEqual(
      [backOff.reportingComponent, backOff.reportingInstance, backOff.type],
      ['kubelet', 'here', 'Warning'],
    );
    const started = ours.find(({ reason }) => reason === 'Starting');
    assert.deepEqual([started?.metadata.namespace, started?.involvedObject.namespace], ['default', undefined]);
    return;
  }
});

interface Scripted {
  readonly recorder: EventRecorder;
  readonly calls: string[];
  readonly notices: EventNotice[];
  readonly clock: FakeClock;
}

/** A client that fails as told, in the order of its calls. */
function scripted(failures: readonly (Error | undefined)[]): Scripted {
  const calls: string[] = [];
  const notices: EventNotice[] = [];
  const clock = new FakeClock();
  const left = [...failures];
  const answer = <T>(call: string, result: unknown): Promise<T> => {
    calls.push(call);
    const failure = left.shift();
    return failure === undefined ? Promise.resolve(result as T) : Promise.reject(failure);
  };
  const client: EventRecorderDeps['client'] = {
    create: (_resource, _place, object) => answer(`create x${(object as { count: number }).count}`, object),
    patch: (_resource, { name }, patch) =>
      answer(`patch x${(patch as { count: number }).count}`, { metadata: { name }, ...(patch as object) }),
  };
  const recorder = new EventRecorder(
    { client, clock, chance: () => 0.5, uuid: () => 'uuid', notify: (notice) => void notices.push(notice) },
    source,
  );
  return { recorder, calls, notices, clock };
}

const lost = new ConnectionLostError('the connection was lost');

test('EventRecorder tries twelve times when the server is away, the first wait at random', async (t) => {
  const { recorder, calls, notices, clock } = scripted(Array.from({ length: 12 }, () => lost));
  run(t, recorder);
  recorder.record(subject, 'Normal', 'Pulled', 'm');
  await settle();
  assert.equal(calls.length, 1);
  await clock.advance(5000);
  assert.equal(calls.length, 2, 'half of ten seconds');
  await clock.advance(9 * 10_000);
  await settle();
  assert.equal(calls.length, 11);
  await clock.advance(100_000);
  await settle();
  assert.deepEqual(calls, Array<string>(12).fill('create x1'));
  assert.deepEqual(notices, [{ kind: 'EventDropped', reason: 'Pulled', because: 'tries' }]);
});

test('EventRecorder does not repeat what the server refused', async (t) => {
  const refused = errorFromCode(403, 'create events');
  const { recorder, calls, notices } = scripted([refused]);
  run(t, recorder);
  recorder.record(subject, 'Normal', 'Pulled', 'm');
  await settle();
  assert.deepEqual([calls, notices], [['create x1'], [{ kind: 'EventRefused', reason: 'Pulled', error: refused }]]);
});

test('EventRecorder tells an event anew, with its count, when it has expired on the server', async (t) => {
  const { recorder, calls } = scripted([undefined, errorFromCode(404, 'patch events')]);
  run(t, recorder);
  for (const _ of [1, 2, 3]) recorder.record(subject, 'Normal', 'Pulled', 'm');
  await settle(10);
  assert.deepEqual(calls, ['create x1', 'patch x2', 'create x2', 'patch x3']);
});

test('EventRecorder drops what it cannot hold', () => {
  const { recorder, notices } = scripted([]);
  for (let count = 0; count < 1001; count += 1) recorder.record(subject, 'Normal', 'Pulled', 'm');
  assert.deepEqual(notices, [{ kind: 'EventDropped', reason: 'Pulled', because: 'queue' }]);
});
