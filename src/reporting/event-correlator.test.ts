import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Event } from '../kube/objects/event.ts';
import type { Correlated } from './event-correlator.ts';
import { EventCorrelator, correlatorDefaults } from './event-correlator.ts';

const start = Date.UTC(2026, 7, 20, 18, 59, 46);
const minuteMs = 60_000;
let made = 0;

function event({ message = 'm', reason = 'BackOff', type = 'Warning', name = 'web', fieldPath = '' } = {}): Event {
  made += 1;
  return {
    metadata: { name: `${name}.${made}`, namespace: 'shop' },
    involvedObject: { kind: 'Pod', namespace: 'shop', name, uid: 'u', ...(fieldPath !== '' && { fieldPath }) },
    source: { component: 'kubelet', host: 'here' },
    type,
    reason,
    message,
    count: 1,
    firstTimestamp: 'first',
    lastTimestamp: `at ${made}`,
  };
}

function show(correlated: Correlated): string {
  if (correlated.kind === 'drop') return 'drop';
  const { message, count } = correlated.event;
  return `${correlated.kind} ${message} x${count}`;
}

test('EventCorrelator counts the same event up, under its first name and time', () => {
  const correlator = new EventCorrelator();
  const first = correlator.correlate(event(), start);
  const second = correlator.correlate(event(), start + minuteMs);
  const third = correlator.correlate(event({ fieldPath: 'spec.containers{a}' }), start + minuteMs);
  assert.deepEqual([first, second, third].map(show), ['create m x1', 'patch m x2', 'create m x1']);
  assert.ok(first.kind === 'create' && second.kind === 'patch');
  assert.equal(second.event.metadata.name, first.event.metadata.name);
  assert.equal(second.event.firstTimestamp, 'first');
  assert.deepEqual(second.patch, { count: 2, lastTimestamp: second.event.lastTimestamp, message: 'm' });
});

test('EventCorrelator combines the tenth different message of one reason and those after it', () => {
  const correlator = new EventCorrelator();
  const said = Array.from({ length: 12 }, (_, index) =>
    show(correlator.correlate(event({ message: `m${index}` }), start)),
  );
  assert.deepEqual(
    said.slice(0, 9),
    Array.from({ length: 9 }, (_, index) => `create m${index} x1`),
  );
  assert.deepEqual(said.slice(9), [
    'create (combined from similar events): m9 x1',
    'patch (combined from similar events): m10 x2',
    'patch (combined from similar events): m11 x3',
  ]);
  assert.equal(show(correlator.correlate(event({ message: 'x', reason: 'Other' }), start)), 'create x x1');
});

test('EventCorrelator begins anew after a pause of ten minutes', () => {
  const correlator = new EventCorrelator();
  for (let index = 0; index < 12; index += 1) correlator.correlate(event({ message: `m${index}` }), start);
  const later = start + correlatorDefaults.similarGapMs;
  assert.match(show(correlator.correlate(event({ message: 'n' }), later)), /combined/);
  assert.equal(
    show(correlator.correlate(event({ message: 'o' }), later + correlatorDefaults.similarGapMs + 1)),
    'create o x1',
  );
});

test('EventCorrelator allows an object 25 events of a type at once, and one more every five minutes', () => {
  const correlator = new EventCorrelator();
  const said = Array.from({ length: 27 }, () => show(correlator.correlate(event(), start)));
  assert.deepEqual(said.slice(24), ['patch m x25', 'drop', 'drop']);
  assert.equal(show(correlator.correlate(event({ type: 'Normal' }), start)), 'create m x1');
  assert.equal(show(correlator.correlate(event({ name: 'other' }), start)), 'create m x1');
  assert.equal(show(correlator.correlate(event(), start + 5 * minuteMs - 1)), 'drop');
  assert.equal(
    show(correlator.correlate(event(), start + 10 * minuteMs)),
    'patch m x29',
    'those that were dropped are counted',
  );
});

test('EventCorrelator takes over what the server made of an event', () => {
  const correlator = new EventCorrelator();
  const first = correlator.correlate(event(), start);
  assert.ok(first.kind === 'create');
  correlator.written(first.key, { ...first.event, count: 40 });
  assert.equal(show(correlator.correlate(event(), start)), 'patch m x41');
});

test('EventCorrelator: whatever comes, no object gets more than its allowance', () => {
  const one = fc.record({ message: fc.constantFrom('a', 'b', 'c', 'd'), stepMs: fc.nat(200_000) });
  fc.assert(
    fc.property(fc.array(one, { maxLength: 120 }), (all) => {
      const correlator = new EventCorrelator();
      let now = start;
      let passed = 0;
      for (const { message, stepMs } of all) {
        now += stepMs;
        if (correlator.correlate(event({ message }), now).kind !== 'drop') passed += 1;
      }
      assert.ok(passed <= 25 + (now - start) / correlatorDefaults.refillMs + 1);
    }),
    { numRuns: 50 },
  );
});
