/** An unmount that cannot succeed, with the real plugin, a real tmpfs and a real process in it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { mountHolders } from '../disk/mounts/mount-holders.ts';
import { systemMounts } from '../disk/mounts/mounts.ts';
import { emptyDirPlugin } from '../plugins/empty-dir.ts';
import { VolumeNode } from '../testing/worlds/volume-node.ts';
import { VolumeWorld, podUsing } from '../testing/worlds/volume-world.ts';
import { asPodUid } from './volume-name.ts';

const { unavailable } = systemMounts();

test('a process that stands in a tmpfs keeps it mounted, and is named', { skip: unavailable ?? false }, async (t) => {
  const { root, nodes, emptyDirectories } = new VolumeNode(t);
  const plugins = [emptyDirPlugin({ nodes, emptyDirectories })];
  const world = new VolumeWorld(t, { root, plugins, deps: { mountHolders } });
  await world.start();
  await world.put(podUsing('web', [{ name: 'scratch', emptyDir: { medium: 'Memory' } }]));
  const directory = world.manager.queries.mountedVolumesOf(asPodUid('web')).get('scratch')?.path ?? '';
  const standing = spawn('sleep', ['60'], { cwd: directory, stdio: 'ignore' });
  t.after(() => standing.kill());
  await once(standing, 'spawn');

  await world.remove('web');
  for (const delayMs of [501, 1_001]) await world.advance(delayMs);
  const holders = async (): Promise<readonly string[]> => {
    for (;;) {
      const last = world.notices.findLast((notice) => notice.kind === 'OperationFailed');
      if (last?.stuck !== undefined) return last.stuck.holders;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  assert.deepEqual(await holders(), [`process ${standing.pid} (sleep), by its working directory`]);
  assert.ok(existsSync(directory));
  standing.kill();
  await once(standing, 'exit');
  await world.advance(2_001);
  assert.equal(existsSync(directory), false);
  assert.deepEqual(world.states(), []);
});
