import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const podsMax = 50;

/** Node prints them on stderr: `(node:123) MaxListenersExceededWarning: Possible EventEmitter memory leak detected.` */
const nodeWarning = /\(node:\d+\)|Warning: /;

test('fifty pods start and are drained, and no warning of Node reaches the user', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const up = await machine.start('--drain');
  await up.kubectl.apply(configMap('config', { key: 'one' }));
  const config = new KubeConfig();
  config.loadFromFile(join(up.directory, 'kubeconfig'));
  const api = config.makeApiClient(CoreV1Api);
  const namespace = 'default';
  await Promise.all(
    Array.from({ length: podsMax }, (_, index) => {
      const container = { script: 'exec sleep 600', volumeMounts: [mountAt('config', '/etc/config')] };
      const spec = {
        terminationGracePeriodSeconds: 1,
        volumes: [{ name: 'config', configMap: { name: 'config' } }],
      };
      return api.createNamespacedPod({ namespace, body: pod(`pod-${index}`, container, spec) });
    }),
  );
  await eventually(async () => {
    const { items } = await api.listNamespacedPod({ namespace });
    assert.equal(items.filter(({ status }) => status?.phase === 'Running').length, podsMax);
  });
  assert.equal(await up.stop(), 0);
  assert.doesNotMatch(up.output(), nodeWarning);
});
