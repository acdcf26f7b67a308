/** Sandboxes of a user who is not root. As root, this file runs itself as one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  ProcessSandboxes,
  containerRequest,
  mount,
  podRequest,
  security,
  soon,
} from '../../testing/machine/process-sandboxes.ts';

const self = fileURLToPath(import.meta.url);
const nobody = 65534;

if (process.getuid?.() === 0) {
  test('all of this holds for an ordinary user', (t) => {
    const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
    const asNobody = { uid: nobody, gid: nobody, env, cwd: '/', encoding: 'utf8' } as const;
    if (spawnSync('test', ['-r', self], asNobody).status !== 0) return t.skip('needs sources that others may read');
    if (spawnSync('unshare', ['--user', '--map-root-user', 'true'], asNobody).status !== 0) {
      return t.skip('needs user namespaces: this machine permits none');
    }
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--test-reporter=spec', self], asNobody);
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /pass [1-9]/);
  });
} else {
  test('a container has its volumes on a read-only machine, and cannot see the state of the runtime', async (t) => {
    const sandboxes = await ProcessSandboxes.open(t);
    const pod = await sandboxes.pod();
    const config = sandboxes.volume('config');
    writeFileSync(join(config, 'redis.conf'), 'maxmemory 2mb\n');
    const script = `cat /etc/config/redis.conf; echo mine >/data/file && cat /data/file; id -u
      for path in /etc/x /etc/config/x /usr/x ${sandboxes.directory}/x; do ! touch "$path" 2>/dev/null || echo "wrote $path"; done
      ls ${sandboxes.directory}/state/containers 2>/dev/null; touch /tmp/x /run/x /dev/shm/x; echo "$SECRET"; exit 4`;
    const { state, output } = await sandboxes.run(pod, script, {
      environment: [{ name: 'SECRET', value: 'a\nb' }],
      mounts: [mount(config, '/etc/config', { readOnly: true }), mount(sandboxes.volume('data'), '/data')],
    });
    assert.equal(output, 'maxmemory 2mb\nmine\n0\na\nb\n');
    assert.equal(state.exitCode, 4);
  });

  test('exec, stop and restart', async (t) => {
    const sandboxes = await ProcessSandboxes.open(t);
    const pod = await sandboxes.pod({ hostNetwork: true });
    const id = await sandboxes.start(pod, { environment: [{ name: 'A', value: 'b' }] });
    await sandboxes.reopen();
    assert.deepEqual(await sandboxes.exec(id, ['sh', '-c', 'echo $A; exit 3']), { code: 3, output: 'b\n' });
    await sandboxes.idles(id);
    await sandboxes.runtime.stopContainer(id, 3_600_000, soon());
    assert.equal((await sandboxes.ended(pod, id)).exitCode, 143);
  });

  test('what only root can do is refused in words', async (t) => {
    const sandboxes = await ProcessSandboxes.open(t);
    const pod = podRequest(sandboxes.directory);
    const told = (given: Parameters<typeof security>[0]): string | undefined =>
      sandboxes.runtime.unsupported(pod, containerRequest(pod.uid, { security: security(given) }));
    assert.equal(told({ uid: nobody }), undefined);
    assert.match(told({ uid: 1 }) ?? '', /^containers as user 1:65534 need the process runtime to run as root/);
    assert.match(told({ privileged: true }) ?? '', /^privileged containers need/);
    assert.match(told({ supplementalGroups: [5] }) ?? '', /^supplemental group 5 needs/);
  });
}
