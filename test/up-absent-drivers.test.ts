/**
 * Drivers that are removed, or accept connections and say nothing, while pods have their volumes: they concern their own pods and
 * claims alone, also after a restart, and what waits for them ends when they are back.
 */
import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DriverProcess } from '../src/testing/csi/driver-process.ts';
import { VolumeTable } from '../src/testing/csi/driver-volumes.ts';
import { directoryForDevices, leftBelow, needsDevices } from '../src/testing/machine/devices.ts';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const skip = withNode.skip === false ? needsDevices('mkfs.ext4') : withNode.skip;
const machine = new UpMachine();
const ends: (() => unknown)[] = [];
const storages = skip === false ? directoryForDevices({ after: (act) => void ends.push(act as () => unknown) }) : '';
const root = join(machine.directory, 'state', 'node');

/** One that goes and one that stays. */
const [absent, present] = ['absent', 'present'].map(
  (name) =>
    new DriverProcess(
      { after: (act) => void ends.unshift(act) },
      {
        name: `${name}.example.com`,
        nodeId: 'n1',
        directory: join(storages, name),
        socket: join(root, 'plugins', name, 'csi.sock'),
        registrationSocket: join(root, 'plugins_registry', `${name}-reg.sock`),
      },
    ),
) as [DriverProcess, DriverProcess];
const drivers = [absent, present];
const start = async (): Promise<void> => {
  const controllers = drivers.flatMap(({ settings }) => ['--csi-controller', settings.socket]);
  await machine.start('--node-name', 'here', ...controllers);
};

/** A class of the driver's has its name. */
function used(name: string, { settings }: DriverProcess): readonly object[] {
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } } };
  const metadata = { name };
  return [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata,
      spec: { ...spec, storageClassName: settings.name },
    },
    pod(
      name,
      { script: 'echo kept >>/data/log; exec sleep 1000', volumeMounts: [mountAt('data', '/data')] },
      {
        // Without any, its object would not wait for its volumes.
        terminationGracePeriodSeconds: 1,
        automountServiceAccountToken: false,
        volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
      },
    ),
  ];
}
const containerOf = (name: string): Promise<string> =>
  machine.kubectl.ok(`get pod ${name} -o jsonpath={.status.containerStatuses[0].containerID}`);

/** Claims and pods of the other driver live from beginning to end, pods with the first one's volumes go on, and queries are answered. */
async function assertOthersGoOn(name: string, ...pods: readonly string[]): Promise<void> {
  const { kubectl } = machine;
  await kubectl.apply(...used(name, present));
  await kubectl.running(name);
  for (const each of [name, ...pods])
    await eventually(async () => assert.match(await kubectl.exec(each, 'cat', '/data/log'), /^kept\n/));
  const { code, stdout, stderr } = mountlet(['get', 'volumes', '--root-dir', join(machine.directory, 'state')]);
  assert.equal(code, 0, stderr);
  for (const each of [name, ...pods]) assert.match(stdout, new RegExp(`^${each} `, 'm'));
  const port = await kubectl.ok('get node here -o jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}');
  await kubectl.ok(`--server https://127.0.0.1:${port} get --raw /stats/summary`);
  await kubectl.ok(`delete pod,pvc ${name} --timeout=100s`);
}

/** What a driver was asked to let go of is gone. */
async function assertGone(driver: DriverProcess, ...names: readonly string[]): Promise<void> {
  await machine.kubectl.ok(`wait ${names.map((name) => `pod/${name}`).join(' ')} --for=delete --timeout=120s`);
  await machine.kubectl.ok(`delete pvc ${names.join(' ')} --timeout=120s`);
  await eventually(() => {
    const { directory } = driver.settings;
    assert.deepEqual([driver.log.inUse(), new VolumeTable(directory).all(), leftBelow(directory)], [[], [], []]);
  });
}

before(async () => {
  if (skip !== false) return;
  for (const driver of drivers) {
    mkdirSync(join(driver.settings.socket, '..'), { recursive: true });
    mkdirSync(join(root, 'plugins_registry'), { recursive: true });
    await driver.start();
  }
  await start();
  const metadata = drivers.map(({ settings: { name } }) => ({ name }));
  await machine.kubectl.apply(
    ...metadata.map((each) => ({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: each,
      provisioner: each.name,
      parameters: { 'csi.storage.k8s.io/fstype': 'ext4' },
    })),
  );
});
after(async () => {
  try {
    await machine.end();
    for (const { log } of drivers) assert.deepEqual(log.violations(), []);
  } finally {
    for (const end of ends) await end();
  }
});

describe('a driver that is removed', { skip }, () => {
  test('keeps the volumes of its pods, which go on, and holds up nothing else', async () => {
    const { kubectl } = machine;
    await kubectl.apply(...used('first', absent), ...used('second', absent));
    await kubectl.running('first', 'second');
    await absent.kill();
    for (const path of [absent.settings.socket, absent.settings.registrationSocket ?? '']) rmSync(path);
    await assertOthersGoOn('other', 'first', 'second');
  });

  test('lets the deletion of a pod wait, which is said', async () => {
    const { kubectl } = machine;
    await kubectl.ok('delete pod first --wait=false');
    await kubectl.apply(...used('late', absent));
    await eventually(async () =>
      assert.match(
        await kubectl.ok('events --for pod/first'),
        /FailedUnMount .*driver name absent\.example\.com not found in the list of registered CSI drivers/,
      ),
    );
    await eventually(async () =>
      assert.match(await kubectl.ok('events --for pvc/late'), /ExternalProvisioning .*absent\.example\.com/),
    );
  });

  test('is missed by a node that starts without it, too', async () => {
    const { kubectl } = machine;
    const container = await containerOf('second');
    await machine.up.kill();
    await start();
    await assertOthersGoOn('another', 'second');
    assert.equal(await containerOf('second'), container);
    await kubectl.ok('delete pod second --wait=false');
    assert.match(await kubectl.ok('get pods -o name'), /pod\/first\n/);
  });

  test('ends what waited for it when it is back', async () => {
    await absent.start();
    await machine.kubectl.running('late');
    await machine.kubectl.ok('delete pod late --wait=false');
    await assertGone(absent, 'first', 'second', 'late');
  });
});

describe('a driver that accepts connections and says nothing', { skip }, () => {
  const stopped = (): void => void process.kill(absent.pid ?? 0, 'SIGSTOP');
  // A process that stands still cannot end of itself.
  after(() => void process.kill(absent.pid ?? 0, 'SIGCONT'));

  test('holds up neither its own pods that run nor anything else', async () => {
    const { kubectl } = machine;
    await kubectl.apply(...used('first', absent), ...used('second', absent));
    await kubectl.running('first', 'second');
    stopped();
    await kubectl.ok('delete pod first --wait=false');
    await kubectl.apply(...used('late', absent));
    await assertOthersGoOn('other', 'second');
    assert.equal(await kubectl.ok('get pod late -o jsonpath={.status.phase}'), 'Pending');
  });

  test('does not keep a node from starting after kill -9', async () => {
    const container = await containerOf('second');
    await machine.up.kill();
    await start();
    await assertOthersGoOn('another', 'second');
    assert.equal(await containerOf('second'), container);
  });

  test('does not keep a node from ending', async () => {
    assert.equal(await machine.up.stop(), 0, machine.up.output());
    await start();
    await assertOthersGoOn('last', 'second');
    await machine.kubectl.ok('delete pod second --wait=false');
  });

  test('ends what waited for it when it speaks again', async () => {
    process.kill(absent.pid ?? 0, 'SIGCONT');
    await machine.kubectl.running('late');
    await machine.kubectl.ok('delete pod late --wait=false');
    await assertGone(absent, 'first', 'second', 'late');
  });
});
