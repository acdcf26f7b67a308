/** Volumes of a storage driver under `mountlet up`, from the claim to the files, with what users see of them. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DriverProcess } from '../src/testing/csi/driver-process.ts';
import type { LoggedCall } from '../src/testing/csi/driver-log.ts';
import type { DriverScript } from '../src/testing/csi/driver-script.ts';
import { VolumeTable } from '../src/testing/csi/driver-volumes.ts';
import type { Summary } from '../src/stats/summary.ts';
import { needsDevices } from '../src/testing/machine/devices.ts';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod as podWith } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const skip = withNode.skip === false ? needsDevices('mkfs.ext4') : withNode.skip;
const machine = new UpMachine();
const name = 'files.example.com';
const root = join(machine.directory, 'state', 'node');
const storage = join(machine.directory, 'storage');
const ends: (() => Promise<void>)[] = [];
const capabilities = { controller: [], node: ['STAGE_UNSTAGE_VOLUME', 'GET_VOLUME_STATS', 'EXPAND_VOLUME'] };

function aDriver(): DriverProcess {
  const directory = join(root, 'plugins', name);
  for (const path of [directory, join(root, 'plugins_registry')]) mkdirSync(path, { recursive: true });
  return new DriverProcess(
    { after: (act) => void ends.push(act) },
    {
      name,
      nodeId: 'n1',
      directory: storage,
      socket: join(directory, 'csi.sock'),
      registrationSocket: join(root, 'plugins_registry', 'files-reg.sock'),
    },
  );
}

let driver: DriverProcess | undefined;
const theDriver = (): DriverProcess => driver ?? assert.fail('there is no driver');
const script = (more: DriverScript = {}): void => theDriver().script({ capabilities, ...more });

const pod: typeof podWith = (podName, container, spec) =>
  podWith(podName, container, { automountServiceAccountToken: false, terminationGracePeriodSeconds: 0, ...spec });
const claimed = (volume: string, volumeMode = 'Filesystem', attributes: object = {}): readonly object[] => [
  {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volume },
    spec: {
      capacity: { storage: '16Mi' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: 'by-hand',
      volumeMode,
      claimRef: { namespace: 'default', name: volume },
      csi: { driver: name, volumeHandle: volume, fsType: 'ext4', volumeAttributes: attributes },
    },
  },
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: volume },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'by-hand',
      volumeMode,
      volumeName: volume,
      resources: { requests: { storage: '16Mi' } },
    },
  },
];
const claimOf = (claimName: string): Readonly<Record<string, unknown>> => ({
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
});
const writer = (podName: string, claimName: string): object =>
  pod(
    podName,
    { script: 'echo kept >>/data/log; sleep 1000', volumeMounts: [mountAt('data', '/data')] },
    claimOf(claimName),
  );
/** As the driver's administrator made them. */
const make = (...volumes: readonly string[]): void => {
  const table = new VolumeTable(storage);
  for (const id of volumes) table.write({ id, name: id, sizeBytes: 16 * 1024 * 1024, attachments: {} });
};
const inUse = (volume: string): readonly string[] =>
  theDriver()
    .log.inUse()
    .filter((use) => use.includes(`${volume} `));
const statusOf = (podName: string): Record<string, unknown> => {
  const { stdout } = mountlet(['get', 'volumes', '--root-dir', join(machine.directory, 'state'), '-o', 'json']);
  const { items } = JSON.parse(stdout) as { items: { spec: { podName: string }; status: Record<string, unknown> }[] };
  return items.find(({ spec }) => spec.podName === podName)?.status ?? {};
};
const staged = (): readonly string[] => {
  const directory = join(root, 'plugins/kubernetes.io/csi', name);
  return existsSync(directory) ? readdirSync(directory) : [];
};

before(async () => {
  if (skip !== false) return;
  await machine.start('--node-name', 'here');
  mkdirSync(storage, { recursive: true });
  driver = aDriver();
  script();
  await driver.start();
  const driverObject = {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSIDriver',
    metadata: { name },
    spec: { attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: ['Persistent', 'Ephemeral'] },
  };
  await machine.kubectl.apply(driverObject);
});
after(async () => {
  try {
    await machine.end();
    assert.deepEqual(driver?.log.violations() ?? [], []);
  } finally {
    for (const end of ends) await end();
  }
});

describe('volumes of a driver', { skip }, () => {
  test('a pod writes to one, the next pod finds it, and users see how much is used', async () => {
    const { kubectl } = machine;
    make('files');
    await kubectl.apply(...claimed('files'), writer('first', 'files'));
    await kubectl.running('first');
    await eventually(() => {
      const { capacityBytes, usedBytes, state } = statusOf('first');
      assert.equal(state, 'Mounted');
      assert.ok(
        Number(capacityBytes) > 8 * 1024 * 1024 && Number(capacityBytes) <= 16 * 1024 * 1024,
        String(capacityBytes),
      );
      assert.ok(Number(usedBytes) > 0);
    });
    const port = await kubectl.ok('get node here -o jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}');
    const asked = ['--server', `https://127.0.0.1:${port}`, 'get', '--raw', '/stats/summary'];
    const summary = JSON.parse(await kubectl.ok(asked)) as Summary;
    const [volume] = summary.pods.find(({ podRef }) => podRef.name === 'first')?.volume ?? [];
    assert.equal(volume?.pvcRef?.name, 'files');
    assert.ok(volume.inodesUsed > 0);
    await eventually(async () => assert.equal(await kubectl.exec('first', 'cat', '/data/log'), 'kept\n'));
    await kubectl.ok('delete pod first');
    await kubectl.apply(writer('second', 'files'));
    await kubectl.running('second');
    await eventually(async () => assert.equal(await kubectl.exec('second', 'cat', '/data/log'), 'kept\nkept\n'));
    const publish = theDriver()
      .log.calls()
      .findLast(({ method }) => method === 'NodePublishVolume');
    assert.equal(publish?.request.volumeContext?.['csi.storage.k8s.io/pod.name'], 'second');
    await kubectl.ok('delete pod second');
    await eventually(() => assert.deepEqual(inUse('files'), []));
  });

  test('one that is written in the pod lives and goes with it', async () => {
    const { kubectl } = machine;
    const csi = { driver: name, fsType: 'ext4', volumeAttributes: { sizeBytes: String(16 * 1024 * 1024) } };
    const web = pod(
      'inline',
      { script: 'echo here >/data/log; sleep 1000', volumeMounts: [mountAt('data', '/data')] },
      { volumes: [{ name: 'data', csi }], securityContext: { fsGroup: 2000 } },
    );
    await kubectl.apply(web);
    await kubectl.running('inline');
    assert.equal(statSync(join(await machine.up.volume('inline', 'csi', 'data'), 'mount')).gid, 2000);
    await eventually(async () => assert.equal(await kubectl.exec('inline', 'cat', '/data/log'), 'here\n'));
    await kubectl.ok('delete pod inline');
    await eventually(() => assert.deepEqual(inUse('csi-'), []));
  });

  test('a raw device is a device in the container', async () => {
    const { kubectl } = machine;
    make('raw');
    await kubectl.apply(
      ...claimed('raw', 'Block'),
      pod(
        'raw',
        { script: 'echo raw >/dev/data; sleep 1000', volumeDevices: [{ name: 'data', devicePath: '/dev/data' }] },
        claimOf('raw'),
      ),
    );
    await kubectl.running('raw');
    await eventually(async () => assert.equal(await kubectl.exec('raw', 'head', '-c', '4', '/dev/data'), 'raw\n'));
    await eventually(() => assert.equal(statusOf('raw')['capacityBytes'], 16 * 1024 * 1024));
    await kubectl.ok('delete pod raw');
    await eventually(() => assert.deepEqual(inUse('raw'), []));
  });

  test('an error of the driver is an Event without its Secrets, and what it left is taken away', async () => {
    const { kubectl } = machine;
    make('faulty');
    await kubectl.ok('create secret generic key --from-literal=password=hunter2-and-more');
    const [volume, claim] = claimed('faulty') as [{ spec: { csi: object } }, object];
    const csi = { ...volume.spec.csi, nodePublishSecretRef: { name: 'key', namespace: 'default' } };
    script({
      faults: [
        {
          method: 'NodePublishVolume',
          volume: 'faulty',
          code: 'INTERNAL',
          message: 'refused {secrets}',
          moment: 'after',
        },
      ],
    });
    await kubectl.apply({ ...volume, spec: { ...volume.spec, csi } }, claim, writer('faulty', 'faulty'));
    await eventually(async () => {
      const events = await kubectl.ok('describe pod faulty');
      assert.match(events, /FailedMount .*rpc error: code = Internal desc = refused \[redacted\]/);
      assert.doesNotMatch(events, /hunter2/);
    });
    assert.doesNotMatch(machine.up.output(), /hunter2/);
    await kubectl.ok('delete pod faulty');
    await eventually(() => assert.deepEqual(inUse('faulty'), []));
    script();
  });

  test('what a CSIDriver and a volume ask for is done, and what is secret of it is in no Event', async () => {
    const { kubectl } = machine;
    make('asked');
    await kubectl.ok('create secret generic phrase --from-literal=phrase=open-sesame-and-more');
    const patchDriver = (spec: object): Promise<string> =>
      kubectl.ok(['patch', 'csidriver', name, '--type=merge', '-p', JSON.stringify({ spec })]);
    await patchDriver({ tokenRequests: [{ audience: 'vault' }], requiresRepublish: true, fsGroupPolicy: 'File' });
    // Of many nodes: without that policy its files would keep their group.
    const many = { accessModes: ['ReadWriteMany'] };
    const [volume, claim] = claimed('asked') as [{ spec: { csi: object } }, { spec: object }];
    const csi = { ...volume.spec.csi, nodeStageSecretRef: { name: 'phrase', namespace: 'default' } };
    const user = pod(
      'asked',
      { script: 'sleep 1000', volumeMounts: [mountAt('data', '/data')] },
      { ...claimOf('asked'), securityContext: { fsGroup: 3000 } },
    );
    const refuse = (method: string): void =>
      script({ faults: [{ method, volume: 'asked', code: 'INTERNAL', message: `${method}: {secrets} is wrong` }] });
    const isRefused = (method: string): Promise<void> =>
      eventually(async () => {
        const events = await kubectl.ok('describe pod asked');
        assert.match(events, new RegExp(`FailedMount .*${method}: .*\\[redacted\\].* is wrong`));
        assert.doesNotMatch(events + machine.up.output(), /sesame|eyJ/);
      });
    refuse('NodeStageVolume');
    await kubectl.apply(
      { ...volume, spec: { ...volume.spec, ...many, mountOptions: ['noatime'], csi } },
      { ...claim, spec: { ...claim.spec, ...many } },
      user,
    );
    await isRefused('NodeStageVolume');
    refuse('NodePublishVolume');
    await isRefused('NodePublishVolume');
    script();
    await kubectl.running('asked');
    const done = (wanted: string): readonly LoggedCall[] =>
      theDriver()
        .log.calls()
        .filter(({ method, volume: id, code }) => method === wanted && id === 'asked' && code === 'OK');
    assert.deepEqual(done('NodeStageVolume').at(-1)?.secrets, ['phrase']);
    const publications = done('NodePublishVolume');
    assert.deepEqual(publications.at(-1)?.secrets, ['csi.storage.k8s.io/serviceAccount.tokens']);
    assert.match(await kubectl.exec('asked', 'cat', '/proc/mounts'), / \/data ext4 rw\S*,noatime/);
    assert.equal(statSync(join(await machine.up.volume('asked', 'csi', 'asked'), 'mount')).gid, 3000);
    await kubectl.ok('annotate pod asked look=again');
    await eventually(() => assert.ok(done('NodePublishVolume').length > publications.length));
    await kubectl.ok('delete pod asked');
    await eventually(() => assert.deepEqual(inUse('asked'), []));
    await patchDriver({ tokenRequests: null, requiresRepublish: false, fsGroupPolicy: null });
  });

  test('a driver that is gone while its volume is mounted takes it away when it is back', async () => {
    const { kubectl } = machine;
    make('later');
    await kubectl.apply(...claimed('later'), writer('later', 'later'));
    await kubectl.running('later');
    await theDriver().kill();
    await kubectl.ok('delete pod later --wait=false');
    await eventually(() =>
      assert.match(machine.up.output(), /later.*(Unavailable|not found in the list of registered)/),
    );
    await theDriver().start();
    await eventually(() => assert.deepEqual(inUse('later'), []));
  });

  test('a pod that runs while the node is started again keeps its volume, and no Event says otherwise', async () => {
    const { kubectl } = machine;
    make('kept');
    await kubectl.apply(...claimed('kept'), writer('kept', 'kept'));
    await kubectl.running('kept');
    await machine.up.kill();
    await machine.start('--node-name', 'here');
    await eventually(() => assert.equal(statusOf('kept')['state'], 'Mounted'));
    await machine.kubectl.running('kept');
    const warnings =
      'get events --field-selector reason=FailedMount,involvedObject.name=kept -o jsonpath={.items[*].message}';
    assert.equal(await machine.kubectl.ok(warnings), '');
    await machine.kubectl.ok('delete pod kept');
    await eventually(() => assert.deepEqual(inUse('kept'), []));
  });

  test('after kill -9 between stage and publish nothing stays staged', async () => {
    const { kubectl } = machine;
    make('killed');
    script({ faults: [{ method: 'NodePublishVolume', volume: 'killed', end: 'hang' }] });
    await kubectl.apply(...claimed('killed'), writer('killed', 'killed'));
    await eventually(() => {
      const calls = theDriver().log.calls();
      assert.ok(calls.some(({ method, volume }) => method === 'NodePublishVolume' && volume === 'killed'));
    });
    await machine.up.kill();
    script();
    await machine.start('--node-name', 'here');
    await machine.kubectl.ok('delete pod killed');
    await eventually(() => {
      assert.deepEqual(inUse('killed'), []);
      assert.deepEqual(staged(), []);
    });
  });
});
