/** A container that means harm, under `mountlet up`: what it can reach is what its pod was given. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { allPids, commandLine } from './left-behind.ts';
import { configMap, mountAt, pod, secret } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
const outside = join(machine.directory, 'outside');
before(async () => {
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret'), 'of the machine');
  if (withNode.skip !== false) return;
  await machine.start();
  await machine.kubectl.apply(
    configMap('config', { key: 'value' }),
    secret('login', { password: 'hush' }),
    pod(
      'victim',
      { volumeMounts: [mountAt('login', '/login')] },
      { volumes: [{ name: 'login', secret: { secretName: 'login' } }] },
    ),
    pod(
      'evil',
      {
        volumeMounts: [
          mountAt('config', '/config'),
          mountAt('part', '/part', { subPath: 'key' }),
          mountAt('work', '/work'),
        ],
      },
      {
        volumes: [
          { name: 'config', configMap: { name: 'config' } },
          { name: 'part', configMap: { name: 'config' } },
          { name: 'work', emptyDir: {} },
        ],
      },
    ),
  );
  await machine.kubectl.running('victim', 'evil');
});
after(() => machine.end());

/** What fails, as it should. */
async function fails(script: string): Promise<string> {
  const { code, stdout, stderr } = await machine.kubectl.run(['exec', 'evil', '--', 'sh', '-c', script]);
  assert.notEqual(code, 0, `it could: ${script}\n${stdout}`);
  return stderr;
}

describe('malice', { concurrency: 3 }, () => {
  test(
    'configuration cannot be written to, removed, replaced or mounted over, and others do not notice',
    withNode,
    async () => {
      const { kubectl, up } = machine;
      for (const script of [
        'echo x >/config/key',
        'rm /config/key',
        'ln -sfn /etc /config/..data',
        'echo x >/config/new',
        'echo x >/part',
        'mount -o remount,rw /config',
        'mount --bind /tmp /config',
        'umount /config',
      ]) {
        await fails(script);
      }
      const volume = await up.volume('evil', 'configmap', 'config');
      assert.ok(!existsSync(join(volume, 'new')));
      await kubectl.apply(configMap('config', { key: 'next' }));
      for (const path of ['/config/key', '/part']) {
        await eventually(async () => assert.equal(await kubectl.exec('evil', 'cat', path), 'next'));
      }
    },
  );

  test('the state directory, its kubeconfig and the volumes of other pods are not there', withNode, async () => {
    const { up } = machine;
    const victim = await up.volume('victim', 'secret', 'login');
    for (const path of [
      join(up.directory, 'kubeconfig'),
      join(up.directory, 'api'),
      join(up.directory, 'node', 'pods'),
      join(victim, 'password'),
      `/proc/1/root${victim}/password`,
      `/proc/self/root/../..${victim}/password`,
    ]) {
      await fails(`cat ${path} 2>/dev/null || ls -A ${path} | grep .`);
    }
    await fails(`touch ${up.directory}/x && ls ${up.directory}/kubeconfig`);
    assert.ok(!existsSync(join(up.directory, 'x')));
    await fails(`cat /proc/[0-9]*/root/login/password`);
  });

  test('a link in an emptyDir leads no subPath to the machine', withNode, async () => {
    const { kubectl } = machine;
    const work = { volumeMounts: [mountAt('work', '/work')] };
    const script = `ln -s ${outside} /work/up; ln -s ${outside}/secret /work/file; ln -s /etc /work/etc; ln -s .. /work/dots; mkdir /work/new`;
    const subPaths = ['up', 'file', 'etc/shadow', 'dots', 'dots/dots'];
    const nameOf = (subPath: string): string => `link-${subPath.replaceAll('/', '-')}`;
    await kubectl.apply(
      ...subPaths.map((subPath) =>
        pod(
          nameOf(subPath),
          { volumeMounts: [mountAt('work', '/mnt', { subPath })] },
          {
            initContainers: [{ name: 'trap', image: 'test:1', command: ['sh', '-c', script], ...work }],
            volumes: [{ name: 'work', emptyDir: {} }],
          },
        ),
      ),
    );
    const reason = '{.status.containerStatuses[0].state.waiting.reason}';
    for (const name of subPaths.map(nameOf)) await kubectl.until(`pod/${name}`, reason, 'CreateContainerConfigError');
    await kubectl.ok(['delete', 'pod', '--now', ...subPaths.map(nameOf)]);
  });

  test('daemons end with their pod, however they hide', withNode, async () => {
    const { kubectl } = machine;
    // Nobody else on this machine sleeps for so long.
    const sleep = `sleep ${randomInt(1e8, 1e9)}`;
    const daemons = (): string[] =>
      allPids()
        .map(commandLine)
        .filter((line) => line === sleep);
    const fork = `setsid sh -c "trap : TERM HUP INT; (setsid ${sleep} &) ; exec ${sleep}" >/dev/null 2>&1 &`;
    await kubectl.apply(pod('daemons', { script: `${fork} ${fork} sleep 1; exec sleep infinity` }));
    await kubectl.running('daemons');
    await eventually(() => assert.equal(daemons().length, 4));
    await kubectl.ok('delete pod daemons --now');
    await eventually(() => assert.deepEqual(daemons(), []));
  });

  test('a Secret as the name of a program that cannot be started is repeated nowhere', withNode, async () => {
    const { kubectl, up } = machine;
    const values = { word: 'xyzzy-plugh-word', path: '/xyzzy-plugh/path' };
    const env = (key: string): object[] => [
      { name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 'magic', key } } },
      { name: 'COPY', value: '$(PASSWORD)' },
    ];
    const hook = { exec: { command: ['$(PASSWORD)'] } };
    const commands = Object.keys(values).flatMap((key) => [
      pod(`command-${key}`, { command: ['$(PASSWORD)'], env: env(key) }),
      pod(`copy-${key}`, { command: ['$(COPY)', '$(PASSWORD)'], env: env(key) }),
      pod(`args-${key}`, { args: ['$(PASSWORD)'], env: env(key) }),
    ]);
    await kubectl.apply(
      secret('magic', values),
      ...commands,
      pod('post-start', { env: env('word'), lifecycle: { postStart: hook } }),
      pod('pre-stop', { env: env('word'), lifecycle: { preStop: hook } }, { terminationGracePeriodSeconds: 5 }),
      pod('probe', { env: env('word'), readinessProbe: { ...hook, periodSeconds: 1 } }),
      pod('probe-copy', { env: env('path'), livenessProbe: { exec: { command: ['$(COPY)'] }, periodSeconds: 1 } }),
    );
    await kubectl.running('pre-stop', 'probe');
    assert.equal(await kubectl.exec('probe', 'sh', '-c', 'echo $COPY'), `${values.word}\n`);
    await kubectl.ok('delete pod pre-stop');

    const happens = async (name: string, what: RegExp): Promise<void> =>
      await eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), what));
    for (const key of Object.keys(values)) {
      await happens(`command-${key}`, /Failed.*"\$\(PASSWORD\)"/);
      await happens(`copy-${key}`, /Failed.*"\$\(COPY\)"/);
      const { hasImages } = testedRuntime();
      await happens(`args-${key}`, hasImages ? /Failed.*"\$\(PASSWORD\)"/ : /ContainerIdle.*arguments and no command/);
    }
    await happens('post-start', /FailedPostStartHook/);
    await happens('pre-stop', /FailedPreStopHook/);
    await happens('probe', /Unhealthy.*Readiness/);
    await happens('probe-copy', /Unhealthy.*Liveness/);

    const said = await Promise.all([
      kubectl.ok('get pods,events -o json'),
      kubectl.ok('describe pods'),
      kubectl.ok('get --raw /metrics'),
    ]);
    const found = (text: string): string[] =>
      spawnSync('grep', ['-rlaF', '-D', 'skip', '-e', text, '-e', Buffer.from(text).toString('base64'), up.directory], {
        encoding: 'utf8',
      })
        .stdout.split('\n')
        .filter(Boolean);
    // Where a Secret is meant to be it is found: the volume of a pod, in memory.
    assert.ok(found('hush').some((path) => path.includes('/volumes/kubernetes.io~secret/login/')));
    for (const value of Object.values(values)) {
      assert.deepEqual(found(value), [], `${value} is on the disk`);
      for (const text of [...said, up.output()]) assert.ok(!text.includes(value), `${value} was repeated: ${text}`);
    }
  });

  test('a container that kills all it sees ends itself alone, and is started again', withNode, async () => {
    const { kubectl } = machine;
    // Process 1 of a container ends with what it waits for; nobody inside of it can kill it.
    await kubectl.apply(pod('kills', { script: 'sleep infinity; exit 1' }));
    await kubectl.running('kills');
    await kubectl.run(['exec', 'kills', '--', 'sh', '-c', 'kill -9 1; kill -9 -1']);
    await kubectl.until('pod/kills', '{.status.containerStatuses[0].restartCount}', '1');
    await kubectl.until('pod/kills', '{.status.containerStatuses[0].ready}', 'true');
    assert.equal(await kubectl.exec('victim', 'cat', '/login/password'), 'hush');
  });
});
