import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns, atOnce } from './turns.ts';
import type { Steps } from './turns.ts';

/** A clock that a job moves: each of its steps takes a millisecond. */
class Work {
  nowMs = 1_000;
  readonly log: string[] = [];
  readonly turns = new Turns(() => this.nowMs);

  *job(name: string, steps: number): Steps<string> {
    try {
      for (let step = 0; step < steps; step += 1) {
        this.nowMs += 1;
        this.log.push(name);
        yield;
      }
      return name;
    } finally {
      this.log.push(`${name} ends`);
    }
  }

  /** Counts the turns of the event loop until all are done. */
  async turnsOf(...jobs: readonly Promise<unknown>[]): Promise<number> {
    const done = new AbortController();
    const all = Promise.all(jobs).then(() => done.abort());
    let count = 0;
    for (; !done.signal.aborted; count += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      this.log.push('-');
    }
    await all;
    return count;
  }
}

test('a job that fits into a turn is done in the one in which it began', async () => {
  const work = new Work();
  const running = work.turns.run(work.job('a', 4));
  assert.equal(work.log.join(' '), `${'a '.repeat(4)}a ends`);
  assert.equal(await running, 'a');
  assert.equal(atOnce(work.job('b', 100)), 'b');
});

test('others have their turn between those of a long job, and of several long jobs one goes on at a time', async () => {
  const work = new Work();
  const running = [work.turns.run(work.job('a', 12)), work.turns.run(work.job('b', 7))];
  const [a, b] = ['a '.repeat(5), 'b '.repeat(5)];
  assert.equal(`${work.log.join(' ')} `, a + b);
  await work.turnsOf(...running);
  assert.equal(work.log.join(' '), `${a}${b}${a}- b b b ends - a a a ends -`);
});

test('a clock that was set back ends a turn and no more', async () => {
  const work = new Work();
  const running = work.turns.run(work.job('a', 10));
  work.nowMs -= 3_600_000;
  assert.ok((await work.turnsOf(running)) < 4);
});

test('what a job throws is the failure of its run, and an abort is thrown into it', async () => {
  const work = new Work();
  const aborter = new AbortController();
  const running = work.turns.run(work.job('a', 100), aborter.signal);
  aborter.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
  assert.equal(work.log.join(' '), `${'a '.repeat(5)}a ends`);
});
