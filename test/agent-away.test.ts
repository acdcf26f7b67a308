/** `mountlet agent` against an API server in another process, which goes away under running pods and comes back. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { eventually, Kubectl } from './kubectl-program.ts';
import { assertNothingLeft, endProcessesOf, processesOf } from './left-behind.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { program } from './mountlet-program.ts';
import { testedRuntime } from './tested-runtime.ts';
import { withNode } from './up-program.ts';

test('pods run on while the API server is away, and have what changed when it is back', withNode, async (t) => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  const state = join(directory, 'state');
  mkdirSync(state);
  let server = await startApiServerProgram(join(directory, 'api'));
  const kubectl = new Kubectl(server.kubeconfig);
  const root = join(state, 'node');
  const where = [
    '--kubeconfig',
    server.kubeconfig,
    '--root-dir',
    root,
    '--node-name',
    'here',
    '--node-ip',
    '127.0.0.1',
  ];
  const runtime = await testedRuntime().start();
  const how = ['--register-with-taints', '', '--port', '0', '--address', '127.0.0.1', '--log-format', 'json'];
  const agent = spawn(process.execPath, [program, 'agent', ...where, ...how, ...runtime.args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(agent, 'exit');
  let told = '';
  agent.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
  t.after(async () => {
    agent.kill('SIGKILL');
    await exited;
    await server.kill();
    endProcessesOf(directory);
    await runtime.close();
    removeWithMounts(directory);
  });
  await once(createInterface({ input: agent.stdout }), 'line');
  await kubectl.apply(
    configMap('config', { key: 'before' }),
    pod(
      'web',
      { script: 'exec sleep 3600', volumeMounts: [mountAt('config', '/etc/config')] },
      { volumes: [{ name: 'config', configMap: { name: 'config' } }] },
    ),
  );
  await kubectl.running('web');
  const [uid = ''] = readdirSync(join(root, 'pods'));
  const file = join(root, 'pods', uid, 'volumes/kubernetes.io~configmap/config/key');
  const processes = processesOf(state);

  await server.kill();
  await eventually(() => assert.match(told, /"level":"warning"/));
  assert.equal(readFileSync(file, 'utf8'), 'before');
  for (const pid of processes) process.kill(pid, 0);
  assert.equal(agent.exitCode, null);

  server = await startApiServerProgram(join(directory, 'api'), { listen: new URL(server.url).host });
  await kubectl.apply(configMap('config', { key: 'after' }));
  await eventually(() => assert.equal(readFileSync(file, 'utf8'), 'after'));
  const count = 'jsonpath={.status.containerStatuses[0].restartCount}';
  assert.equal(await kubectl.ok(['get', 'pod', 'web', '-o', count]), '0');
  await kubectl.ok('delete pod web');
  await eventually(async () => {
    assertNothingLeft(state, agent.pid);
    assert.deepEqual(await runtime.left(), []);
  });
  agent.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null], told);
});
