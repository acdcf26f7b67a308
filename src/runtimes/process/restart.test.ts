/** A runtime that is killed with SIGKILL under its containers. This file is also the program that gets killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../base/clock.ts';
import {
  ProcessSandboxes,
  containerRequest,
  mount,
  podRequest,
  soon,
} from '../../testing/machine/process-sandboxes.ts';
import { openProcessRuntime } from './machine.ts';
import { defaultProcessRuntimeSettings } from './process-runtime.ts';

const self = fileURLToPath(import.meta.url);
const victim = process.env['MOUNTLET_TEST_VICTIM'];

if (victim === undefined) {
  const skip = process.getuid?.() === 0 ? false : 'needs root: ordinary-user.test.ts has what holds for others';

  test('after kill -9 containers go on, are adopted with their exit codes, and miss no line', { skip }, async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'mountlet-restart-'));
    mkdirSync(join(directory, 'flag'));
    const program = spawn(process.execPath, [self], {
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, MOUNTLET_TEST_VICTIM: directory },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [said] = (await once(program.stdout, 'data')) as [Buffer];
    program.kill('SIGKILL');
    await once(program, 'exit');
    const [id = '', running = ''] = said.toString().trim().split(' ');

    // It ends while no runtime is there to see it.
    writeFileSync(join(directory, 'flag', 'go'), '');
    const sandboxes = await ProcessSandboxes.open(t, {}, directory);
    const { exitCode, reason } = await sandboxes.ended('pod-1', id);
    assert.deepEqual([exitCode, reason], [6, 'Error']);
    const lines = (await sandboxes.output('pod-1', id)).trim().split('\n');
    assert.deepEqual(
      [...new Set(lines)],
      Array.from({ length: 1000 }, (_, index) => String(index + 1)),
    );
    assert.deepEqual(await sandboxes.exec(running, ['sh', '-c', 'echo "$SECRET"']), { code: 0, output: 'kept\n' });
    await sandboxes.idles(running);
    await sandboxes.runtime.stopContainer(running, 3_600_000, soon());
    assert.equal((await sandboxes.ended('pod-1', running)).exitCode, 143);
  });
} else {
  const settings = { ...defaultProcessRuntimeSettings, stateDirectory: join(victim, 'state') };
  const runtime = await openProcessRuntime(settings, { clock: systemClock, report: () => {} });
  await runtime.runPod(podRequest(victim), soon());
  const script =
    'i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); echo $i; [ $i != 500 ] || until [ -e /flag/go ]; do sleep 0.01; done; done; exit 6';
  const mounts = [mount(join(victim, 'flag'), '/flag')];
  const id = await runtime.createContainer(containerRequest('pod-1', { command: ['sh', '-c', script], mounts }));
  const environment = [{ name: 'SECRET', value: 'kept' }];
  const running = await runtime.createContainer(containerRequest('pod-1', { name: 'idle', environment }));
  await runtime.startContainer(id, soon());
  await runtime.startContainer(running, soon());
  process.stdout.write(`${id} ${running}\n`);
  await new Promise(() => setInterval(() => {}, 1000));
}
