import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Event } from '../kube/kinds/event.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { type Correlated, EventCorrelator, EventNames } from './event-correlator.ts';
import { nodeEventObject, podEventObject, referenceOf } from './event-recorder.ts';

function setUp(): { clock: FakeClock; correlator: EventCorrelator; say: (parts?: Partial<Event>) => Correlated } {
  const clock = new FakeClock();
  const names = new EventNames({ clock, random: () => 0, uuid: () => 'a-uuid' });
  const correlator = new EventCorrelator({ clock, names });
  const say = (parts: Partial<Event> = {}): Correlated =>
    correlator.correlate({ ...anEvent(names.next('web')), ...parts });
  return { clock, correlator, say };
}

function anEvent(name: string): Event {
  return {
    metadata: { name, namespace: 'shop' },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'web', uid: 'u1' },
    type: 'Warning',
    reason: 'Failed',
    message: 'no',
    count: 1,
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    source: { component: 'kubelet', host: 'here' },
  };
}

const show = (correlated: Correlated): string =>
  correlated.kind === 'drop' ? 'drop' : `${correlated.kind} ${correlated.event.message} x${correlated.event.count}`;

function countOf(correlated: Correlated): number | undefined {
  return correlated.kind === 'drop' ? undefined : correlated.event.count;
}

test('the same again is a patch of the first with count and time', () => {
  const { say } = setUp();
  const first = say();
  const second = say({ lastTimestamp: '2026-01-01T00:05:00Z', firstTimestamp: '2026-01-01T00:05:00Z' });
  assert.ok(first.kind === 'create' && second.kind === 'patch');
  assert.deepEqual(second.patch, { count: 2, lastTimestamp: '2026-01-01T00:05:00Z', message: 'no' });
  assert.equal(second.event.metadata.name, first.event.metadata.name);
  assert.equal(second.event.firstTimestamp, '2026-01-01T00:00:00Z');
});

const differences: readonly { readonly what: string; readonly parts: Partial<Event> }[] = [
  { what: 'message', parts: { message: 'yes' } },
  { what: 'reason', parts: { reason: 'BackOff' } },
  { what: 'type', parts: { type: 'Normal' } },
  { what: 'source', parts: { source: { component: 'kubelet', host: 'there' } } },
  { what: 'container', parts: { involvedObject: { ...anEvent('').involvedObject, fieldPath: 'spec.containers{a}' } } },
  { what: 'object', parts: { involvedObject: { ...anEvent('').involvedObject, uid: 'u2' } } },
];
for (const { what, parts } of differences) {
  test(`another ${what} is another event`, () => {
    const { say } = setUp();
    say();
    assert.equal(say(parts).kind, 'create');
    assert.equal(countOf(say()), 2);
  });
}

test('the tenth different text and those after it become one event with the newest text', () => {
  const { say } = setUp();
  const said = Array.from({ length: 12 }, (_, index) => say({ message: `m${index}` }));
  assert.deepEqual(said.map(show), [
    ...Array.from({ length: 9 }, (_, index) => `create m${index} x1`),
    'create (combined from similar events): m9 x1',
    'patch (combined from similar events): m10 x2',
    'patch (combined from similar events): m11 x3',
  ]);
});

test('after ten quiet minutes they are separate events again; until then they are not', async () => {
  const { clock, say } = setUp();
  for (let index = 0; index < 10; index += 1) say({ message: `m${index}` });
  await clock.advance(600_000);
  assert.equal(show(say({ message: 'a' })), 'patch (combined from similar events): a x2');
  await clock.advance(600_001);
  assert.equal(show(say({ message: 'b' })), 'create b x1');
});

test('an object may emit 25 events, then one each five minutes, and the count includes them all', async () => {
  const { clock, say } = setUp();
  const heard = Array.from({ length: 30 }, () => say()).filter(({ kind }) => kind !== 'drop');
  assert.equal(heard.length, 25);
  assert.notEqual(say({ type: 'Normal' }).kind, 'drop');
  assert.notEqual(say({ involvedObject: { ...anEvent('').involvedObject, uid: 'u2' } }).kind, 'drop');
  assert.equal(say({ reason: 'BackOff' }).kind, 'drop');
  await clock.advance(300_000);
  assert.equal(countOf(say()), 31);
  assert.equal(say().kind, 'drop');
});

test('of more than 4096 objects the oldest is forgotten, and nothing grows', () => {
  const { say } = setUp();
  const about = (uid: string): Correlated => say({ involvedObject: { kind: 'Pod', name: 'web', uid } });
  about('first');
  assert.equal(about('first').kind, 'patch');
  for (let index = 0; index < 4_096; index += 1) about(`u${index}`);
  assert.equal(about('first').kind, 'create');
});

test('whatever is said, counts of one event only grow, and no two events have one name', () => {
  const saying = fc.record({ message: fc.integer({ min: 0, max: 14 }).map(String), reason: fc.constantFrom('A', 'B') });
  fc.assert(
    fc.property(fc.array(saying, { maxLength: 60 }), (sayings) => {
      const { say } = setUp();
      const counts = new Map<string, number>();
      for (const parts of sayings) {
        const correlated = say(parts);
        if (correlated.kind === 'drop') continue;
        const { metadata, count = 0 } = correlated.event;
        assert.equal(counts.has(metadata.name), correlated.kind === 'patch');
        assert.ok(count > (counts.get(metadata.name) ?? 0));
        counts.set(metadata.name, count);
      }
    }),
  );
});

test('a name is the object and a moment in hexadecimal, and a UUID where that is not a valid name', () => {
  const clock = new FakeClock(1_000);
  const names = new EventNames({ clock, random: () => 0.5, uuid: () => 'a-uuid' });
  assert.equal(names.next('web'), `web.${(1_000_500_000).toString(16)}`);
  assert.equal(names.next('web'), `web.${(1_000_500_001).toString(16)}`);
  assert.equal(names.next('system:node:x'), 'a-uuid');
});

test('a container is named by the list it stands in', () => {
  const container = (name: string): { name: string; image: string } => ({ name, image: 'i' });
  const pod = aPod({
    containers: [container('web')],
    initContainers: [container('setup')],
    ephemeralContainers: [container('look')],
  });
  const pathOf = (name: string): string | undefined => podEventObject(pod, name).fieldPath;
  assert.deepEqual(['web', 'setup', 'look', 'pause'].map(pathOf), [
    'spec.containers{web}',
    'spec.initContainers{setup}',
    'spec.ephemeralContainers{look}',
    'implicitly required container pause',
  ]);
  const { namespace, name, uid } = pod.metadata;
  assert.deepEqual(referenceOf(podEventObject(pod)), { apiVersion: 'v1', kind: 'Pod', namespace, name, uid });
  assert.equal(nodeEventObject('here', undefined).uid, 'here');
});
