/** Starts many pods at once and ends them all: what a node must do without leaving anything on its machine. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { UpMachine } from './up-program.ts';

export async function startAndStopPods(count: number, test: { after(act: () => Promise<void>): void }): Promise<void> {
  const machine = new UpMachine();
  test.after(() => machine.end());
  const { kubectl, directory } = await machine.start();
  const names = Array.from({ length: count }, (_, index) => `pod-${index}`);
  await kubectl.apply(
    configMap('config', { key: 'one' }),
    ...names.map((name) =>
      pod(
        name,
        { volumeMounts: [mountAt('config', '/etc/config'), mountAt('work', '/work')] },
        {
          volumes: [
            { name: 'config', configMap: { name: 'config' } },
            { name: 'work', emptyDir: {} },
          ],
        },
      ),
    ),
  );
  await kubectl.ok('wait pod --all --for=condition=Ready --timeout=600s');
  await kubectl.apply(configMap('config', { key: 'two' }));
  const pods = await kubectl.json<{ items: { metadata: { uid: string } }[] }>('get pods');
  assert.equal(pods.items.length, count);
  for (const { metadata } of pods.items) {
    const file = join(directory, 'node/pods', metadata.uid, 'volumes/kubernetes.io~configmap/config/key');
    await eventually(() => assert.equal(readFileSync(file, 'utf8'), 'two'));
  }
  await kubectl.ok('delete pods --all');
  await machine.up.assertNothingLeft();
}
