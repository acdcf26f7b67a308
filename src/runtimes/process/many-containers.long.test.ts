/** A hundred containers, started and stopped: nothing may be left of them. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { ProcessSandboxes, soon } from '../../testing/machine/process-sandboxes.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root to look at all processes and mounts';
const podCount = 100;
const atOnce = 10;

test('a hundred pods started and stopped leave no process, mount, control group or directory', { skip }, async (t) => {
  const sandboxes = await ProcessSandboxes.open(t);
  const mountsBefore = readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length;
  const names = Array.from({ length: podCount }, (_, index) => `pod-${index}`);
  const groups = new Set<string>();
  for (let from = 0; from < podCount; from += atOnce) {
    await Promise.all(
      names.slice(from, from + atOnce).map(async (uid) => {
        await sandboxes.pod({ uid });
        const id = await sandboxes.start(uid);
        for (const line of readFileSync(`/proc/${await pidOf(uid)}/cgroup`, 'utf8').split('\n')) {
          const path = line.slice(line.lastIndexOf(':') + 1);
          if (path.includes(id)) groups.add(`/sys/fs/cgroup/${line.split(':')[1]}${path}`);
        }
      }),
    );
  }
  assert.equal((await sandboxes.runtime.list()).length, podCount);
  await Promise.all(names.map((uid) => sandboxes.runtime.removePod(uid, soon())));
  assert.deepEqual(await sandboxes.runtime.list(), []);
  assert.deepEqual(
    [...groups].filter((group) => existsSync(group)),
    [],
  );
  for (const name of ['exits', 'work', 'containers', 'pods']) {
    assert.deepEqual(readdirSync(`${sandboxes.directory}/state/${name}`), [], name);
  }
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const environments = processes.map((pid) => read(`/proc/${pid}/environ`));
  assert.deepEqual(
    environments.filter((text) => text.includes(sandboxes.directory)),
    [],
  );
  assert.ok(
    readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length <= mountsBefore + 5,
    'others mount too, but not so much',
  );

  async function pidOf(uid: string): Promise<number> {
    const state = (await sandboxes.runtime.get(uid))?.containers[0]?.state;
    return state?.kind === 'running' ? (state.pid ?? 0) : 0;
  }
});

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
