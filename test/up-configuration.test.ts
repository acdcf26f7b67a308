/** What `mountlet up` is for: configuration on disk and in containers, and its updates, seen with kubectl and on the machine. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod, secret } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start())));
after(() => machine.end());

/** What a file is inside of a container, when it has become that. */
const becomes = async (name: string, path: string, content: string): Promise<void> => {
  await eventually(async () => assert.equal(await machine.kubectl.exec(name, 'cat', path), content));
};

test('a ConfigMap is below the directory of its pod, and its edit is inside', withNode, async () => {
  const { kubectl, up } = machine;
  await kubectl.apply(
    configMap('myconfigmap01', { 'redis.conf': 'port=6379\nmaxmemory=2mb\n' }),
    pod(
      'redis',
      { name: 'web', image: 'nginx:1.8', volumeMounts: [mountAt('config-volume', '/etc/config')] },
      { volumes: [{ name: 'config-volume', configMap: { name: 'myconfigmap01' } }] },
    ),
  );
  await kubectl.running('redis');
  const volume = await up.volume('redis', 'configmap', 'config-volume');
  assert.equal(readlinkSync(join(volume, 'redis.conf')), '..data/redis.conf');
  assert.match(readlinkSync(join(volume, '..data')), /^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$/);
  assert.equal(readFileSync(join(volume, 'redis.conf'), 'utf8'), 'port=6379\nmaxmemory=2mb\n');

  const projected = join(dirname(dirname(volume)), 'kubernetes.io~projected');
  const [access = ''] = readdirSync(projected);
  assert.match(access, /^kube-api-access-[a-z0-9]{5}$/);
  const files = readdirSync(join(projected, access)).filter((name) => !name.startsWith('..'));
  assert.deepEqual(files.toSorted(), ['ca.crt', 'namespace', 'token']);
  assert.equal(readFileSync(join(projected, access, 'namespace'), 'utf8'), 'default');
  assert.match(readFileSync(join(projected, access, 'ca.crt'), 'utf8'), /^-----BEGIN CERTIFICATE-----/);
  const inside = '/var/run/secrets/kubernetes.io/serviceaccount/token';
  assert.equal(await kubectl.exec('redis', 'cat', inside), readFileSync(join(projected, access, 'token'), 'utf8'));

  assert.equal(await kubectl.exec('redis', 'cat', '/etc/config/redis.conf'), 'port=6379\nmaxmemory=2mb\n');
  const env = { KUBE_EDITOR: `sed -i s/maxmemory=2mb/maxmemory=4mb/` };
  assert.match(await kubectl.ok('edit configmap myconfigmap01', { env }), /edited/);
  await becomes('redis', '/etc/config/redis.conf', 'port=6379\nmaxmemory=4mb\n');
  assert.match(await kubectl.ok('get pods redis'), /^redis +1\/1 +Running +0 /m);
});

test('two files of one ConfigMap are read, updated and read again', withNode, async () => {
  const { kubectl } = machine;
  const version = (number: number): object =>
    configMap('test-config', { 'config.yml': `version: ${number}\n`, 'bootstrap.yml': `boot: ${number}\n` });
  await kubectl.apply(
    version(1),
    pod(
      'test-pod',
      { volumeMounts: [mountAt('config', '/etc/config')] },
      { volumes: [{ name: 'config', configMap: { name: 'test-config' } }] },
    ),
  );
  await kubectl.running('test-pod');
  const read = ['cat', '/etc/config/bootstrap.yml', '/etc/config/config.yml'];
  assert.equal(await kubectl.exec('test-pod', 'ls', '/etc/config'), 'bootstrap.yml\nconfig.yml\n');
  assert.equal(await kubectl.exec('test-pod', ...read), 'boot: 1\nversion: 1\n');
  await kubectl.apply(version(2));
  await eventually(async () => assert.equal(await kubectl.exec('test-pod', ...read), 'boot: 2\nversion: 2\n'));
});

test('updates arrive through a subPath, in a Secret and in labels of the pod', withNode, async () => {
  const { kubectl, up } = machine;
  await kubectl.apply(
    configMap('parts', { 'a.conf': 'a1', 'b.conf': 'b1' }),
    secret('login', { password: 'first' }),
    pod(
      'parts',
      {
        volumeMounts: [
          mountAt('config', '/etc/a.conf', { subPath: 'a.conf' }),
          mountAt('login', '/etc/login'),
          mountAt('about', '/etc/about'),
        ],
      },
      {
        labels: { tier: 'front' },
        volumes: [
          { name: 'config', configMap: { name: 'parts' } },
          { name: 'login', secret: { secretName: 'login', defaultMode: 0o400 } },
          { name: 'about', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
        ],
      },
    ),
  );
  await kubectl.running('parts');
  await becomes('parts', '/etc/a.conf', 'a1');
  await becomes('parts', '/etc/login/password', 'first');
  await becomes('parts', '/etc/about/labels', 'tier="front"');
  const login = await up.volume('parts', 'secret', 'login');
  assert.equal(statSync(join(login, 'password')).mode & 0o7777, 0o400);
  assert.equal(await kubectl.exec('parts', 'stat', '-f', '-c', '%T', '/etc/login'), 'tmpfs\n');

  await kubectl.apply(configMap('parts', { 'a.conf': 'a2', 'b.conf': 'b2' }), secret('login', { password: 'second' }));
  await kubectl.ok('label pod parts tier=back --overwrite');
  await becomes('parts', '/etc/a.conf', 'a2');
  await becomes('parts', '/etc/login/password', 'second');
  await becomes('parts', '/etc/about/labels', 'tier="back"');
});

test('variables from a ConfigMap stay as they were, and the pod says that they are stale', withNode, async () => {
  const { kubectl } = machine;
  const condition = '{.status.conditions[?(@.type=="mountlet.dev/EnvironmentCurrent")].status}';
  await kubectl.apply(
    configMap('variables', { COLOR: 'red' }),
    pod('stale', { envFrom: [{ configMapRef: { name: 'variables' } }] }),
  );
  await kubectl.until('pod/stale', condition, 'True');
  assert.equal(await kubectl.exec('stale', 'sh', '-c', 'echo $COLOR'), 'red\n');
  await kubectl.apply(configMap('variables', { COLOR: 'blue' }));
  await kubectl.until('pod/stale', condition, 'False');
  assert.equal(await kubectl.exec('stale', 'sh', '-c', 'echo $COLOR'), 'red\n');
  const columns = testedRuntime().hasImages
    ? / ENVIRONMENT .*\n.* Stale +<none>\n/
    : / ENVIRONMENT +IDLE\n.* Stale +Idle\n/;
  assert.match(await kubectl.ok('get pod stale -o wide'), columns);
  await eventually(async () => assert.match(await kubectl.ok('events --for pod/stale'), /EnvironmentStale/));
});

test('a volume waits for its ConfigMap and the pod runs as soon as there is one', withNode, async () => {
  const { kubectl } = machine;
  await kubectl.apply(
    pod(
      'early',
      { volumeMounts: [mountAt('config', '/etc/config')] },
      { volumes: [{ name: 'config', configMap: { name: 'late' } }] },
    ),
  );
  await eventually(async () =>
    assert.match(await kubectl.ok('events --for pod/early'), /FailedMount.*configmap "late" not found/),
  );
  assert.match(await kubectl.ok('get pod early'), /ContainerCreating/);
  await kubectl.apply(configMap('late', { key: 'value' }));
  await kubectl.running('early');
  await becomes('early', '/etc/config/key', 'value');
});

test('a variable waits for its ConfigMap and the container starts when there is one', withNode, async () => {
  const { kubectl } = machine;
  await kubectl.apply(
    pod('unset', {
      env: [{ name: 'COLOR', valueFrom: { configMapKeyRef: { name: 'colors', key: 'wall' } } }],
    }),
  );
  const waiting = '{.status.containerStatuses[0].state.waiting.reason}';
  await kubectl.until('pod/unset', waiting, 'CreateContainerConfigError');
  await eventually(async () =>
    assert.match(await kubectl.ok('events --for pod/unset'), /Error: configmap "colors" not found/),
  );
  await kubectl.apply(configMap('colors', { wall: 'green' }));
  await kubectl.running('unset');
  assert.equal(await kubectl.exec('unset', 'sh', '-c', 'echo $COLOR'), 'green\n');
});
