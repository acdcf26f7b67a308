/** The agent is killed at every call that starts a pod in containerd: before the runtime hears of it, and when it has answered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KilledStarts, type Moment } from './fixtures/cri-kills.ts';
import { containerdRuntime } from './tested-runtime.ts';
import { withNode } from './up-program.ts';

const skip = withNode.skip || containerdRuntime.skip;
const callsMax = 64;

for (const moment of ['asked', 'answered'] satisfies Moment[]) {
  test(
    `killed at every call that the runtime ${moment === 'asked' ? 'never hears' : 'has answered'}`,
    { skip },
    async (t) => {
      const starts = await KilledStarts.open(t);
      const methods: string[] = [];
      for (let call = 1; call < callsMax; call += 1) {
        const method = await starts.check(call, moment);
        if (method === undefined) break;
        methods.push(method);
      }
      t.diagnostic(methods.join(', '));
      for (const method of ['RunPodSandbox', 'CreateContainer', 'StartContainer'])
        assert.ok(
          methods.some((one) => one.startsWith(method)),
          method,
        );
      assert.ok(methods.length < callsMax - 1);
    },
  );
}
