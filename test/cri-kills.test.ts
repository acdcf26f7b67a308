/** The agent is killed while it starts a pod in containerd. The long test does it at every call. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KilledStarts } from './fixtures/cri-kills.ts';
import { containerdRuntime } from './tested-runtime.ts';
import { withNode } from './up-program.ts';

const skip = withNode.skip || containerdRuntime.skip;

test('killed before, after and in the middle of a start, the next agent makes one pod of it', { skip }, async (t) => {
  const starts = await KilledStarts.open(t);
  assert.match((await starts.check(1, 'answered')) ?? '', /^RunPodSandbox/);
  for (const call of [4, 7]) t.diagnostic(`killed at ${await starts.check(call, 'answered')}`);
});
