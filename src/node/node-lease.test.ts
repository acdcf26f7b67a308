import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ApiClient } from '../client/api/api-client.ts';
import { leases, withShape } from '../client/api/resource-reference.ts';
import { type Lease, leaseShape } from '../kube/kinds/lease.ts';
import { ObservedClock } from '../testing/fakes/fake-clock.ts';
import { nodeIdentity, runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import { NodeLease } from './node-lease.ts';
import { type NodeNotice, nodeResource } from './own-node.ts';

const { signal } = new AbortController();
const resource = withShape(leases, leaseShape);
const place = { namespace: 'kube-node-lease', name: 'here' };

/** 10 s and 2 % of chance. */
const renewMs = 10_200;

interface World {
  readonly clock: ObservedClock;
  readonly notices: NodeNotice[];
  readonly stop: () => Promise<void>;
}

function holding(t: TestContext, heartbeat: ApiClient, startsAt = Date.UTC(2026, 0, 1)): World {
  const clock = new ObservedClock(startsAt);
  const notices: NodeNotice[] = [];
  const notify = (notice: NodeNotice): void => void notices.push(notice);
  const ownNode = { current: () => undefined };
  const lease = new NodeLease(
    { heartbeat, ownNode, clock, random: () => 0.5, notify },
    { nodeName: 'here', leaseSeconds: 40 },
  );
  const end = new AbortController();
  const running = lease.run(end.signal);
  const stop = async (): Promise<void> => {
    end.abort();
    await running;
  };
  t.after(stop);
  return { clock, notices, stop };
}

function leaseOf(client: ApiClient): Promise<Lease> {
  return client.get(resource, place, signal);
}

test('a node makes its lease, owned by its Node, and renews it every ten seconds', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const node = await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  const { clock, notices } = holding(t, server.client({}, nodeIdentity(server, 'here')));
  assert.equal(await clock.nextSleep(), renewMs);
  const { metadata, spec } = await leaseOf(admin);
  assert.deepEqual(spec, {
    holderIdentity: 'here',
    leaseDurationSeconds: 40,
    renewTime: '2026-01-01T00:00:00.000000Z',
  });
  const uid = node.metadata.uid ?? '';
  assert.deepEqual(metadata.ownerReferences, [{ apiVersion: 'v1', kind: 'Node', name: 'here', uid }]);
  await clock.advance(renewMs);
  await clock.nextSleep();
  assert.equal((await leaseOf(admin)).spec?.renewTime, '2026-01-01T00:00:10.200000Z');
  assert.deepEqual(notices, []);
});

test('a lease that another client wrote is read again and renewed; a deleted one is created again', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  const { clock, notices } = holding(t, server.client({}, nodeIdentity(server, 'here')));
  await clock.nextSleep();
  const foreign = { metadata: { labels: { seen: 'yes' } } };
  await admin.patch(resource, { ...place, type: 'merge' }, foreign, signal);
  await clock.advance(renewMs);
  await clock.nextSleep();
  const renewed = await leaseOf(admin);
  assert.equal(renewed.spec?.renewTime, '2026-01-01T00:00:10.200000Z');
  assert.equal(renewed.metadata.labels?.['seen'], 'yes');
  await admin.delete(resource, place, undefined, signal);
  await clock.advance(renewMs);
  await clock.nextSleep();
  const again = await leaseOf(admin);
  assert.notEqual(again.metadata.uid, renewed.metadata.uid);
  assert.equal(again.spec?.renewTime, '2026-01-01T00:00:20.400000Z');
  assert.deepEqual(notices, []);
});

for (const { it, startsAt, renewTime } of [
  { it: '', startsAt: Date.UTC(2026, 0, 2), renewTime: '2026-01-02T00:00:00.000000Z' },
  {
    it: ', also when the clock was set back',
    startsAt: Date.UTC(2025, 11, 31, 19),
    renewTime: '2025-12-31T19:00:00.000000Z',
  },
]) {
  test(`a lease from before the restart is adopted${it}`, async (t) => {
    const server = await runningApiServer(t);
    const admin = server.client();
    await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
    const first = holding(t, server.client({}, nodeIdentity(server, 'here')));
    await first.clock.nextSleep();
    await first.stop();
    const { metadata } = await leaseOf(admin);
    const second = holding(t, server.client({}, nodeIdentity(server, 'here')), startsAt);
    await second.clock.nextSleep();
    const taken = await leaseOf(admin);
    assert.equal(taken.metadata.uid, metadata.uid);
    assert.equal(taken.spec?.renewTime, renewTime);
    assert.deepEqual(second.notices, []);
  });
}

test('without its Node there is no lease; it is tried after 200 ms, 400 ms and so on up to 7 s', async (t) => {
  const store = memoryStore();
  const server = await runningApiServer(t, store);
  const admin = server.client();
  const { clock, notices } = holding(t, server.client({}, nodeIdentity(server, 'here')));
  const sleeps: number[] = [];
  for (let index = 0; index < 8; index += 1) {
    const ms = await clock.nextSleep();
    sleeps.push(ms);
    if (index < 7) await clock.advance(ms);
  }
  assert.deepEqual(sleeps, [200, 400, 800, 1_600, 3_200, 6_400, 7_000, 7_000]);
  assert.deepEqual(
    notices.map(({ kind }) => kind),
    Array.from({ length: 7 }, () => 'NodeLeaseFailed'),
    'not the first: the node is registered at the same time',
  );
  await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  await clock.advance(7_000);
  assert.equal(await clock.nextSleep(), renewMs);
  assert.equal((await leaseOf(admin)).spec?.holderIdentity, 'here');
});
