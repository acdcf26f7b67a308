/** Volumes and limits of pods under `mountlet up` that no ConfigMap is about: shared, of the host, of a device, and by whom. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { loopDevicesOf } from './left-behind.ts';
import { mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start('--node-name', 'here'))));
after(() => machine.end());

describe('volumes and limits', { concurrency: 3 }, () => {
  test('two containers share an emptyDir, on disk and in memory', withNode, async () => {
    const { kubectl } = machine;
    const volumeMounts = [mountAt('disk', '/disk'), mountAt('memory', '/memory')];
    await kubectl.apply(
      pod(
        'shared',
        [
          { name: 'a', volumeMounts },
          { name: 'b', volumeMounts },
        ],
        {
          volumes: [
            { name: 'disk', emptyDir: {} },
            { name: 'memory', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } },
          ],
        },
      ),
    );
    await kubectl.running('shared');
    await kubectl.ok(['exec', 'shared', '-c', 'a', '--', 'sh', '-c', 'echo one >/disk/x; echo two >/memory/x']);
    assert.equal(await kubectl.ok('exec shared -c b -- cat /disk/x /memory/x'), 'one\ntwo\n');
    const { code } = await kubectl.run(
      'exec shared -c a -- dd if=/dev/zero of=/memory/big bs=1M count=4 status=none'.split(' '),
    );
    assert.notEqual(code, 0, 'more than its limit does not fit');
  });

  test('a hostPath is the directory of the machine, and read-only where it is asked for', withNode, async () => {
    const { kubectl } = machine;
    const path = join(machine.directory, 'host');
    mkdirSync(path);
    writeFileSync(join(path, 'from-host'), 'hello');
    await kubectl.apply(
      pod(
        'host',
        { volumeMounts: [mountAt('host', '/host'), mountAt('host', '/fixed', { readOnly: true })] },
        { volumes: [{ name: 'host', hostPath: { path, type: 'Directory' } }] },
      ),
    );
    await kubectl.running('host');
    assert.equal(await kubectl.exec('host', 'cat', '/fixed/from-host'), 'hello');
    await kubectl.exec('host', 'sh', '-c', 'echo back >/host/from-pod');
    assert.equal(readFileSync(join(path, 'from-pod'), 'utf8'), 'back\n');
    const { code, stderr } = await kubectl.run(['exec', 'host', '--', 'touch', '/fixed/x']);
    assert.equal(code, 1);
    assert.match(stderr, /Read-only file system/);
  });

  test('a claim on a local volume keeps its files from pod to pod', withNode, async (t) => {
    if (spawnSync('mkfs.ext4', ['-V']).status !== 0) return t.skip('needs mkfs.ext4');
    const { kubectl } = machine;
    // Below the state directory's parent: what is attached is looked for by its path.
    const image = join(machine.directory, 'state', 'disk.img');
    writeFileSync(image, '');
    truncateSync(image, 32 * 1024 * 1024);
    const device = spawnSync('losetup', ['--find', '--show', image], { encoding: 'utf8' });
    if (device.status !== 0) return t.skip(`needs a loop device: ${device.stderr}`);
    const path = device.stdout.trim();
    const state = join(machine.directory, 'state');
    // By what the kernel says now: the number of a device that has gone is soon that of another test's.
    const detach = (): void => {
      for (const name of loopDevicesOf(state)) spawnSync('losetup', ['--detach', `/dev/${name}`]);
    };
    t.after(detach);
    const metadata = { name: 'disk' };
    const spec = { accessModes: ['ReadWriteOnce'], storageClassName: 'local' };
    const required = {
      nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['here'] }] }],
    };
    await kubectl.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata,
      spec: { ...spec, resources: { requests: { storage: '32Mi' } }, volumeName: 'disk' },
    });
    const claim = await kubectl.json<{ metadata: { uid: string } }>('get pvc disk');
    await kubectl.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata,
      spec: {
        ...spec,
        capacity: { storage: '32Mi' },
        local: { path, fsType: 'ext4' },
        nodeAffinity: { required },
        claimRef: { namespace: 'default', name: 'disk', uid: claim.metadata.uid },
      },
    });
    // As the controller of a whole cluster would: this server has none for volumes.
    for (const object of ['pv', 'pvc']) {
      await kubectl.ok(`patch ${object} disk --subresource=status --type=merge -p {"status":{"phase":"Bound"}}`);
    }
    const user = (name: string): object =>
      pod(
        name,
        { volumeMounts: [mountAt('data', '/data')] },
        {
          securityContext: { fsGroup: 4242 },
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'disk' } }],
        },
      );
    await kubectl.apply(user('writer'));
    await kubectl.running('writer');
    await kubectl.exec('writer', 'sh', '-c', 'echo kept >/data/file');
    assert.equal(await kubectl.exec('writer', 'stat', '-f', '-c', '%T', '/data'), 'ext2/ext3\n');
    assert.equal(await kubectl.exec('writer', 'stat', '-c', '%g', '/data'), '4242\n');
    await kubectl.ok('delete pod writer');
    await kubectl.apply(user('reader'));
    await kubectl.running('reader');
    assert.equal(await kubectl.exec('reader', 'cat', '/data/file'), 'kept\n');
    await kubectl.ok('delete pod reader');
    await eventually(() => {
      detach();
      assert.deepEqual(loopDevicesOf(state), [], 'nothing holds the device any more');
    });
  });

  test('a container is who its securityContext says, with a root it cannot write to', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(
      pod(
        'secure',
        {
          securityContext: {
            runAsUser: 1234,
            runAsGroup: 2345,
            readOnlyRootFilesystem: true,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'] },
          },
          volumeMounts: [mountAt('work', '/work')],
        },
        { securityContext: { fsGroup: 3456 }, volumes: [{ name: 'work', emptyDir: {} }] },
      ),
    );
    await kubectl.running('secure');
    assert.equal(await kubectl.exec('secure', 'sh', '-c', 'id -u; id -g; id -G'), '1234\n2345\n2345 3456\n');
    assert.equal(await kubectl.exec('secure', 'sh', '-c', 'touch /work/x && stat -c %g /work/x'), '3456\n');
    assert.match(await kubectl.exec('secure', 'grep', 'CapEff', '/proc/self/status'), /:\s+0{16}$/m);
    const { code } = await kubectl.run(['exec', 'secure', '--', 'touch', '/usr/x', '/x']);
    assert.notEqual(code, 0);
  });

  test('a container that takes more memory than its limit is killed for that', withNode, async (t) => {
    const { kubectl } = machine;
    const script = 'x=word; while :; do x=$x$x; done';
    await kubectl.apply(
      pod('greedy', { script, resources: { limits: { memory: '96Mi', cpu: '500m' } } }, { restartPolicy: 'Never' }),
    );
    await kubectl.until('pod/greedy', '{.status.phase}', 'Failed');
    const reason = await kubectl.ok(
      'get pod greedy -o jsonpath={.status.containerStatuses[0].state.terminated.reason}',
    );
    if (reason === 'Error') return t.skip('needs a memory control group');
    assert.equal(reason, 'OOMKilled');
  });
});
