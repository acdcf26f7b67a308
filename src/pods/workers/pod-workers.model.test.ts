/** Whatever happens to pods in whatever order: their steps never overlap, never go back, and every kill is carried out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import { PodProgress } from './pod-progress.ts';
import { PodWorkers } from './pod-workers.ts';

const uids = ['a', 'b', 'c'] as const;
type Uid = (typeof uids)[number];

interface Action {
  readonly kind: 'create' | 'update' | 'kill' | 'sync' | 'unwant' | 'advance' | 'fail' | 'slow';
  readonly uid: Uid;
  readonly ms: number;
}

const anyAction: fc.Arbitrary<Action> = fc.record({
  kind: fc.constantFrom('create', 'create', 'update', 'kill', 'sync', 'unwant', 'advance', 'advance', 'fail', 'slow'),
  uid: fc.constantFrom(...uids),
  ms: fc.nat(20_000),
});

class World {
  readonly clock = new FakeClock();
  readonly stop = new AbortController();
  readonly wanted = new Set<string>();
  readonly running = new Set<string>();
  readonly rank = new Map<string, number>();
  /** Kept and not thrown: a worker would take it for a step that failed. */
  readonly violations: string[] = [];
  failures = 0;
  slowMs = 0;
  readonly isStatic: boolean;
  readonly workers: PodWorkers;

  constructor(isStatic: boolean) {
    this.isStatic = isStatic;
    const { clock } = this;
    this.workers = new PodWorkers(
      {
        progress: new PodProgress(),
        clock,
        random: () => 0.5,
        events: new RecordedEvents(),
        newest: () => undefined,
        notify: () => {},
        moved: () => {},
        runtime: { get: () => Promise.resolve(undefined) },
        steps: {
          sync: async ({ metadata }, _runtime, signal) => {
            await this.#step(metadata.uid ?? '', 1, signal);
            return false;
          },
          deadlineMs: () => undefined,
          terminate: ({ metadata }, _runtime, _request, signal) => this.#step(metadata.uid ?? '', 2, signal),
          cleanUp: ({ metadata }, _runtime, signal) => this.#step(metadata.uid ?? '', 3, signal),
          terminateOrphan: () => assert.fail('there are no orphans here'),
        },
      },
      { resyncMs: 60_000, retryMs: 10_000 },
      this.stop.signal,
    );
  }

  pod(uid: string): Pod {
    const annotations = this.isStatic ? { 'kubernetes.io/config.source': 'file' } : {};
    return aPod({
      metadata: { uid, name: this.isStatic ? 'same' : uid, annotations },
      terminationGracePeriodSeconds: 5,
    });
  }

  retain(): void {
    const left = this.workers.retain(this.wanted);
    for (const uid of uids) if (!left.has(uid)) this.rank.delete(uid);
    for (const uid of this.wanted) if (!left.has(uid)) this.workers.update({ kind: 'create', pod: this.pod(uid) });
  }

  async #step(uid: string, rank: number, signal: AbortSignal): Promise<void> {
    const before = this.rank.get(uid) ?? 0;
    if (this.running.has(uid)) this.violations.push(`two steps of ${uid} at once`);
    if (before > rank) this.violations.push(`${uid} went back from step ${before} to ${rank}`);
    if (this.isStatic && rank === 1) {
      const others = uids.filter((other) => other !== uid && (this.rank.get(other) ?? 0) > 0);
      const busy = others.filter((other) => this.workers.progress.stateOf(other) !== 'finished');
      if (busy.length > 0) this.violations.push(`${uid} was started beside ${busy.join()}`);
    }
    this.rank.set(uid, rank);
    this.running.add(uid);
    try {
      if (this.slowMs > 0) await this.clock.sleep(this.slowMs, signal);
      signal.throwIfAborted();
      if (this.failures > 0) {
        this.failures -= 1;
        throw new Error('a step failed');
      }
    } finally {
      this.running.delete(uid);
    }
  }
}

async function act(world: World, { kind, uid, ms }: Action): Promise<void> {
  const pod = world.pod(uid);
  switch (kind) {
    case 'create':
      world.wanted.add(uid);
      return world.workers.update({ kind, pod });
    case 'update':
      if (world.wanted.has(uid)) world.workers.update({ kind, pod });
      return;
    case 'kill':
      world.wanted.delete(uid);
      return world.workers.update({ kind, pod });
    case 'sync':
      return world.workers.sync(uid);
    case 'unwant':
      world.wanted.delete(uid);
      return world.retain();
    case 'advance':
      return await world.clock.advance(ms);
    case 'fail':
      world.failures += ms % 3;
      return;
    case 'slow':
      world.slowMs = ms % 2 === 0 ? 0 : ms;
      return;
  }
}

for (const isStatic of [false, true]) {
  test(`${isStatic ? 'static ' : ''}pods never go back, and all that are not wanted finish`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyAction, { maxLength: 30 }), async (actions) => {
        const world = new World(isStatic);
        for (const action of actions) {
          await act(world, action);
          await settle(2);
        }
        world.slowMs = 0;
        world.failures = 0;
        for (const uid of uids) await act(world, { kind: 'kill', uid, ms: 0 });
        for (let round = 0; round < 10; round += 1) {
          await settle(3);
          await world.clock.advance(20_000);
          world.retain();
        }
        await settle();
        assert.deepEqual(world.violations, []);
        assert.deepEqual(
          uids.map((uid) => world.workers.progress.stateOf(uid)),
          [undefined, undefined, undefined],
        );
        world.stop.abort();
        await world.workers.settled();
      }),
      { numRuns: 120 },
    );
  });
}
