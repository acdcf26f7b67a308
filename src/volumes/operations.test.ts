import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Timers } from '../base/timers.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import type { OperationKey } from './operation.ts';
import {
  AlreadyExecutingError,
  BackOffError,
  type OperationEnd,
  PendingOperations,
  noRetriesMessage,
} from './operations.ts';

const volume = 'example.com/disk/one';
const whole: OperationKey = { volume, podUid: '', node: '' };
const ofPod = (podUid: string): OperationKey => ({ volume, podUid, node: '' });
const onNode = (node: string): OperationKey => ({ volume, podUid: '', node });

interface Started {
  readonly refused: string | undefined;
  end(error?: unknown): Promise<void>;
}

class World {
  readonly clock = new FakeClock();
  readonly freed: string[] = [];
  readonly ends: OperationEnd[] = [];
  readonly operations: PendingOperations;

  constructor(t: TestContext) {
    const timers = new Timers(this.clock);
    this.operations = new PendingOperations({
      clock: this.clock,
      timers,
      freed: (name) => this.freed.push(name),
      ended: (end) => this.ends.push(end),
    });
    const stop = new AbortController();
    const running = timers.run(stop.signal);
    t.after(async () => {
      await this.operations.close(new Error('the test is over'));
      stop.abort();
      await running;
    });
  }

  start(key: OperationKey, name = 'volume_mount'): Started {
    let settleOperation = (_error?: unknown): void => {};
    const refusal = this.operations.start({
      key,
      name,
      run: (signal) =>
        new Promise((resolve, reject) => {
          settleOperation = (error) => (error === undefined ? resolve() : reject(error));
          signal.addEventListener('abort', () => reject(signal.reason as Error));
        }),
    });
    return {
      refused: refusal?.reason,
      async end(error) {
        await settle();
        settleOperation(error);
        await settle();
      },
    };
  }
}

const running = 'OperationRunning';
const exclusions = [
  { first: whole, second: whole, refused: running },
  { first: whole, second: ofPod('a'), refused: running },
  { first: whole, second: onNode('n1'), refused: running },
  { first: ofPod('a'), second: ofPod('a'), refused: running },
  { first: ofPod('a'), second: whole, refused: running },
  { first: ofPod('a'), second: ofPod('b'), refused: undefined },
  { first: onNode('n1'), second: onNode('n1'), refused: running },
  { first: onNode('n1'), second: whole, refused: running },
  { first: onNode('n1'), second: onNode('n2'), refused: undefined },
  { first: { volume: '', podUid: '', node: '' }, second: { volume: '', podUid: '', node: '' }, refused: undefined },
  { first: { ...whole, volume: 'another' }, second: whole, refused: undefined },
];
for (const { first, second, refused } of exclusions) {
  const says = refused === undefined ? 'runs beside' : 'waits for';
  test(`manager invariant 51: ${JSON.stringify(second)} ${says} ${JSON.stringify(first)}`, (t) => {
    const world = new World(t);
    assert.equal(world.start(first).refused, undefined);
    assert.equal(world.start(second, 'volume_unmount').refused, refused);
  });
}

test('manager invariant 52: a second operation is refused until the first is over, and the volume is told to be free then', async (t) => {
  const world = new World(t);
  const first = world.start(whole);
  const refusal = world.operations.start({ key: whole, name: 'volume_mount', run: async () => {} });
  assert.ok(refusal instanceof AlreadyExecutingError);
  assert.equal(
    refusal.message,
    `Failed to create operation with name {volumeName:${volume} podName: nodeName:}. An operation with that name is already executing.`,
  );
  assert.equal(world.operations.isPending(ofPod('a')), true);
  await first.end();
  assert.deepEqual(world.freed, [volume]);
  assert.equal(world.operations.isPending(whole), false);
  assert.equal(world.start(whole).refused, undefined);
});

test('manager invariant 53: after a failure the same operation waits, and another starts at once', async (t) => {
  const world = new World(t);
  await world.start(whole, 'volume_mount').end(new Error('no such disk'));
  const refusal = world.operations.start({ key: whole, name: 'volume_mount', run: async () => {} });
  assert.ok(refusal instanceof BackOffError);
  assert.equal(
    refusal.message,
    `Failed to create operation with name "{volumeName:${volume} podName: nodeName:}". An operation with that name failed at ` +
      '2026-08-20 18:59:46 +0000 UTC. No retries permitted until 2026-08-20 18:59:46.5 +0000 UTC (500ms). Last error: "no such disk".',
  );
  assert.equal(world.operations.isSafeToRetry(whole, 'volume_mount'), false);
  assert.equal(world.operations.isSafeToRetry(whole, 'unmount_device'), true);
  assert.equal(world.start(whole, 'unmount_device').refused, undefined);
});

test('the delay doubles from half a second to two minutes and two seconds, counted from the end of the failed run', async (t) => {
  const world = new World(t);
  const delays: number[] = [];
  for (let attempt = 0; attempt < 11; attempt += 1) {
    await world.start(whole).end(new Error('still not'));
    const { delayMs = 0 } = world.ends.at(-1)?.failure ?? {};
    delays.push(delayMs / 1000);
    await world.clock.advance(delayMs);
    assert.equal(world.start(whole).refused, 'OperationBackingOff', 'a retry is allowed only after the window');
    world.freed.length = 0;
    await world.clock.advance(1);
    assert.deepEqual(world.freed, [volume], 'the volume is touched when its time has come');
  }
  assert.deepEqual(delays, [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]);
});

test('success forgets the delay, and so does an operation of another name within the window', async (t) => {
  const world = new World(t);
  const failWith = async (name: string): Promise<number | undefined> => {
    await world.start(whole, name).end(new Error('no'));
    return world.ends.at(-1)?.failure?.delayMs;
  };
  assert.equal(await failWith('volume_mount'), 500);
  await world.clock.advance(501);
  assert.equal(await failWith('volume_mount'), 1000);
  assert.equal(await failWith('unmount_device'), 500, 'another name begins anew');
  await world.clock.advance(501);
  assert.equal(await failWith('volume_mount'), 1000, 'after the window the delay is kept, whatever the name');
  await world.clock.advance(1001);
  await world.start(whole).end();
  assert.equal(await failWith('volume_mount'), 500);
});

test('what is forgiven may be tried at once, and fails with a doubled delay', async (t) => {
  const world = new World(t);
  await world.start(whole).end(new Error('configmap "web" not found'));
  world.operations.forgive(ofPod('a'));
  const again = world.start(whole);
  assert.equal(again.refused, undefined);
  await again.end(new Error('configmap "web" not found'));
  assert.equal(world.ends.at(-1)?.failure?.delayMs, 1000);
  assert.equal(world.start(whole).refused, 'OperationBackingOff');
});

test('manager invariant 54: one that runs wins over others that have failed', async (t) => {
  const world = new World(t);
  await world.start(ofPod('a'), 'volume_unmount').end(new Error('no'));
  await world.start(ofPod('b'), 'volume_unmount').end(new Error('no'));
  const third = world.start(ofPod('c'), 'volume_unmount');
  assert.equal(world.start(whole, 'unmount_device').refused, running);
  await third.end();
  assert.equal(world.start(whole, 'unmount_device').refused, undefined);
});

test("manager invariant 55: a pod's failed unmount uses its own entry, and success deletes that one alone", async (t) => {
  const world = new World(t);
  await world.start(ofPod('a'), 'volume_unmount').end(new Error('a'));
  await world.start(ofPod('b'), 'volume_unmount').end(new Error('b'));
  await world.start(whole, 'unmount_device').end(new Error('whole'));
  await world.clock.advance(1000);
  await world.start(ofPod('b'), 'volume_unmount').end();
  assert.equal(world.operations.failureOf(ofPod('b'))?.error, 'whole', 'the entry of the whole volume is left');
  assert.equal(world.start(ofPod('b'), 'volume_unmount').refused, undefined);
});

test('manager invariant 56: a bug in an operation is a failure of that operation, and nothing else', async (t) => {
  const world = new World(t);
  const bug = new TypeError('undefined is not a volume');
  await world.start(whole).end(bug);
  const { error } = world.ends.at(-1)?.failure ?? {};
  assert.match(
    error?.message ?? '',
    /^recovered from panic "TypeError: undefined is not a volume"\. \(err=undefined is not a volume\) Call stack:\n.*TypeError/s,
  );
  await world.clock.advance(501);
  assert.equal(world.start(whole).refused, undefined);
});

test('manager invariant 57: the failure on one node keeps its delay when the other node succeeds', async (t) => {
  const world = new World(t);
  const [one, two] = [world.start(onNode('n1'), 'volume_attach'), world.start(onNode('n2'), 'volume_attach')];
  await one.end(new Error('busy'));
  await two.end();
  assert.equal(world.start(onNode('n1'), 'volume_attach').refused, 'OperationBackingOff');
  assert.equal(world.start(onNode('n2'), 'volume_attach').refused, undefined);
});

test('operations of one name that began within a second are overdue together, and no others with them', async (t) => {
  const world = new World(t);
  const stopped = (): (string | undefined)[] => world.ends.map(({ operation }) => operation.key.volume);
  const start = (named: string, name?: string): Started => world.start({ ...whole, volume: named }, name);
  start('first');
  start('unmount', 'volume_unmount');
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

test('an operation that does not end is told to stop, and its volume stays busy until it has', async (t) => {
  const world = new World(t);
  world.start(whole);
  await world.clock.advance(10 * 60_000);
  const young = world.start({ ...whole, volume: 'young' });
  await world.clock.advance(10 * 60_000);
  await settle();
  assert.equal(
    world.ends.at(-1)?.failure?.error.message,
    'operation volume_mount did not finish within 20m0s: context deadline exceeded',
  );
  assert.equal(world.ends.length, 1);
  await young.end();
  assert.equal(world.ends.at(-1)?.failure, undefined);
});

test('closing stops what runs, waits for it and starts nothing more', async (t) => {
  const world = new World(t);
  world.start(whole);
  await world.operations.close(new Error('the node stops'));
  assert.equal(world.operations.running, 0);
  assert.equal(world.ends.at(-1)?.failure?.error.message, 'the node stops');
  assert.equal(world.start(ofPod('a')).refused, running);
});

test('what is forgotten leaves nothing behind', async (t) => {
  const world = new World(t);
  await world.start(whole).end(new Error('no'));
  world.operations.forget(volume);
  assert.equal(world.operations.failureOf(whole), undefined);
  assert.equal(world.start(whole).refused, undefined);
});

test('the log line of a failure is in the kubelet words', () => {
  const failure = { failedAt: Date.UTC(2026, 7, 20, 18, 59, 46), delayMs: 1000, lastError: 'no "disk"' };
  assert.equal(
    noRetriesMessage(ofPod('a'), failure),
    `Operation for "{volumeName:${volume} podName:a nodeName:}" failed. No retries permitted until 2026-08-20 18:59:47 +0000 UTC (durationBeforeRetry 1s). Error: no "disk"`,
  );
});
