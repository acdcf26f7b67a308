/** A storage driver whose controller side `mountlet up` runs itself, with kubectl: no sidecar, from the claim to the files. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DriverProcess } from '../src/testing/csi/driver-process.ts';
import { VolumeTable } from '../src/testing/csi/driver-volumes.ts';
import { needsDevices } from '../src/testing/machine/devices.ts';
import { AgentMachine } from './agent-machine.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const skip = withNode.skip === false ? needsDevices('mkfs.xfs') : withNode.skip;
const machine = new UpMachine();
const name = 'files.example.com';
const root = join(machine.directory, 'state', 'node');
const storage = join(machine.directory, 'storage');
const socket = join(root, 'plugins', name, 'csi.sock');
const ends: (() => Promise<void>)[] = [];

before(async () => {
  if (skip !== false) return;
  for (const path of [join(root, 'plugins', name), join(root, 'plugins_registry')])
    mkdirSync(path, { recursive: true });
  const registrationSocket = join(root, 'plugins_registry', 'files-reg.sock');
  const settings = { name, nodeId: 'n1', directory: storage, socket, registrationSocket };
  const driver = new DriverProcess({ after: (act) => void ends.push(act) }, settings);
  await driver.start();
  const config = join(machine.directory, 'agent.yaml');
  // A volume that has grown is found at the next sweep.
  writeFileSync(config, 'apiVersion: mountlet.dev/v1alpha1\nkind: AgentConfiguration\nsyncFrequency: 1s\n');
  await machine.start('--node-name', 'here', '--config', config, '--csi-controller', socket);
});
after(async () => {
  await machine.end();
  for (const end of ends) await end();
});

const withKubectl = { skip: noKubectl };

const storageClass = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: 'files' },
  provisioner: name,
  allowVolumeExpansion: true,
  parameters: { 'csi.storage.k8s.io/fstype': 'xfs' },
};
const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'files', resources: { requests: { storage: '320Mi' } } },
};
const writer = pod(
  'web',
  { script: 'echo kept >>/data/log; sleep 1000', volumeMounts: [mountAt('data', '/data')] },
  { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }], terminationGracePeriodSeconds: 0 },
);

test(
  'a claim gets a volume of the driver, which is attached, used, grown, detached and deleted',
  { skip },
  async () => {
    const { kubectl } = machine;
    await kubectl.apply(storageClass, claim);
    await kubectl.until('pvc/data', '{.status.phase}', 'Bound');
    const provisioned = /ProvisioningSucceeded .*Successfully provisioned volume pvc-/;
    await eventually(async () => assert.match(await kubectl.ok('describe pvc data'), provisioned));
    const volume = await kubectl.ok('get pvc data -o jsonpath={.spec.volumeName}');
    assert.equal(await kubectl.ok(`get pv ${volume} -o jsonpath={.spec.csi.driver}`), name);
    await kubectl.apply(writer);
    await kubectl.running('web');
    assert.equal(await kubectl.ok('get volumeattachments -o jsonpath={.items[*].status.attached}'), 'true');
    await eventually(async () => assert.equal(await kubectl.exec('web', 'cat', '/data/log'), 'kept\n'));
    await kubectl.ok(`patch pvc data -p {"spec":{"resources":{"requests":{"storage":"400Mi"}}}}`);
    await kubectl.until('pvc/data', '{.status.capacity.storage}', '400Mi');
    await kubectl.ok('delete pod web');
    await eventually(async () => assert.equal(await kubectl.ok('get volumeattachments -o name'), ''));
    await kubectl.ok('delete pvc data');
    await kubectl.ok(`wait pv/${volume} --for=delete --timeout=100s`);
    assert.deepEqual(new VolumeTable(storage).all(), []);
  },
);

test('`controllers` serves a driver of another API server, alone', withKubectl, async (t) => {
  const programs = new AgentMachine(t);
  const directory = programs.directory();
  const server = await startApiServerProgram(join(directory, 'data'), { args: ['--scheduler=none'] });
  programs.own(server.process);
  const kubectl = new Kubectl(server.kubeconfig);
  const path = join(directory, 'csi.sock');
  const settings = { name, nodeId: 'n1', directory: join(directory, 'storage'), socket: path };
  await new DriverProcess(t, { ...settings, services: ['controller'] }).start();
  const alone = ['--controllers=none', '--leader-elect=false', '--csi-controller', `unix://${path}`];
  const loops = programs.spawn(['controllers', '--kubeconfig', server.kubeconfig, ...alone]);
  assert.match(await loops.line(), /^running on https:\S+: \S+csi\.sock$/);
  await kubectl.apply(storageClass, claim);
  await kubectl.until('pvc/data', '{.status.phase}', 'Bound');
  await kubectl.ok('delete pvc data');
  await eventually(async () => assert.equal(await kubectl.ok('get pv -o name'), ''));
  assert.deepEqual(new VolumeTable(join(directory, 'storage')).all(), []);
});

test('a path that cannot be a socket is refused', () => {
  const long = mountlet(['controllers', '--csi-controller', `/${'x'.repeat(200)}`]);
  assert.equal(long.code, 2);
  assert.match(long.stderr, /A socket's path has at most 107 bytes/);
});
