/** `mountlet up` without any privilege: user namespaces instead of root. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually, noKubectl } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine } from './up-program.ts';

test('an ordinary user runs pods with configuration that is updated, and leaves nothing', async (t) => {
  if (noKubectl !== false) return t.skip(noKubectl);
  const { code, stdout } = mountlet(['doctor'], { asOrdinaryUser: true });
  if (code !== 0) return t.skip(`needs user namespaces for ordinary users:\n${stdout}`);
  const machine = new UpMachine();
  t.after(() => machine.end());
  const { kubectl } = await machine.startAsOrdinaryUser();
  await kubectl.apply(
    configMap('config', { key: 'one' }),
    pod(
      'web',
      { volumeMounts: [mountAt('config', '/etc/config')] },
      { volumes: [{ name: 'config', configMap: { name: 'config' } }] },
    ),
  );
  await kubectl.running('web');
  assert.equal(await kubectl.exec('web', 'cat', '/etc/config/key'), 'one');
  assert.equal(await kubectl.exec('web', 'cat', '/var/run/secrets/kubernetes.io/serviceaccount/namespace'), 'default');
  await kubectl.apply(configMap('config', { key: 'two' }));
  await eventually(async () => assert.equal(await kubectl.exec('web', 'cat', '/etc/config/key'), 'two'));
  const volumes = mountlet(['get', 'volumes', '--root-dir', join(machine.directory, 'state')], {
    asOrdinaryUser: true,
  });
  assert.match(volumes.stdout, /^web +config +configmap +Mounted /m, volumes.stderr);
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: { ports: [{ port: 80 }] } };
  const { stderr } = await kubectl.run('apply -f -'.split(' '), { input: JSON.stringify(service) });
  const why = 'Services do not answer on this machine: a network for each pod takes root';
  assert.ok(stderr.includes(`Warning: ${why}`), stderr);
  assert.match(
    machine.up.output(),
    /Services do not answer on this machine, and pods do not find their names: a network/,
  );
  const { code: refused } = await kubectl.run(['exec', 'web', '--', 'sh', '-c', 'echo x >/etc/config/key']);
  assert.notEqual(refused, 0);
});
