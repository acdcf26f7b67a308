/** Static pods: a folder of manifests as the source of pods and of their objects, with an API server and without any. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';
import { eventually } from './kubectl-program.ts';
import { assertNothingLeft, endProcessesOf } from './left-behind.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { isRoot, program } from './mountlet-program.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const webPod = pod(
  'web',
  { volumeMounts: [mountAt('config', '/etc/config')] },
  { volumes: [{ name: 'config', configMap: { name: 'web' } }] },
);

/** As editors that are careful do it. */
function save(folder: string, name: string, ...objects: readonly object[]): void {
  const draft = join(folder, `.${name}.draft`);
  writeFileSync(draft, objects.map((object) => JSON.stringify(object)).join('\n---\n'));
  renameSync(draft, join(folder, name));
}

test('a static pod runs, is mirrored, follows its folder, and goes with its file', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const folder = join(machine.directory, 'manifests');
  mkdirSync(folder);
  save(folder, 'pod.yaml', webPod);
  save(folder, 'config.yaml', configMap('web', { key: 'one' }));
  const { kubectl, output } = await machine.start('--manifests', folder, '--node-name', 'here');
  await kubectl.ok('wait --for=create pod/web-here --timeout=120s');
  await kubectl.running('web-here');
  const inside = async (content: string): Promise<void> =>
    eventually(async () => assert.equal(await kubectl.exec('web-here', 'cat', '/etc/config/key'), content));
  await inside('one');
  const id = 'jsonpath={.status.containerStatuses[0].containerID}';
  const before = await kubectl.ok(['get', 'pod', 'web-here', '-o', id]);
  save(folder, 'config.yaml', configMap('web', { key: 'two' }));
  await inside('two');

  writeFileSync(join(folder, 'pod.yaml'), '{"apiVersion": "v1", "kind": "Po');
  writeFileSync(join(folder, 'config.yaml'), 'data: [');
  await eventually(() => {
    assert.match(output(), /error: pod\.yaml:1:\d+: .*; what it said before still holds$/m);
    assert.match(output(), /error: config\.yaml:1:\d+: .*; what it said before still holds$/m);
  });
  await inside('two');
  assert.equal(await kubectl.ok(['get', 'pod', 'web-here', '-o', id]), before, 'the same container');

  save(folder, 'pod.yaml', webPod);
  save(folder, 'config.yaml', configMap('web', { key: 'three' }));
  await inside('three');
  assert.equal(await kubectl.ok(['get', 'pod', 'web-here', '-o', id]), before);

  await kubectl.ok('delete pod web-here --grace-period=0 --force');
  await kubectl.ok('wait --for=create pod/web-here --timeout=120s');
  await inside('three');
  // Only its mirror was deleted.
  await kubectl.until('pod/web-here', '{.status.containerStatuses[0].containerID}', before);

  rmSync(join(folder, 'pod.yaml'));
  await kubectl.ok('wait --for=delete pod/web-here --timeout=120s');
  await machine.up.assertNothingLeft();
});

test('an agent with a folder of manifests needs no cluster', async (t) => {
  if (!isRoot) return t.skip('needs root: an ordinary user has no mounts');
  if (testedRuntime().skip !== false) return t.skip(`${testedRuntime().skip}`);
  const runtime = await testedRuntime().start();
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  const [folder, state] = [join(directory, 'manifests'), join(directory, 'state')];
  mkdirSync(folder);
  save(folder, 'web.yaml', configMap('web', { key: 'one' }), webPod);
  const root = join(state, 'node');
  const args = [
    'agent',
    '--root-dir',
    root,
    '--manifests',
    folder,
    '--node-name',
    'here',
    '--port',
    '0',
    ...runtime.args,
  ];
  const agent = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
  });
  const exited = once(agent, 'exit');
  t.after(async () => {
    agent.kill('SIGKILL');
    await exited;
    endProcessesOf(directory);
    await runtime.close();
    removeWithMounts(directory);
  });
  const [line] = (await once(createInterface({ input: agent.stdout }), 'line')) as [string];
  assert.match(line, /^node here without an API server is running/);
  const content = (): string => {
    const [uid = ''] = readdirSync(join(root, 'pods'));
    return readFileSync(join(root, 'pods', uid, 'volumes/kubernetes.io~configmap/config/key'), 'utf8');
  };
  await eventually(() => assert.equal(content(), 'one'));
  save(folder, 'web.yaml', configMap('web', { key: 'two' }), webPod);
  await eventually(() => assert.equal(content(), 'two'));
  rmSync(join(folder, 'web.yaml'));
  await eventually(async () => {
    assertNothingLeft(state, agent.pid);
    assert.deepEqual(await runtime.left(), []);
  });
  agent.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null]);
});
