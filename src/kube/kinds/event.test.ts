import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded } from '../../testing/fakes/builders.ts';
import { eventOfView, eventShape, eventViewKind, viewOfEvent } from './event.ts';

const stored = decoded(eventShape, {
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name: 'e', namespace: 'shop' },
  involvedObject: { kind: 'Pod', name: 'web', namespace: 'shop', fieldPath: 'spec.containers{main}' },
  reason: 'Pulled',
  message: 'it is here',
  source: { component: 'kubelet', host: 'node-1' },
  firstTimestamp: '2026-01-01T00:00:00Z',
  lastTimestamp: '2026-01-01T00:05:00Z',
  count: 3,
  type: 'Normal',
  eventTime: '2026-01-01T00:00:00.000001Z',
  series: { count: 2, lastObservedTime: '2026-01-01T00:05:00.000000Z' },
  action: 'Pulling',
  related: { kind: 'Node', name: 'node-1' },
  reportingComponent: 'example.com/agent',
  reportingInstance: 'agent-1',
});

test('the events.k8s.io view has other names for the same facts', () => {
  const view = viewOfEvent(stored);
  assert.deepEqual(view, decoded(eventViewKind.shape, view));
  assert.equal(view.apiVersion, 'events.k8s.io/v1');
  assert.equal(view.note, 'it is here');
  assert.deepEqual(view.regarding, stored.involvedObject);
  assert.equal(view.reportingController, 'example.com/agent');
  assert.deepEqual(view.deprecatedSource, stored.source);
  assert.equal(view.deprecatedFirstTimestamp, stored.firstTimestamp);
  assert.equal(view.deprecatedLastTimestamp, stored.lastTimestamp);
  assert.equal(view.deprecatedCount, 3);
});

test('nothing is lost on the way to the view and back', () => {
  assert.deepEqual(eventOfView(viewOfEvent(stored)), stored);
});

test('a view with nothing but a name becomes an event with nothing but a name', () => {
  const view = decoded(eventViewKind.shape, { kind: 'Event', metadata: { name: 'e' } });
  assert.deepEqual(eventOfView(view), { apiVersion: 'v1', kind: 'Event', metadata: { name: 'e' }, involvedObject: {} });
});
