/** What `mountlet up` and `mountlet doctor` say when something is wrong with the machine, its settings or its manifests. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { eventually } from './kubectl-program.ts';
import { pod } from './manifests.ts';
import { isRoot, mountlet, program, rootDirectory } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const up = (directory: string, ...args: readonly string[]): readonly string[] => [
  'up',
  '--state',
  join(directory, 'state'),
  '--listen',
  '127.0.0.1:0',
  ...args,
];

function assertFails(args: readonly string[], says: RegExp): string {
  const { code, stdout, stderr } = mountlet(args);
  assert.equal(code, 1, `${stdout}${stderr}`);
  assert.match(stderr, says);
  assert.match(stderr, /^error: /, 'in words, not as a stack trace');
  assert.doesNotMatch(stderr, /\n {4}at /);
  return stderr;
}

test('a port in use is named', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  assertFails(
    [...up(temporaryDirectory(t)), '--listen', `127.0.0.1:${port}`],
    new RegExp(`127\\.0\\.0\\.1:${port}.*another program listens`),
  );
});

test('a second instance on one state directory is refused, and the first goes on', async (t) => {
  if (!isRoot) return t.skip('needs root: a node of an ordinary user is another test');
  const machine = new UpMachine();
  t.after(() => machine.end());
  const first = await machine.start();
  assertFails(up(machine.directory), /another|already|in use|locked/i);
  assert.equal(first.process.exitCode, null);
});

test('files that are wrong are named with the place in them', (t) => {
  const directory = temporaryDirectory(t);
  const file = (name: string, content: string): string => {
    writeFileSync(join(directory, name), content);
    return join(directory, name);
  };
  const config = 'apiVersion: mountlet.dev/v1alpha1\nkind: AgentConfiguration\n';
  assertFails(up(directory, '--config', file('a.yaml', `${config}syncFrequncy: 1m\n`)), /a\.yaml.*syncFrequncy/s);
  assertFails(up(directory, '--config', file('b.yaml', `${config}syncFrequency: soon\n`)), /syncFrequency/);
  assertFails(up(directory, '--config', join(directory, 'missing.yaml')), /missing\.yaml/);
  assertFails(up(directory, '--apply', join(directory, 'missing.yaml')), /missing\.yaml/);
  const broken = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{nam: x}]}\n';
  assertFails(up(directory, '--apply', file('c.yaml', broken)), /c\.yaml.*nam/s);
});

test('of files with something that is refused the rest is applied, and up goes on', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const file = join(machine.directory, 'mixed.yaml');
  const objects = ['kind: ConfigMap, apiVersion: v1', 'kind: Widget, apiVersion: example.com/v1'];
  const nested = '{kind: ConfigMap, apiVersion: v1, metadata: {name: nested}, data: {a.yml: {port: 1}}}\n';
  writeFileSync(file, [...objects.map((type) => `{${type}, metadata: {name: mixed}}\n`), nested].join('---\n'));
  const started = await machine.start(file);
  await eventually(() => assert.match(started.output(), /^configmap\/mixed created$/m));
  await eventually(() =>
    assert.match(started.output(), /mixed\.yaml:3:1: Widget "mixed": no matches for kind "Widget"/),
  );
  await eventually(() => assert.match(started.output(), /2 of 3 objects were refused; the others are applied/));
  assert.match(started.output(), /mixed\.yaml:5:\d+: ConfigMap "nested": data\[a\.yml\]: .* write "a\.yml: \|"/);
  assert.equal(await started.kubectl.ok('get cm mixed -o name'), 'configmap/mixed\n');
});

test('up shows a pod that runs, and not one whose program is not there', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const file = join(machine.directory, 'pods.yaml');
  const pods = [pod('absent', { command: ['no-such-program'] }), pod('works', { script: 'exec sleep 1000' })];
  writeFileSync(file, pods.map((object) => JSON.stringify(object)).join('\n---\n'));
  const started = await machine.start(file);
  await eventually(() => assert.match(started.output(), /^pod default\/works is running; its volumes:$/m));
  await eventually(() => assert.match(started.output(), /absent: Failed: Error: exec: "no-such-program": executable/));
  assert.doesNotMatch(started.output(), /^pod default\/absent is running/m);
});

test('a key file that is damaged is named, and nothing of it is shown', (t) => {
  const directory = temporaryDirectory(t);
  const keys = join(directory, 'state', 'api', 'pki');
  mkdirSync(keys, { recursive: true });
  for (const name of ['authority.json', 'tokens.key', 'encryption.keys']) {
    for (const content of ['', '{"keyPem":"precious', '{"keyPem":"precious","certificatePem":"x"}']) {
      writeFileSync(join(keys, name), content, { mode: 0o600 });
      const said = assertFails(up(directory), new RegExp(name.replace('.', '\\.')));
      assert.doesNotMatch(said, /precious/);
    }
    rmSync(join(keys, name));
  }
});

test('a state directory that is not writable is named', (t) => {
  if (!isRoot) return t.skip('needs root: who else could make a directory that this user may not write to');
  const directory = rootDirectory(t);
  const state = join(directory, 'state');
  mkdirSync(state);
  chmodSync(state, 0o755);
  const { code, stderr } = mountlet(up(directory), { asOrdinaryUser: true });
  assert.equal(code, 1, stderr);
  assert.match(stderr, /^error: .*state.*(permission denied|EACCES)/im);
});

test('doctor says what this machine can do', () => {
  const { code, stdout } = mountlet(['doctor']);
  assert.equal(code, 0);
  assert.match(stdout, /^(yes|no ) {2}/m);
  assert.match(stdout, /What pods do not have here with --runtime process:/);
  assert.match(stdout, /with the process runtime the Services of mountlet up answer|Services do not answer/);
  const answer = JSON.parse(mountlet(['doctor', '-o', 'json']).stdout) as { findings: { name: string }[] };
  assert.ok(answer.findings.length > 3);
});

test('doctor names a private root mount and what an ordinary user lacks, with the way out', (t) => {
  if (!isRoot) return t.skip('needs root, for a mount namespace');
  const finding = (propagation: string): string => {
    const words = ['--mount', '--propagation', propagation, process.execPath, program, 'doctor'];
    const { stdout } = spawnSync('unshare', words, { encoding: 'utf8' });
    return /^(?:yes|no ) {2}mount propagation .*\n(?: .*\n)?/m.exec(stdout)?.[0] ?? stdout;
  };
  assert.match(finding('private'), /^no {3}.* root mount is private.*\n +mount --make-rshared \/\n$/);
  assert.match(finding('shared'), /^yes /);
  assert.match(
    mountlet(['doctor'], { asOrdinaryUser: true }).stdout,
    /^no {3}root .*runAsUser.*\n +Run mountlet as root/m,
  );
});
