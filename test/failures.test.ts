/** Servers go on whatever becomes of their output; a bug ends them with its stack, and harms no pod. */
import assert from 'node:assert/strict';
import { type StdioOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { removeWithMounts } from '../src/testing/machine/temporary-directory.ts';
import { Kubectl, eventually } from './kubectl-program.ts';
import { endProcessesOf } from './left-behind.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { mountlet, program } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

interface Server {
  readonly directory: string;
  /** SIGTERM; resolves to the exit code. */
  stop(): Promise<number | null>;
}

/** `stdio` of what it prints: a descriptor, or `closed` for a pipe whose reader has gone. */
function startServer(
  t: TestContext,
  args: (directory: string) => readonly string[],
  output: number | 'closed',
  prepare: (directory: string) => Readonly<Record<string, string>> = () => ({}),
): Server {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  const stdio: StdioOptions = output === 'closed' ? ['ignore', 'pipe', 'pipe'] : ['ignore', output, output];
  const child = spawn(process.execPath, [program, ...args(directory)], {
    stdio,
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...prepare(directory) },
  });
  child.stdout?.destroy();
  child.stderr?.destroy();
  const exited = once(child, 'exit') as Promise<[number | null]>;
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
    endProcessesOf(directory);
    removeWithMounts(directory);
  });
  return {
    directory,
    async stop() {
      child.kill('SIGTERM');
      return (await exited)[0];
    },
  };
}

const told = { volumeMounts: [mountAt('config', '/etc/config'), mountAt('told', '/told')] };
/** Says in a file of the machine what it was given. */
const teller = (name: string, directory: string): object =>
  pod(
    name,
    { ...told, script: `cat /etc/config/key >/told/${name}; exec sleep infinity` },
    {
      volumes: [
        { name: 'config', configMap: { name: 'config' } },
        { name: 'told', hostPath: { path: join(directory, 'told') } },
      ],
    },
  );

for (const output of ['full', 'closed'] as const) {
  const descriptor = (t: TestContext): number | 'closed' => {
    if (output === 'closed') return output;
    const full = openSync('/dev/full', 'w');
    t.after(() => closeSync(full));
    return full;
  };

  test(`up serves and runs pods when its output is ${output}`, withNode, async (t) => {
    const given = (state: string): readonly string[] => ['up', '--state', state, '--listen', '127.0.0.1:0', '--drain'];
    const server = startServer(t, (directory) => given(join(directory, 'state')), descriptor(t));
    mkdirSync(join(server.directory, 'told'));
    const kubectl = new Kubectl(join(server.directory, 'state', 'kubeconfig'));
    await eventually(async () => assert.equal((await kubectl.run(['get', '--raw', '/readyz'])).code, 0));
    await kubectl.apply(configMap('config', { key: 'value' }), teller('web', server.directory));
    await kubectl.running('web');
    await eventually(() => assert.equal(readFileSync(join(server.directory, 'told', 'web'), 'utf8'), 'value'));
    assert.equal(await server.stop(), 0);
  });

  test(`an agent runs pods when its output is ${output}`, withNode, async (t) => {
    const given = (directory: string): readonly string[] => [
      'agent',
      '--drain',
      '--port',
      '0',
      '--root-dir',
      join(directory, 'state', 'node'),
      '--manifests',
      join(directory, 'manifests'),
    ];
    const server = startServer(t, given, descriptor(t));
    for (const name of ['told', 'manifests']) mkdirSync(join(server.directory, name));
    const write = (file: string, object: object): void =>
      writeFileSync(join(server.directory, 'manifests', file), JSON.stringify(object));
    write('config.yaml', configMap('config', { key: 'value' }));
    for (const name of ['one', 'two']) {
      write(`${name}.yaml`, teller(name, server.directory));
      await eventually(() => assert.equal(readFileSync(join(server.directory, 'told', name), 'utf8'), 'value'));
    }
    assert.equal(await server.stop(), 0);
  });
}

test('data that cannot be printed is a failure', () => {
  const full = openSync('/dev/full', 'w');
  try {
    const { status, stderr } = spawnSync(process.execPath, [program, '--help'], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.match(stderr, /ENOSPC/);
  } finally {
    closeSync(full);
  }
});

test('a bug ends the program with its stack and a failure, and the next start adopts the pods', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const planted = new URL('../../test/fixtures/reject-on-signal.mjs', import.meta.url);
  process.env['NODE_OPTIONS'] = `--import=${pathToFileURL(planted.pathname).href}`;
  t.after(() => delete process.env['NODE_OPTIONS']);
  const first = await machine.start('--drain');
  await machine.kubectl.apply(pod('web'));
  await machine.kubectl.running('web');
  const id = 'jsonpath={.status.containerStatuses[0].containerID}';
  const before = await machine.kubectl.ok(['get', 'pod', 'web', '-o', id]);
  const exited = once(first.process, 'exit');
  first.process.kill('SIGUSR2');
  assert.deepEqual(await exited, [1, null]);
  const stack = /^error: unexpected failure\nError: planted\n {4}at process/m;
  await eventually(() => assert.match(first.output(), stack));
  await machine.start();
  await machine.kubectl.running('web');
  assert.equal(await machine.kubectl.ok(['get', 'pod', 'web', '-o', id]), before, 'the same container');
  const restarts = 'jsonpath={.status.containerStatuses[0].restartCount}';
  assert.equal(await machine.kubectl.ok(['get', 'pod', 'web', '-o', restarts]), '0');
});

test('up does not run kubectl, which might ask the server that waits for it', withNode, async (t) => {
  const given = (state: string): readonly string[] => ['up', '--state', state, '--listen', '127.0.0.1:0', '--drain'];
  const server = startServer(
    t,
    (directory) => given(join(directory, 'state')),
    'closed',
    (directory) => {
      const script = `#!/bin/sh\ntouch ${join(directory, 'ran')}\nexec sleep infinity\n`;
      writeFileSync(join(directory, 'kubectl'), script, { mode: 0o755 });
      return { PATH: `${directory}:${process.env['PATH']}` };
    },
  );
  const kubeconfig = join(server.directory, 'state', 'kubeconfig');
  await eventually(() => assert.equal(mountlet(['get', 'nodes', '--kubeconfig', kubeconfig, '-o', 'name']).code, 0));
  assert.equal(await server.stop(), 0);
  assert.equal(existsSync(join(server.directory, 'ran')), false);
});
