/** `mountlet up` ends, by a signal or by kill -9, and comes back: its pods have not noticed, and nothing was missed. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { configMap, containerOf, mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

interface ShownPod {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly containerStatuses: readonly {
      readonly containerID: string;
      readonly restartCount: number;
      readonly state: { readonly running?: { readonly startedAt: string } };
    }[];
  };
}

for (const end of ['stop', 'kill'] as const) {
  test(
    `pods outlive ${end === 'stop' ? 'SIGTERM' : 'kill -9'} and are adopted with what happened meanwhile`,
    withNode,
    async (t) => {
      const machine = new UpMachine();
      t.after(() => machine.end());
      const first = await machine.start();
      const { kubectl } = first;
      const told = join(machine.directory, 'told');
      await kubectl.apply(
        configMap('config', { key: 'before' }),
        {
          apiVersion: 'v1',
          kind: 'PersistentVolumeClaim',
          metadata: { name: 'kept' },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
        },
        pod(
          'stays',
          {
            script: 'echo $$ >/told/pid; echo begun; exec sleep infinity',
            volumeMounts: [
              mountAt('config', '/etc/config'),
              mountAt('config', '/etc/part', { subPath: 'key' }),
              mountAt('told', '/told'),
              mountAt('kept', '/kept'),
            ],
          },
          {
            volumes: [
              { name: 'kept', persistentVolumeClaim: { claimName: 'kept' } },
              { name: 'config', configMap: { name: 'config' } },
              { name: 'told', hostPath: { path: told, type: 'DirectoryOrCreate' } },
            ],
          },
        ),
        pod(
          'ends',
          {
            script: 'until [ -e /told/go ]; do sleep 0.1; done; echo gone; exit 6',
            volumeMounts: [mountAt('told', '/told')],
          },
          { restartPolicy: 'Never', volumes: [{ name: 'told', hostPath: { path: told, type: 'DirectoryOrCreate' } }] },
        ),
      );
      await kubectl.running('stays', 'ends');
      await eventually(async () => assert.equal(await kubectl.ok('logs stays'), 'begun\n'));
      const before = await kubectl.json<ShownPod>('get pod stays');
      const volume = await first.volume('stays', 'configmap', 'config');

      await first[end]();
      assert.equal(readFileSync(join(volume, 'key'), 'utf8'), 'before', 'files stay');
      // The container goes on while the program that watches it is gone.
      writeFileSync(join(told, 'go'), '');

      const second = await machine.start();
      await second.kubectl.until('pod/ends', '{.status.phase}', 'Failed');
      const code = 'jsonpath={.status.containerStatuses[0].state.terminated.exitCode}';
      assert.equal(await second.kubectl.ok(['get', 'pod', 'ends', '-o', code]), '6');
      assert.equal(await second.kubectl.ok('logs ends'), 'gone\n');
      await second.kubectl.apply(configMap('config', { key: 'after' }));
      for (const path of ['/etc/config/key', '/etc/part']) {
        await eventually(async () => assert.equal(await second.kubectl.exec('stays', 'cat', path), 'after'));
      }
      const now = await second.kubectl.json<ShownPod>('get pod stays');
      assert.equal(now.metadata.uid, before.metadata.uid);
      assert.deepEqual(
        now.status.containerStatuses,
        before.status.containerStatuses,
        'the same container, never restarted',
      );
      assert.equal(now.status.containerStatuses[0]?.restartCount, 0);
      assert.equal(await second.kubectl.ok('logs stays'), 'begun\n');
      const problems = second.output().match(/.*(?:warning|error).*/g) ?? [];
      // In the networks of a container runtime Services never answer, which each start says.
      assert.deepEqual(
        problems.filter((line) => !line.includes('pods have the networks of a container runtime')),
        [],
      );
    },
  );
}

test('a rollout that kill -9 interrupts goes on after the restart, and makes no pod twice', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(async () => {
    await machine.kubectl.run('delete deploy web --cascade=foreground'.split(' '));
    await machine.end();
  });
  const { kubectl } = await machine.start();
  const replicas = 4;
  const template = (version: string): object => ({
    metadata: { labels: { app: 'web' } },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [containerOf({ script: 'sleep 1000', env: [{ name: 'VERSION', value: version }] })],
    },
  });
  const web = (version: string): object => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web' },
    spec: {
      replicas,
      minReadySeconds: 2,
      selector: { matchLabels: { app: 'web' } },
      strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: template(version),
    },
  });
  await kubectl.apply(web('1'));
  await kubectl.until('deploy/web', '{.status.availableReplicas}', String(replicas));
  const old = (await kubectl.ok('get rs -o jsonpath={.items[*].metadata.name}')).trim();
  await kubectl.apply(web('2'));
  await kubectl.until('deploy/web', '{.status.updatedReplicas}', '2');
  await machine.up.kill();
  await machine.start();
  assert.match(await kubectl.ok('rollout status deploy/web --timeout=100s'), /successfully rolled out/);
  const versions = '{range .items[*]}{.spec.containers[0].env[0].value} {.status.phase},{end}';
  await eventually(async () =>
    assert.equal(await kubectl.ok(['get', 'pods', '-o', `jsonpath=${versions}`]), '2 Running,'.repeat(replicas)),
  );
  const sizes = '{range .items[*]}{.metadata.name} {.spec.replicas} {.status.replicas},{end}';
  const sets = (await kubectl.ok(['get', 'rs', '-o', `jsonpath=${sizes}`])).split(',').filter((one) => one !== '');
  assert.equal(sets.length, 2, String(sets));
  const [now = ''] = sets.filter((one) => !one.startsWith(`${old} `)).map((one) => one.split(' ')[0] ?? '');
  assert.deepEqual(sets.toSorted(), [`${old} 0 0`, `${now} ${replicas} ${replicas}`].toSorted());
  // An Event may be lost with the program, and none is written of a pod that was not made.
  const events = await kubectl.ok(`events --for rs/${now}`);
  const made = events.match(/Created pod: \S+/g) ?? [];
  assert.ok(made.length >= replicas - 1 && made.length <= replicas, events);
  assert.equal(new Set(made).size, made.length);
});

test('--drain ends the pods with the program, and leaves nothing', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const up = await machine.start('--drain');
  await up.kubectl.apply(configMap('config', { key: 'value' }));
  await up.kubectl.apply(
    pod(
      'drained',
      { volumeMounts: [mountAt('config', '/etc/config')] },
      { volumes: [{ name: 'config', configMap: { name: 'config' } }] },
    ),
  );
  await up.kubectl.running('drained');
  assert.equal(await up.stop(), 0, up.output());
  await eventually(() => assert.match(up.output(), /^ending all pods, .+\n(?:.*\n)*stopped; all pods have ended$/m));
  const { mounts, processes, controlGroups } = up.left();
  assert.deepEqual({ mounts, processes, controlGroups }, { mounts: [], processes: [], controlGroups: [] });
});
