/** Starts many pods at once and ends them all: what a node must do without leaving anything on its machine. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { V1Pod } from '@kubernetes/client-node';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { groupsBelow } from '../src/testing/machine/containerd.ts';
import { eventually } from './kubectl-program.ts';
import type { ContainerPart } from './manifests.ts';
import { configMap, mountAt, pod, secret } from './manifests.ts';
import { UpMachine } from './up-program.ts';

type Test = Pick<TestContext, 'after' | 'diagnostic'>;

function podWithVolumes(name: string, container: ContainerPart = {}, spec: object = {}): object {
  return pod(
    name,
    {
      volumeMounts: [mountAt('config', '/etc/config'), mountAt('login', '/etc/login'), mountAt('work', '/work')],
      ...container,
    },
    {
      volumes: [
        { name: 'config', configMap: { name: 'config' } },
        { name: 'login', secret: { secretName: 'login' } },
        { name: 'work', emptyDir: {} },
      ],
      ...spec,
    },
  );
}

export async function startAndStopPods(count: number, test: Test): Promise<void> {
  const machine = new UpMachine();
  test.after(() => machine.end());
  const { kubectl, directory } = await machine.start();
  const names = Array.from({ length: count }, (_, index) => `pod-${index}`);
  await kubectl.apply(
    configMap('config', { key: 'one' }),
    secret('login', { password: 'hush' }),
    ...names.map((name) => podWithVolumes(name)),
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
  assertNoControlGroups(pods.items.map(({ metadata }) => metadata.uid));
}

/** Those of a container runtime are named after pods, below the root of all groups. */
function assertNoControlGroups(uids: readonly string[]): void {
  const groups = groupsBelow('/sys/fs/cgroup');
  assert.deepEqual(
    groups.filter((path) => uids.some((uid) => path.includes(uid))),
    [],
  );
}

const aliveMax = 50;
const graceSeconds = 1;

interface Times {
  /** What the start of a crowd takes, so that some are deleted early and some late. */
  readonly startMsMax?: number;
  /** How long after its grace a pod may take to be gone with all that it had. */
  readonly goneMsMax?: number;
}

/** Every pod is deleted at another moment of its start; every second one does not end when it is asked to. */
export async function deletePodsWhileTheyStart(
  count: number,
  test: Test,
  { startMsMax = 300, goneMsMax = 110_000 }: Times = {},
): Promise<void> {
  const machine = new UpMachine();
  test.after(() => machine.end());
  const { kubectl, directory } = await machine.start();
  await kubectl.apply(configMap('config', { key: 'one' }), secret('login', { password: 'hush' }));
  const config = new KubeConfig();
  config.loadFromFile(join(directory, 'kubeconfig'));
  const api = config.makeApiClient(CoreV1Api);
  const namespace = 'default';

  const uids: string[] = [];
  const startAndDelete = async (index: number): Promise<void> => {
    const script = `${index % 2 === 0 ? "trap '' TERM; " : ''}while :; do sleep 1; done`;
    const body = podWithVolumes(`pod-${index}`, { script }, { terminationGracePeriodSeconds: graceSeconds }) as V1Pod;
    const { metadata } = await api.createNamespacedPod({ namespace, body });
    uids.push(metadata?.uid ?? '');
    await new Promise((resolve) => setTimeout(resolve, Math.random() * startMsMax));
    await api.deleteNamespacedPod({ namespace, name: `pod-${index}` });
  };
  let slowestMs = 0;
  for (let first = 0; first < count; first += aliveMax) {
    const indexes = Array.from({ length: Math.min(aliveMax, count - first) }, (_, index) => first + index);
    await Promise.all(indexes.map(startAndDelete));
    const deletedAtMs = performance.now();
    await eventually(async () => assert.equal((await api.listNamespacedPod({ namespace })).items.length, 0));
    await machine.up.assertNothingLeft();
    slowestMs = Math.max(slowestMs, performance.now() - deletedAtMs);
  }
  assertNoControlGroups(uids);
  test.diagnostic(
    `${count} pods; all of the slowest ${aliveMax} were gone ${Math.round(slowestMs)} ms after the last delete`,
  );
  assert.ok(slowestMs < graceSeconds * 1000 + goneMsMax, `gone after ${slowestMs} ms`);
}
