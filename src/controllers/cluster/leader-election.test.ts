import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { untilAborted } from '../../base/abort.ts';
import type { Lease } from '../../kube/kinds/lease.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import type { Cluster, Kind } from './cluster.ts';
import { lead, nextLease } from './leader-election.ts';

const kind: Kind = {
  group: 'coordination.k8s.io',
  version: 'v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};

/** A server with one lease; it can be away for some. */
class LeaseServer {
  lease: Lease | undefined;
  readonly away = new Set<string>();

  for(identity: string): Cluster {
    const reach = (): void => {
      if (this.away.has(identity)) throw new Error('the server is away');
    };
    const cluster: Partial<Cluster> = {
      kindOf: () => kind,
      keyOf: () => 'lease',
      create: async (_kind, _namespace, object: KubeObject) => {
        reach();
        if (this.lease !== undefined) throw Object.assign(new Error('it exists'), { code: 409 });
        this.lease = object;
        return object;
      },
      update: async (_key, change) => {
        reach();
        if (this.lease === undefined) throw Object.assign(new Error('not found'), { code: 404 });
        this.lease = change(this.lease);
      },
    };
    return cluster as Cluster;
  }
}

interface Candidate {
  readonly clock: FakeClock;
  readonly stop: AbortController;
  readonly isWorking: () => boolean;
  readonly mayWrite: () => boolean;
  readonly outcome: Promise<'stopped' | 'lost'>;
  readonly passed: { ms: number };
}

class World {
  readonly server = new LeaseServer();
  readonly candidates: Candidate[] = [];
  readonly #t: TestContext;

  constructor(t: TestContext) {
    this.#t = t;
  }

  /** `skewMs`: how far its clock is off. */
  async add(identity: string, skewMs = 0): Promise<Candidate> {
    const clock = new FakeClock(Date.UTC(2026, 0, 1) + skewMs);
    const stop = new AbortController();
    const passed = { ms: 0 };
    let isWorking = false;
    let require = (): void => assert.fail('it never led');
    const candidate: Candidate = {
      clock,
      stop,
      passed,
      isWorking: () => isWorking,
      mayWrite() {
        try {
          require();
          return true;
        } catch {
          return false;
        }
      },
      outcome: lead(
        {
          clusterFor: () => this.server.for(identity),
          clock,
          monotonicMs: () => passed.ms,
          random: () => 0,
          notify: () => {},
        },
        { namespace: 'kube-system', name: 'test', identity },
        async (requireLease, signal) => {
          require = requireLease;
          isWorking = true;
          await untilAborted(signal);
          isWorking = false;
        },
        stop.signal,
      ),
    };
    this.candidates.push(candidate);
    this.#t.after(() => stop.abort());
    await settle();
    return candidate;
  }

  /** In steps of a second; at no moment may two work. Those that are not among `running` are stopped processes. */
  async pass(seconds: number, running: readonly Candidate[] = this.candidates): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      for (const { passed } of this.candidates) passed.ms += 1_000;
      for (const { clock } of running) {
        await clock.advance(1_000);
        await settle();
      }
      assert.ok(this.candidates.filter((one) => one.isWorking() && one.mayWrite()).length <= 1, 'one leads');
    }
  }
}

test('one leads and renews, and its record is that of client-go', async (t) => {
  const world = new World(t);
  const first = await world.add('first');
  const second = await world.add('second');
  const { acquireTime } = world.server.lease?.spec ?? {};
  await world.pass(60);
  assert.ok(first.isWorking() && !second.isWorking());
  assert.deepEqual(world.server.lease?.spec, {
    holderIdentity: 'first',
    leaseDurationSeconds: 15,
    acquireTime,
    renewTime: '2026-01-01T00:01:00.000000Z',
    leaseTransitions: 0,
  });
});

test('a leader that stands still is succeeded after its lease has expired, and not before', async (t) => {
  const world = new World(t);
  const first = await world.add('first');
  const second = await world.add('second');
  await world.pass(4);
  await world.pass(13, [second]);
  assert.ok(!second.isWorking());
  await world.pass(8, [second]);
  assert.ok(second.isWorking());
  assert.equal(world.server.lease?.spec?.leaseTransitions, 1);
  // It goes on, and has not noticed yet: not one write passes, and it ends.
  assert.ok(first.isWorking() && !first.mayWrite());
  await first.clock.advance(2_000);
  assert.equal(await first.outcome, 'lost');
  assert.equal(world.server.lease?.spec?.holderIdentity, 'second');
});

test('a leader that does not reach the server ends its work before another may begin', async (t) => {
  const world = new World(t);
  const first = await world.add('first');
  const second = await world.add('second');
  await world.pass(10);
  world.server.away.add('first');
  await world.pass(9);
  assert.ok(first.isWorking(), 'a short outage harms nothing');
  await world.pass(2);
  assert.equal(await first.outcome, 'lost');
  assert.ok(!first.isWorking() && !second.isWorking());
  await world.pass(10);
  assert.ok(second.isWorking());
});

test('a leader that ends releases the lease after its work, and the next one starts at once', async (t) => {
  const world = new World(t);
  const first = await world.add('first');
  const second = await world.add('second');
  await world.pass(3);
  first.stop.abort();
  assert.equal(await first.outcome, 'stopped');
  assert.ok(!first.isWorking());
  assert.deepEqual([world.server.lease?.spec?.holderIdentity, world.server.lease?.spec?.leaseDurationSeconds], ['', 1]);
  await world.pass(5);
  assert.ok(second.isWorking());
  assert.equal(world.server.lease?.spec?.leaseTransitions, 1);
});

for (const skewMs of [-3_600_000, 3_600_000]) {
  test(`a clock that is ${skewMs / 60_000} minutes off neither takes a lease early nor keeps it`, async (t) => {
    const world = new World(t);
    const first = await world.add('first', skewMs);
    const second = await world.add('second');
    await world.pass(60);
    assert.ok(first.isWorking() && !second.isWorking());
    world.server.away.add('first');
    await world.pass(30);
    assert.ok(!first.isWorking() && second.isWorking());
  });
}

test('a clock that is set while it leads ends no lease later than it would have ended', async (t) => {
  const world = new World(t);
  const first = await world.add('first');
  world.server.away.add('first');
  // The time that passes goes on, whatever the clock says.
  first.passed.ms += 10_000;
  assert.equal(first.mayWrite(), false);
});

test('the lease of another is left alone until it has expired', () => {
  const spec = { holderIdentity: 'other', leaseDurationSeconds: 15, renewTime: 'then', leaseTransitions: 3 };
  assert.equal(nextLease(spec, 'me', false, 0), undefined);
  assert.equal(nextLease(spec, 'me', true, 0)?.leaseTransitions, 4);
  assert.equal(nextLease({ ...spec, holderIdentity: '' }, 'me', false, 0)?.leaseTransitions, 4);
});
