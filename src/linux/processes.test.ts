import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { loadProcesses } from './processes.ts';

test('each of many receivers gets its own message, whatever is collected while they wait', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const processes = loadProcesses();
  // Often enough for the code to be optimized: before, a function keeps all of its variables to its end.
  for (let round = 0; round < 300; round += 1) {
    // More than there are threads to wait on: the rest is queued.
    const pairs = Array.from({ length: 20 }, () => processes.socketPair());
    const messages = pairs.map(([receiver]) => processes.receive(receiver));
    if (round % 10 === 0) collect();
    const reused = Array.from({ length: 200 }, () => [Buffer.alloc(16, 0xff), Buffer.alloc(64, 0xff)]);
    await new Promise((resolve) => setImmediate(resolve));
    for (const [index, [, sender]] of pairs.entries()) processes.send(sender, `message ${index}`);
    const texts = (await Promise.all(messages)).map((message) => message?.bytes.toString());
    const sent = pairs.map((_, index) => `message ${index}`);
    assert.deepEqual(texts, sent, `round ${round}, with ${reused.length} more pieces of memory`);
    for (const descriptor of pairs.flat()) processes.close(descriptor);
  }
});
