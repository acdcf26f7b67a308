import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { messageOf } from '../base/errors.ts';
import { Timers } from '../base/timers.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import type { VolumeNotice } from './notices.ts';
import type { OperationKey, OperationKind, OperationTable } from './operation.ts';
import { Operations, type StartResult } from './operations.ts';
import type { OperationAction } from './plan.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const volume = asVolumeName('example.com/disk/one');
const whole: OperationKey = { volume };
const ofPod = (podUid: string): OperationKey => ({ volume, podUid: asPodUid(podUid) });

/** Kinds of action and the names of their operations. */
const names = { mount: 'volume_mount', unmount: 'volume_unmount', unmountDevice: 'unmount_device' } as const;
type Kind = keyof typeof names;

/** Stands for an action: it says itself what it is about and how it ends. */
interface TestAction {
  readonly kind: Kind;
  readonly key: OperationKey;
  readonly pluginName: 'example.com/disk';
  run(signal: AbortSignal): Promise<void>;
}

interface Started {
  readonly result: StartResult;
  end(error?: unknown): Promise<void>;
}

class World {
  readonly clock = new FakeClock();
  readonly freed: string[] = [];
  readonly notices: VolumeNotice[] = [];
  /** Why operations were stopped. */
  readonly stopped: string[] = [];
  readonly operations: Operations;

  constructor(t: TestContext) {
    const timers = new Timers(this.clock);
    const kinds = Object.entries(names).map(([kind, name]): [string, OperationKind<TestAction>] => [
      kind,
      { name, key: ({ key }) => key, run: (action, signal) => action.run(signal) },
    ]);
    this.operations = new Operations(
      {
        clock: this.clock,
        timers,
        freed: (name) => this.freed.push(name),
        notify: (notice) => this.notices.push(notice),
        podOf: () => undefined,
      },
      Object.fromEntries(kinds) as unknown as OperationTable,
    );
    const stop = new AbortController();
    const running = timers.run(stop.signal);
    t.after(async () => {
      await this.operations.close(new Error('the test is over'));
      stop.abort();
      await running;
    });
  }

  start(key: OperationKey, kind: Kind = 'mount'): Started {
    let settleOperation = (_error?: unknown): void => {};
    const action: TestAction = {
      kind,
      key,
      pluginName: 'example.com/disk',
      run: (signal) =>
        new Promise((resolve, reject) => {
          settleOperation = (error) => (error === undefined ? resolve() : reject(error));
          signal.addEventListener('abort', () => {
            this.stopped.push(messageOf(signal.reason));
            reject(signal.reason as Error);
          });
        }),
    };
    return {
      result: this.operations.start(action as unknown as OperationAction),
      async end(error) {
        await settle();
        settleOperation(error);
        await settle();
      },
    };
  }

  /** The volumes of operations that have ended. */
  ended(): readonly string[] {
    return this.notices.flatMap((notice) => (notice.kind === 'OperationEnded' ? [notice.volume] : []));
  }

  /** What the last operation that ended failed with; undefined if it succeeded. */
  failure(): { readonly error: Error; readonly delayMs: number } | undefined {
    const last = this.notices.at(-1);
    if (last?.kind !== 'OperationFailed') return undefined;
    return { error: last.error, delayMs: last.retryAt - this.clock.now() };
  }
}

const exclusions: readonly { first: OperationKey; second: OperationKey; result: StartResult }[] = [
  { first: whole, second: whole, result: 'busy' },
  { first: whole, second: ofPod('a'), result: 'busy' },
  { first: ofPod('a'), second: ofPod('a'), result: 'busy' },
  { first: ofPod('a'), second: whole, result: 'busy' },
  { first: ofPod('a'), second: ofPod('b'), result: 'started' },
  { first: { volume: asVolumeName('another') }, second: whole, result: 'started' },
];
for (const { first, second, result } of exclusions) {
  const says = result === 'started' ? 'runs beside' : 'waits for';
  test(`${JSON.stringify(second)} ${says} ${JSON.stringify(first)}`, (t) => {
    const world = new World(t);
    assert.equal(world.start(first).result, 'started');
    assert.equal(world.start(second, 'unmount').result, result);
  });
}

test('a second operation is refused until the first is over, and the volume is then reported free', async (t) => {
  const world = new World(t);
  const first = world.start(whole);
  assert.equal(world.start(whole).result, 'busy');
  assert.equal(world.operations.isBusy(volume), true);
  await first.end();
  assert.deepEqual(world.freed, [volume]);
  assert.equal(world.operations.isBusy(volume), false);
  assert.equal(world.start(whole).result, 'started');
});

test('after a failure the same operation waits, and another starts at once', async (t) => {
  const world = new World(t);
  await world.start(whole, 'mount').end(new Error('no such disk'));
  assert.equal(world.start(whole, 'mount').result, 'backing-off');
  assert.equal(world.start(whole, 'unmountDevice').result, 'started');
});

test('the delay doubles from half a second to two minutes and two seconds, counted from the end of the failed run', async (t) => {
  const world = new World(t);
  const delays: number[] = [];
  for (let attempt = 0; attempt < 11; attempt += 1) {
    await world.start(whole).end(new Error('still not'));
    const { delayMs = 0 } = world.failure() ?? {};
    delays.push(delayMs / 1000);
    await world.clock.advance(delayMs);
    assert.equal(world.start(whole).result, 'backing-off', 'a retry is allowed only after the window');
    world.freed.length = 0;
    await world.clock.advance(1);
    assert.deepEqual(world.freed, [volume], 'the volume is touched when its time has come');
  }
  assert.deepEqual(delays, [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]);
});

test('success forgets the delay, and so does an operation of another name within the window', async (t) => {
  const world = new World(t);
  const failWith = async (name: Kind): Promise<number | undefined> => {
    await world.start(whole, name).end(new Error('no'));
    return world.failure()?.delayMs;
  };
  assert.equal(await failWith('mount'), 500);
  await world.clock.advance(501);
  assert.equal(await failWith('mount'), 1000);
  assert.equal(await failWith('unmountDevice'), 500, 'another name begins anew');
  await world.clock.advance(501);
  assert.equal(await failWith('mount'), 1000, 'after the window the delay is kept, whatever the name');
  await world.clock.advance(1001);
  await world.start(whole).end();
  assert.equal(await failWith('mount'), 500);
});

test('what may be retried now is tried at once, and fails with a doubled delay', async (t) => {
  const world = new World(t);
  await world.start(whole).end(new Error('configmap "web" not found'));
  world.operations.retryNow(ofPod('a'));
  const again = world.start(whole);
  assert.equal(again.result, 'started');
  await again.end(new Error('configmap "web" not found'));
  assert.equal(world.failure()?.delayMs, 1000);
  assert.equal(world.start(whole).result, 'backing-off');
});

test('one that runs wins over others that have failed', async (t) => {
  const world = new World(t);
  await world.start(ofPod('a'), 'unmount').end(new Error('no'));
  await world.start(ofPod('b'), 'unmount').end(new Error('no'));
  const third = world.start(ofPod('c'), 'unmount');
  assert.equal(world.start(whole, 'unmountDevice').result, 'busy');
  await third.end();
  assert.equal(world.start(whole, 'unmountDevice').result, 'started');
});

test("a pod's failed unmount uses its own entry, and success deletes that one alone", async (t) => {
  const world = new World(t);
  await world.start(ofPod('a'), 'unmount').end(new Error('a'));
  await world.start(ofPod('b'), 'unmount').end(new Error('b'));
  await world.start(whole, 'unmountDevice').end(new Error('whole'));
  await world.clock.advance(1000);
  await world.start(ofPod('b'), 'unmount').end();
  assert.equal(world.operations.failureOf(ofPod('b'))?.error, 'whole', 'the entry of the whole volume is left');
  assert.equal(world.start(ofPod('b'), 'unmount').result, 'started');
});

test('a bug in an operation is a failure of that operation, and nothing else', async (t) => {
  const world = new World(t);
  const bug = new TypeError('undefined is not a volume');
  await world.start(whole).end(bug);
  const { error } = world.failure() ?? {};
  assert.match(
    error?.message ?? '',
    /^recovered from panic "TypeError: undefined is not a volume"\. \(err=undefined is not a volume\) Call stack:\n.*TypeError/s,
  );
  await world.clock.advance(501);
  assert.equal(world.start(whole).result, 'started');
});

test('operations of one name that began within a second are overdue together, and no others with them', async (t) => {
  const world = new World(t);
  const stopped = (): readonly string[] => world.ended();
  const start = (named: string, kind?: Kind): Started => world.start({ volume: asVolumeName(named) }, kind);
  start('first');
  start('unmount', 'unmount');
  await world.clock.advance(900);
  start('second');
  await world.clock.advance(200);
  start('third');
  await world.clock.advance(20 * 60_000 - 1_100);
  await settle();
  assert.deepEqual(stopped(), ['first', 'second', 'unmount']);
  start('fourth');
  await world.clock.advance(1_099);
  await settle();
  assert.deepEqual(stopped(), ['first', 'second', 'unmount']);
  await world.clock.advance(1);
  await settle();
  assert.deepEqual(stopped(), ['first', 'second', 'unmount', 'third']);
});

test('an operation that does not end is aborted, and its volume stays busy until it ends', async (t) => {
  const world = new World(t);
  world.start(whole);
  await world.clock.advance(10 * 60_000);
  const young = world.start({ volume: asVolumeName('young') });
  await world.clock.advance(10 * 60_000);
  await settle();
  assert.equal(
    world.failure()?.error.message,
    'operation volume_mount did not finish within 20m0s: context deadline exceeded',
  );
  assert.equal(world.ended().length, 1);
  await young.end();
  assert.equal(world.failure(), undefined);
});

test('closing stops what runs, waits for it and starts nothing more', async (t) => {
  const world = new World(t);
  world.start(whole);
  await settle();
  await world.operations.close(new Error('the node stops'));
  assert.equal(world.operations.running, 0);
  assert.deepEqual(world.stopped, ['the node stops']);
  assert.deepEqual(world.notices, [], 'a node that stops is not a failure');
  assert.equal(world.start(ofPod('a')).result, 'busy');
});

test('what is forgotten leaves nothing behind', async (t) => {
  const world = new World(t);
  await world.start(whole).end(new Error('no'));
  world.operations.forget(volume);
  assert.equal(world.operations.failureOf(whole), undefined);
  assert.equal(world.start(whole).result, 'started');
});
