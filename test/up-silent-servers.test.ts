/**
 * NFS servers that fall silent while pods have their volumes: five of them, because four is what Node has threads for. They
 * concern their own pods alone, also after a restart.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SilentServers, silentServersSkip } from './fixtures/silent-servers.ts';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const options = { skip: withNode.skip === false ? silentServersSkip() : withNode.skip };
const machine = new UpMachine();
let servers: SilentServers;
const silent = ['one', 'two', 'three', 'four', 'five'];

const ofServer = (name: string, readOnly = false): object =>
  pod(
    name,
    { script: 'echo $(cat /nfs/file); exec sleep 1000', volumeMounts: [mountAt('nfs', '/nfs')] },
    { volumes: [{ name: 'nfs', nfs: { server: `${name}.example`, path: '/srv', readOnly } }] },
  );

const ofConfigMap = (name: string): object =>
  pod(
    name,
    { script: 'exec sleep 1000', volumeMounts: [mountAt('config', '/config')] },
    { volumes: [{ name: 'config', configMap: { name: 'settings' } }] },
  );

/** Other pods start, are updated, run commands and are deleted, and the node answers queries. */
async function assertOthersGoOn(name: string, value: string): Promise<void> {
  const { kubectl } = machine;
  await kubectl.apply(ofConfigMap(name), configMap('settings', { value }));
  await kubectl.running(name);
  for (const each of ['beside', name]) {
    await eventually(async () => assert.equal(await kubectl.exec(each, 'cat', '/config/value'), value));
  }
  await eventually(async () => assert.match(await kubectl.ok('top pods --no-headers'), new RegExp(`^${name} `, 'm')));
  const { code, stdout, stderr } = mountlet(['get', 'volumes', '--root-dir', join(machine.directory, 'state')]);
  assert.equal(code, 0, stderr);
  for (const each of [...silent, name]) assert.match(stdout, new RegExp(`^${each} `, 'm'));
  await kubectl.ok(`delete pod ${name} --timeout=60s`);
}

before(async () => {
  if (options.skip !== false) return;
  servers = await SilentServers.open(join(machine.directory, 'servers'));
  await machine.startUnder(servers.under, '--node-name', 'here');
});

after(async () => {
  if (options.skip !== false) return;
  servers.abort();
  try {
    await machine.end();
  } finally {
    servers.close();
  }
});

test('pods read from their servers, with the options of their volumes', options, async () => {
  const { kubectl } = machine;
  await kubectl.apply(configMap('settings', { value: 'first' }), ofConfigMap('beside'));
  await kubectl.apply(...silent.map((name) => ofServer(name, name === 'one')));
  await kubectl.running('beside', ...silent);
  for (const name of silent) {
    await eventually(async () => assert.equal(await kubectl.ok(`logs ${name}`), 'alive\n'));
  }
  assert.equal(servers.mountPoints().length, silent.length);
  const mounts = servers.mounts().map((line) => line.replace(/ \S+\/volumes\/\S+/, ''));
  assert.deepEqual(mounts.toSorted(), [
    'five.example:/srv -o rw',
    'four.example:/srv -o rw',
    'one.example:/srv -o ro',
    'three.example:/srv -o rw',
    'two.example:/srv -o rw',
  ]);
});

test('five servers that are silent, and a mount that hangs, hold up nothing else', options, async () => {
  const { kubectl } = machine;
  servers.fallSilent();
  await kubectl.apply(ofServer('late'));
  await eventually(() => assert.ok(servers.mounts().some((line) => line.startsWith('late.example:'))));
  await assertOthersGoOn('second', 'second');
  assert.equal(await kubectl.ok('get pod late -o jsonpath={.status.phase}'), 'Pending');
  await kubectl.running(...silent);
});

test('a node that was killed starts again beside them, and adopts its pods', options, async () => {
  const { kubectl } = machine;
  const started = await kubectl.ok('get pod one -o jsonpath={.status.containerStatuses[0].containerID}');
  await machine.up.kill();
  await machine.startUnder(servers.under, '--node-name', 'here');
  await assertOthersGoOn('third', 'third');
  assert.equal(await kubectl.ok('get pod one -o jsonpath={.status.containerStatuses[0].containerID}'), started);
});

test('SIGTERM ends a node at once beside them', options, async () => {
  assert.equal(await machine.up.stop(), 0, machine.up.output());
  await machine.startUnder(servers.under, '--node-name', 'here');
  await assertOthersGoOn('fourth', 'fourth');
});

test('their pods can be deleted while they are silent, and nothing stays', options, async () => {
  const { kubectl } = machine;
  await kubectl.ok(`delete pods ${silent.join(' ')} late --wait=false`);
  await eventually(async () => assert.equal(await kubectl.ok('get pods -o name'), 'pod/beside\n'));
  await eventually(() => assert.deepEqual(servers.mountPoints(), []));
});
