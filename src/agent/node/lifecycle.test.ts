import assert from 'node:assert/strict';
import { test } from 'node:test';
import { untilAborted } from '../../base/abort.ts';
import { runTogether } from '../../base/run-task.ts';
import { inOrder } from './lifecycle.ts';

/** Runs until it is aborted, and records when it ended. */
const task =
  (name: string, ended: string[]) =>
  async (signal: AbortSignal): Promise<void> => {
    await untilAborted(signal);
    await Promise.resolve();
    ended.push(name);
  };

test('tasks end together, and an abort is not a failure', async () => {
  const ended: string[] = [];
  const stop = new AbortController();
  const running = runTogether([task('a', ended), task('b', ended)], stop.signal);
  stop.abort();
  await running;
  assert.deepEqual(ended.sort(), ['a', 'b']);
});

test('the first failure ends the others and is what the caller gets', async () => {
  const ended: string[] = [];
  const running = runTogether(
    [task('a', ended), () => Promise.reject(new Error('broken'))],
    new AbortController().signal,
  );
  await assert.rejects(running, /broken/);
  assert.deepEqual(ended, ['a']);
});

test('stages end one after the other', async () => {
  const ended: string[] = [];
  const stop = new AbortController();
  const running = inOrder([task('pods', ended)], [task('volumes', ended)], task('events', ended), stop.signal);
  stop.abort();
  await running;
  assert.deepEqual(ended, ['pods', 'volumes', 'events']);
});

test('a stage that fails takes the others with it', async () => {
  const ended: string[] = [];
  const running = inOrder(
    [task('pods', ended)],
    [() => Promise.reject(new Error('no disk'))],
    task('events', ended),
    new AbortController().signal,
  );
  await assert.rejects(running, /no disk/);
  assert.deepEqual(ended.sort(), ['events', 'pods']);
});
