import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TerminalSizes } from './remote-command.ts';

async function all(sizes: TerminalSizes): Promise<unknown[]> {
  const seen: unknown[] = [];
  for await (const size of sizes) seen.push(size);
  return seen;
}

test('TerminalSizes reads sizes cut anywhere and keeps the newest', async () => {
  const sizes = new TerminalSizes();
  for (const piece of ['{"Width":1,"Hei', 'ght":2}\n{"Width":80,', '"Height":24}\n']) sizes.add(Buffer.from(piece));
  sizes.end();
  assert.deepEqual(await all(sizes), [{ columns: 80, rows: 24 }]);
});

test('TerminalSizes skips invalid sizes, and buffers little of them', async () => {
  const sizes = new TerminalSizes();
  for (const text of [
    '{}',
    '{"Width":-1,"Height":2}',
    '{"Width":1e9,"Height":2}',
    '{x}',
    'x'.repeat(100_000),
    '{"Width":3,"Height":4}',
  ]) {
    sizes.add(Buffer.from(text));
  }
  sizes.end();
  assert.deepEqual(await all(sizes), [{ columns: 3, rows: 4 }]);
});
