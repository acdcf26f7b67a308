import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { mountHolders } from './mount-holders.ts';

test('what holds a directory is named: a process that stands in it, and one that has a file of it open', async (t) => {
  const directory = join(temporaryDirectory(t), 'volume');
  mkdirSync(directory);
  assert.deepEqual(await mountHolders(directory), []);
  const standing = spawn('sleep', ['60'], { cwd: directory, stdio: 'ignore' });
  await once(standing, 'spawn');
  t.after(() => standing.kill());
  const opened = openSync(join(directory, 'secret-name'), 'w');
  const holders = [...(await mountHolders(directory))].sort();
  closeSync(opened);
  assert.equal(holders.length, 2);
  assert.ok(holders.includes(`process ${standing.pid} (sleep), by its working directory`), holders.join());
  const own = holders.find((holder) => holder.startsWith(`process ${process.pid} `)) ?? '';
  assert.match(own, /, by an open file$/);
  assert.doesNotMatch(own, /secret-name/);
  standing.kill();
  await once(standing, 'exit');
  assert.deepEqual(await mountHolders(directory), []);
});
