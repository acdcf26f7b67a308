/** Ten million opens of a file while its volume is updated once a second, by the plugin and with the time of a node. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../src/base/clock.ts';
import { Timers } from '../src/base/timers.ts';
import { configMapPlugin } from '../src/plugins/configmap.ts';
import { VolumeNode, namesIn } from '../src/testing/worlds/volume-node.ts';

const opener = join(dirname(fileURLToPath(import.meta.url)), 'fixtures', 'volume-opener.js');

test('a file is never missing in ten million opens at one update a second', async (t) => {
  const timers = new Timers(systemClock);
  const stop = new AbortController();
  const ringing = timers.run(stop.signal);
  t.after(async () => {
    stop.abort();
    await ringing;
  });
  const node = new VolumeNode(t, { timers });
  const plugin = configMapPlugin(node.configMaps, node.volumes);
  const update = async (version: number): Promise<void> => {
    node.setConfigMap('web', { a: String(version) });
    await node.setUp(plugin, { name: 'conf', configMap: { name: 'web', defaultMode: 0o644 } });
  };
  await update(0);
  const directory = node.directoryOf(plugin, 'conf');
  const args = [opener, join(directory, 'a'), '10000000'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  await lines.next();
  const result = lines.next();
  let updates = 0;
  while (!(await Promise.race([result.then(() => true), setTimeout(1_000, false)]))) await update((updates += 1));
  assert.deepEqual(JSON.parse(String((await result).value)), { missing: 0 });
  await setTimeout(1_500); // the last replaced version has gone too
  assert.deepEqual(namesIn(directory), ['..data', '<version>', 'a']);
  t.diagnostic(`${updates} updates`);
});
