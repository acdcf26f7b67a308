import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SchedulingQueue, type WaitingPod } from './scheduling-queue.ts';

const pod = (key: string, priority = 0, createdMs = 0, what = 'a'): WaitingPod => ({
  key,
  group: `${priority} ${what}`,
  priority,
  createdMs,
});

/** All keys, in the order in which they have their turn. */
function drained(queue: SchedulingQueue<WaitingPod>): readonly string[] {
  const keys: string[] = [];
  for (let next = queue.next(); next !== undefined; next = queue.next()) {
    keys.push(next.key);
    queue.delete(next.key);
  }
  return keys;
}

test('the most important pod is first, then the oldest, then the first that came', () => {
  const queue = new SchedulingQueue<WaitingPod>();
  queue.put(pod('late', 0, 2));
  queue.put(pod('early', 0, 1, 'b'));
  queue.put(pod('second', 0, 1));
  queue.put(pod('high', 9, 3));
  queue.put(pod('low', -1, 0));
  assert.deepEqual(drained(queue), ['high', 'early', 'second', 'late', 'low']);
});

test('pods that ask for the same wait together and wake together, and others pass them', () => {
  const queue = new SchedulingQueue<WaitingPod>();
  for (const one of [pod('large-1', 5), pod('large-2', 5), pod('small', 0, 0, 'b')]) queue.put(one);
  queue.park('large-1', 'no room');
  queue.put(pod('large-3', 5));
  assert.equal(queue.next()?.key, 'small');
  assert.deepEqual(
    ['large-1', 'large-3', 'small'].map((key) => queue.problemOf(key)),
    ['no room', 'no room', undefined],
  );
  assert.deepEqual(
    queue.parked().map(({ key }) => key),
    ['large-1'],
  );
  queue.wake('large-2');
  assert.equal(queue.problemOf('large-1'), undefined);
  assert.deepEqual(drained(queue), ['large-1', 'large-2', 'large-3', 'small']);
});

test('a pod that asks for something else leaves its group, and one that is seen again keeps its turn', () => {
  const queue = new SchedulingQueue<WaitingPod>();
  queue.put(pod('one'));
  queue.put(pod('two'));
  queue.put(pod('one'));
  assert.deepEqual(
    queue.membersOf('one').map(({ key }) => key),
    ['one', 'two'],
  );
  queue.park('one', 'no room');
  queue.put(pod('one', 0, 0, 'b'));
  assert.deepEqual(drained(queue), ['one']);
  assert.equal(queue.problemOf('two'), 'no room');
});

test('whatever happens, the turn is that of the best pod of no parked group', () => {
  const step = fc.record({
    act: fc.constantFrom('put', 'delete', 'park', 'wake'),
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    priority: fc.nat(2),
    createdMs: fc.nat(3),
    what: fc.constantFrom('x', 'y'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const queue = new SchedulingQueue<WaitingPod>();
      const there = new Map<string, WaitingPod>();
      const parked = new Set<string>();
      for (const { act, key, priority, createdMs, what } of steps) {
        const known = there.get(key);
        if (act === 'put') {
          const one = pod(key, priority, createdMs, what);
          queue.put(one);
          there.set(key, one);
        } else if (act === 'delete') {
          queue.delete(key);
          there.delete(key);
        } else {
          queue[act](key, 'no room');
          if (known !== undefined) parked[act === 'park' ? 'add' : 'delete'](known.group);
        }
        // A group without pods is forgotten, and with it what was wrong.
        for (const group of parked) if (![...there.values()].some((one) => one.group === group)) parked.delete(group);
        const ready = [...there.values()].filter(({ group }) => !parked.has(group));
        const [best] = ready.toSorted((a, b) => b.priority - a.priority || a.createdMs - b.createdMs);
        const next = queue.next();
        assert.deepEqual([next?.priority, next?.createdMs], [best?.priority, best?.createdMs]);
        assert.equal(next === undefined || ready.includes(next), true);
        assert.deepEqual(
          queue
            .parked()
            .map(({ group }) => group)
            .toSorted(),
          [...parked].toSorted(),
        );
      }
    }),
  );
});
