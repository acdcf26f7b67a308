/** The help keeps its word: the examples of every command run as they stand, where there is what they name; so do the services. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { EmptyMachine } from './empty-machine.ts';
import { eventually, noKubectl } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { isRoot, mountlet, program } from './mountlet-program.ts';

const examples = ['', ...commandsOf('')].map((command) => ({ command, lines: examplesOf(command) }));

/** `up`, `apiserver`, `apiserver backup` ... */
function commandsOf(command: string): string[] {
  const [, list = ''] = /^Commands:\n((?: {2}.*\n)+)/m.exec(helpOf(command)) ?? [];
  const names = [...list.matchAll(/^ {2}(\w\S*)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
  return names.map((name) => `${command} ${name}`.trim()).flatMap((name) => [name, ...commandsOf(name)]);
}

function examplesOf(command: string): string[] {
  const [, list = ''] = /^Examples?:\n((?: {2}.*\n)+)/m.exec(helpOf(command)) ?? [];
  return list.split('\n').flatMap((line) => (line === '' ? [] : [line.trim()]));
}

function helpOf(command: string): string {
  const { code, stdout } = mountlet([...command.split(' ').filter((word) => word !== ''), '--help']);
  assert.equal(code, 0, command);
  return stdout;
}

/** What a server prints when the next line can run. */
const ready: Readonly<Record<string, RegExp>> = {
  up: /^Try, in another terminal:/m,
  apiserver: /^API server is ready/m,
  controllers: /^running on /m,
};

/** What has to run before the examples of a command. */
const first: Readonly<Record<string, string>> = {
  get: 'mountlet up --drain app.yaml',
  controllers: 'mountlet apiserver --data ./data --controllers=none --scheduler=none',
};

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
before(() => {
  mkdirSync(join(directory, 'bin'));
  mkdirSync(join(directory, 'manifests'));
  symlinkSync(program, join(directory, 'bin', 'mountlet'));
  symlinkSync(fileURLToPath(new URL('../../examples', import.meta.url)), join(directory, 'examples'));
  symlinkSync('data/kubeconfig', join(directory, 'admin.conf'));
  const container = { volumeMounts: [mountAt('web', '/etc/web')] };
  const objects = [
    configMap('web', { key: 'value' }),
    pod('web', container, { volumes: [{ name: 'web', configMap: { name: 'web' } }] }),
  ];
  const app = objects.map((object) => JSON.stringify(object)).join('\n---\n');
  for (const file of ['app.yaml', 'manifests/app.yaml']) writeFileSync(join(directory, file), app);
  // A chart is what its templates become.
  writeFileSync(join(directory, 'bin', 'helm'), `#!/bin/sh\ncat ${join(directory, 'app.yaml')}\n`, { mode: 0o755 });
});
after(() => rmSync(directory, { recursive: true, force: true }));

/** Runs a line to its end, and a server until it is ready. */
async function run(machine: EmptyMachine, line: string): Promise<void> {
  const [, server = ''] = /^mountlet (\w+)/.exec(line) ?? [];
  const isReady = ready[server];
  if (isReady === undefined) return void (await machine.run(line));
  // Pods go with their machine.
  const child = machine.start(line.replace(/ &$/, '').replace(/^mountlet up /, 'mountlet up --drain '));
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: string) => (printed += text));
  await eventually(() => assert.match(printed, isReady));
}

test('there are commands, and some have examples', () => {
  const names = examples.map(({ command }) => command);
  assert.ok(names.includes('up') && names.includes('apiserver rotate-keys'), names.join());
  assert.ok(examples.filter(({ lines }) => lines.length > 0).length >= 5);
});

const path = `${join(directory, 'bin')}:${process.env['PATH']}`;
const surroundings = { directory, env: { HOME: directory, PATH: path } };
const skip = !isRoot ? 'needs root: the lines are those of root' : noKubectl;
for (const { command, lines } of examples) {
  if (lines.length === 0) continue;
  test(`the examples of mountlet ${command} run`, { skip }, async (t) => {
    const machine = await EmptyMachine.open(surroundings);
    t.after(async () => {
      await machine.close();
      rmSync(join(directory, 'data'), { recursive: true, force: true });
    });
    for (const line of [first[command], ...lines]) if (line !== undefined) await run(machine, line);
  });
}

const units = fileURLToPath(new URL('../../examples/systemd/', import.meta.url));
for (const unit of readdirSync(units)) {
  test(`the command of ${unit} starts, or names the settings that are missing`, { skip }, async (t) => {
    const machine = await EmptyMachine.open(surroundings);
    t.after(() => machine.close());
    const [, line = ''] = /^ExecStart=\/usr\/bin\/env (.+)$/m.exec(readFileSync(join(units, unit), 'utf8')) ?? [];
    const child = machine.start(line);
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: string) => (printed += text));
    await eventually(() => assert.match(printed, /"kind":"NodeRunning"|"level":"error".*\/etc\/mountlet\/agent\.yaml/));
  });
}
