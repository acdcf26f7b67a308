/** Claims that grow under `mountlet up`, with kubectl: while a pod writes, between pods, to sizes that cannot be had, and while all of it is deleted. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  directoryForDevices,
  foreignLoopDevice,
  leftBelow,
  needsDevices,
  needsFileSystem,
  sparseFile,
} from '../src/testing/machine/devices.ts';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
const endings: (() => unknown)[] = [];
const disks =
  withNode.skip === false ? directoryForDevices({ after: (act) => void endings.unshift(act as () => unknown) }) : '';
// A node learns at a pod's sync that a volume has grown, as a kubelet does.
const settings = 'apiVersion: mountlet.dev/v1alpha1\nkind: AgentConfiguration\nsyncFrequency: 1s\n';
const options = (): readonly string[] => {
  const config = join(machine.directory, 'config.yaml');
  writeFileSync(config, settings);
  return ['--node-name', 'here', '--config', config];
};
before(async () => {
  if (withNode.skip !== false) return;
  await machine.start(...options());
  const storageClass = (name: string, allowVolumeExpansion: boolean): object => ({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name },
    provisioner: 'kubernetes.io/no-provisioner',
    allowVolumeExpansion,
  });
  await machine.kubectl.apply(storageClass('grows', true), storageClass('stays', false));
});
after(async () => {
  await machine.end();
  for (const end of endings) await end();
});
const needs = (found: string | false): { skip: string | false } => ({ skip: withNode.skip || found });

interface Disk {
  readonly path: string;
  readonly mebibytes: number;
  readonly fsType?: string;
  readonly className?: string;
  readonly volumeMode?: string;
}

/** A volume, and a claim of the same name that has it. */
async function claimed(
  name: string,
  { path, mebibytes, fsType = 'ext4', className = 'grows', volumeMode = 'Filesystem' }: Disk,
): Promise<void> {
  const storage = `${mebibytes}Mi`;
  const common = { accessModes: ['ReadWriteOnce'], storageClassName: className, volumeMode };
  const terms = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['here'] }] }];
  await machine.kubectl.apply(
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name },
      spec: {
        ...common,
        capacity: { storage },
        persistentVolumeReclaimPolicy: 'Retain',
        local: { path, ...(volumeMode === 'Filesystem' && { fsType }) },
        claimRef: { namespace: 'default', name },
        nodeAffinity: { required: { nodeSelectorTerms: terms } },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name },
      spec: { ...common, volumeName: name, resources: { requests: { storage } } },
    },
  );
  await machine.kubectl.until(`pvc/${name}`, '{.status.phase}', 'Bound');
}

const volumes = (claimName: string): Record<string, unknown> => ({
  volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
});
const writes =
  'test -f /data/kept || head -c 3000000 /dev/urandom >/data/kept; while :; do echo x >>/data/log; sleep 0.05; done';
const writer = (name: string, claimName: string): object =>
  pod(name, { script: writes, volumeMounts: [mountAt('data', '/data')] }, volumes(claimName));

async function ask(claim: string, storage: string): Promise<void> {
  await machine.kubectl.ok([
    'patch',
    'pvc',
    claim,
    '--type=merge',
    '-p',
    JSON.stringify({ spec: { resources: { requests: { storage } } } }),
  ]);
}

const statusOf = (claim: string): Promise<string> =>
  machine.kubectl.ok(`get pvc ${claim} -o jsonpath={.status.allocatedResourceStatuses.storage}`);
const has = (claim: string, storage: string): Promise<void> =>
  machine.kubectl.until(`pvc/${claim}`, '{.status.capacity.storage}', storage);
const refused = (claim: string): Promise<void> =>
  machine.kubectl.until(`pvc/${claim}`, '{.status.allocatedResourceStatuses.storage}', 'NodeResizeInfeasible');

/** As the pod sees it. */
async function mebibytesIn(name: string): Promise<number> {
  const [, line = ''] = (await machine.kubectl.exec(name, 'df', '-P', '-k', '/data')).split('\n');
  return Number(line.split(/\s+/)[1]) / 1024;
}

async function settled(claim: string): Promise<void> {
  await eventually(async () => {
    const { metadata } = await machine.kubectl.json<{ metadata: { annotations?: Record<string, string> } }>(
      `get pv ${claim}`,
    );
    assert.equal(metadata.annotations?.['volume.alpha.kubernetes.io/pre-resize-capacity'], undefined);
  });
  assert.equal(await statusOf(claim), '');
  assert.doesNotMatch(await machine.kubectl.ok(`describe pvc ${claim}`), /Resiz(ing|ePending|eError) +True/);
}

async function deleted(name: string): Promise<void> {
  const { kubectl } = machine;
  await kubectl.ok(`delete pod ${name} --ignore-not-found --timeout=100s`);
  await kubectl.ok(`delete pvc ${name} --timeout=100s`);
  await kubectl.ok(`delete pv ${name} --timeout=100s`);
}

describe('expansion', { concurrency: 2 }, () => {
  for (const [fsType, ...programs] of [
    ['xfs', 'xfs_growfs'],
    ['btrfs', 'btrfs'],
  ] as const) {
    test(
      `a claim with ${fsType} in a file grows while a pod writes, and between two pods`,
      needs(needsFileSystem(fsType, ...programs)),
      async () => {
        const { kubectl } = machine;
        const path = sparseFile(disks, `${fsType}.img`, 320);
        await claimed(fsType, { path, mebibytes: 320, fsType });
        await kubectl.apply(writer(fsType, fsType));
        await kubectl.running(fsType);
        const sum = await eventually(() =>
          kubectl.exec(fsType, 'sh', '-c', 'test $(wc -c </data/kept) = 3000000 && cksum </data/kept'),
        );
        const small = await mebibytesIn(fsType);

        await ask(fsType, '480Mi');
        await has(fsType, '480Mi');
        assert.equal(statSync(path).size, 480 * 1024 * 1024);
        const middle = await mebibytesIn(fsType);
        assert.ok(middle > small + 100, `from ${small} to ${middle} MiB`);
        const lines = (): Promise<number> =>
          kubectl.exec(fsType, 'wc', '-l', '/data/log').then((text) => Number.parseInt(text, 10));
        const seen = await lines();
        await eventually(async () => assert.ok((await lines()) > seen));
        assert.equal(await kubectl.exec(fsType, 'sh', '-c', 'cksum </data/kept'), sum);
        const said = /FileSystemResizeSuccessful .*NodeExpandVolume succeeded/;
        await eventually(async () => assert.match(await kubectl.ok(`events --for pvc/${fsType}`), said));
        await settled(fsType);

        await kubectl.ok(`delete pod ${fsType}`);
        await ask(fsType, '640Mi');
        await kubectl.until(`pvc/${fsType}`, '{.status.allocatedResourceStatuses.storage}', 'NodeResizePending');
        assert.match(
          await kubectl.ok(`describe pvc ${fsType}`),
          /FileSystemResizePending +True .*Waiting for user to \(re-\)start a pod to finish file system resize of volume on node\./,
        );
        await kubectl.apply(writer(fsType, fsType));
        await kubectl.running(fsType);
        await has(fsType, '640Mi');
        assert.ok((await mebibytesIn(fsType)) > middle + 100);
        assert.equal(await kubectl.exec(fsType, 'sh', '-c', 'cksum </data/kept'), sum);
        await settled(fsType);
        await deleted(fsType);
        await eventually(() =>
          assert.deepEqual(
            leftBelow(disks).filter((left) => left.includes(fsType)),
            [],
          ),
        );
      },
    );
  }

  test(
    'an ext4 grows while a pod has it, or says that the pod has to be restarted',
    needs(needsDevices('mkfs.ext4', 'resize2fs', 'e2fsck')),
    async () => {
      const { kubectl } = machine;
      await claimed('ext', { path: sparseFile(disks, 'ext.img', 32), mebibytes: 32 });
      await kubectl.apply(writer('ext', 'ext'));
      await kubectl.running('ext');
      await ask('ext', '96Mi');
      const isDone = async (): Promise<boolean> =>
        (await kubectl.ok('get pvc ext -o jsonpath={.status.capacity.storage}')) === '96Mi';
      await eventually(async () =>
        assert.ok((await isDone()) || /NodeResizeError +True/.test(await kubectl.ok('describe pvc ext'))),
      );
      if (!(await isDone())) {
        assert.match(await kubectl.ok('describe pvc ext'), /restart the pods that use it/);
        await eventually(async () =>
          assert.match(await kubectl.ok('events --for pod/ext'), /VolumeResizeFailed .*Permission denied to resize/s),
        );
        await kubectl.ok('delete pod ext');
        await kubectl.apply(writer('ext', 'ext'));
        await kubectl.running('ext');
        await has('ext', '96Mi');
      }
      assert.ok((await mebibytesIn('ext')) > 70);
      await settled('ext');
      await deleted('ext');
    },
  );

  test(
    'a size that cannot be had is refused, for a file and for a device, and a smaller one is had after that',
    needs(needsFileSystem('xfs', 'xfs_growfs')),
    async () => {
      const { kubectl } = machine;
      const file = sparseFile(disks, 'refused.img', 320);
      const device = foreignLoopDevice(sparseFile(disks, 'device.img', 400));
      await claimed('file', { path: file, mebibytes: 320, fsType: 'xfs' });
      await claimed('device', { path: device, mebibytes: 320, fsType: 'xfs' });
      await kubectl.apply(writer('file', 'file'), writer('device', 'device'));
      await kubectl.running('file', 'device');
      await ask('file', '1Pi');
      await ask('device', '1Gi');
      for (const [name, why] of [
        ['file', /its file system has room for \d+; free some, or ask for less/],
        ['device', /has 419430400; ask for less, or make the device larger/],
      ] as const) {
        await refused(name);
        const text = await kubectl.ok(`describe pvc ${name}`);
        assert.match(text, /NodeResizeError +True .*failed to expand pvc with /);
        assert.match(text, why);
        await eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), /VolumeResizeFailed/));
      }
      assert.equal(statSync(file).size, 320 * 1024 * 1024);
      const impossible = await kubectl.run([
        'patch',
        'pvc',
        'file',
        '--type=merge',
        '-p',
        '{"spec":{"resources":{"requests":{"storage":"320Mi"}}}}',
      ]);
      assert.match(impossible.stderr, /field can not be less than status\.capacity/);

      // A refusal keeps no pod from starting.
      await kubectl.ok('delete pod file');
      await kubectl.apply(writer('file', 'file'));
      await kubectl.running('file');
      await ask('file', '480Mi');
      await ask('device', '400Mi');
      await has('file', '480Mi');
      await has('device', '400Mi');
      assert.ok((await mebibytesIn('file')) > 400);
      for (const name of ['file', 'device']) {
        await settled(name);
        await deleted(name);
      }
      execFileSync('losetup', ['--detach', device]);
    },
  );

  test('a raw device grows, and the program that has it sees the size', needs(needsDevices()), async () => {
    const { kubectl } = machine;
    await claimed('raw', { path: sparseFile(disks, 'raw.img', 16), mebibytes: 16, volumeMode: 'Block' });
    const script = 'while :; do sleep 1; done';
    await kubectl.apply(
      pod('raw', { script, volumeDevices: [{ name: 'data', devicePath: '/dev/data' }] }, volumes('raw')),
    );
    await kubectl.running('raw');
    const bytes = async (): Promise<number> =>
      Number.parseInt(await kubectl.exec('raw', 'sh', '-c', 'dd if=/dev/data bs=1048576 2>/dev/null | wc -c'), 10);
    assert.equal(await bytes(), 16 * 1024 * 1024);
    await ask('raw', '32Mi');
    await has('raw', '32Mi');
    assert.equal(await bytes(), 32 * 1024 * 1024);
    await deleted('raw');
  });

  test('a class that does not allow it, and a directory of our own, do not grow', withNode, async () => {
    const { kubectl } = machine;
    await claimed('stays', { path: join(disks, 'stays.img'), mebibytes: 16, className: 'stays' });
    const args = [
      'patch',
      'pvc',
      'stays',
      '--type=merge',
      '-p',
      '{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}',
    ];
    const { code, stderr } = await kubectl.run(args);
    assert.equal(code, 1);
    assert.match(stderr, /the storageclass that provisions the pvc must support resize/);
    await deleted('stays');

    await kubectl.ok('patch storageclass local-path --type=merge -p {"allowVolumeExpansion":true}');
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
    await kubectl.apply(
      { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'own' }, spec },
      writer('own', 'own'),
    );
    await kubectl.running('own');
    await ask('own', '2Gi');
    await eventually(async () =>
      assert.match(await kubectl.ok('events --for pvc/own'), /VolumeResizeFailed .*limits no volume/),
    );
    await kubectl.ok('delete pod,pvc own --timeout=100s');
  });

  test(
    'everything goes in whatever order it is deleted while a claim grows',
    needs(needsDevices('mkfs.ext4')),
    async () => {
      const { kubectl } = machine;
      const orders = [
        ['pod', 'pvc', 'pv'],
        ['pod', 'pv', 'pvc'],
        ['pvc', 'pod', 'pv'],
        ['pvc', 'pv', 'pod'],
        ['pv', 'pod', 'pvc'],
        ['pv', 'pvc', 'pod'],
      ];
      const names = orders.map((order) => order.join('-'));
      for (const name of names) await claimed(name, { path: sparseFile(disks, `${name}.img`, 16), mebibytes: 16 });
      await kubectl.apply(...names.map((name) => writer(name, name)));
      await kubectl.running(...names);
      // Half of them wait for a restart, the others for a smaller size.
      for (const [index, name] of names.entries()) await ask(name, index % 2 === 0 ? '64Mi' : '1Pi');
      for (const name of names) await eventually(async () => assert.notEqual(await statusOf(name), ''));
      for (const [index, order] of orders.entries()) {
        for (const kind of order) await kubectl.ok(`delete ${kind} ${names[index] ?? ''} --wait=false`);
      }
      for (const name of names) {
        await kubectl.ok(`wait pod/${name} pvc/${name} pv/${name} --for=delete --timeout=100s`);
      }
      await eventually(() =>
        assert.deepEqual(
          leftBelow(disks).filter((left) => names.some((name) => left.includes(name))),
          [],
        ),
      );
    },
  );
});

test(
  'what was begun before the program was killed ends after it was started again',
  needs(needsFileSystem('xfs', 'xfs_growfs')),
  async () => {
    await claimed('killed', { path: sparseFile(disks, 'killed.img', 320), mebibytes: 320, fsType: 'xfs' });
    await machine.kubectl.apply(writer('killed', 'killed'));
    await machine.kubectl.running('killed');
    for (const storage of ['400Mi', '480Mi', '560Mi']) {
      await ask('killed', storage);
      await machine.up.kill();
      await machine.start(...options());
      await has('killed', storage);
    }
    await settled('killed');
    await deleted('killed');
  },
);
