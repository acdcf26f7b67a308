/** Loops act on changes alone: where nothing changes, none of them asks the server for anything. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';
import { endsAnnotation, passTime, workloadParties } from '../../testing/worlds/workload-world.ts';
import { runCronJobs } from './cron-jobs.ts';
import { runDaemonSets } from './daemon-sets.ts';
import { runDeployments } from './deployments.ts';
import { runFinishedJobs, runJobs } from './jobs.ts';
import { runReplicaSets, runReplicationControllers } from './replicas.ts';
import { runRolloutOnChange } from './rollout-on-change.ts';
import { runStatefulSets } from './stateful-sets.ts';

const parties = workloadParties(
  runStatefulSets,
  runDaemonSets,
  runJobs,
  runFinishedJobs,
  runCronJobs,
  runDeployments,
  runReplicaSets,
  runReplicationControllers,
  runRolloutOnChange,
);

const template = (app: string, spec: object = {}, annotations: object = {}): object => ({
  metadata: { labels: { app }, annotations },
  spec: { containers: [{ name: 'main', image: 'none', envFrom: [{ configMapRef: { name: 'config' } }] }], ...spec },
});
const selected = (app: string): object => ({ selector: { matchLabels: { app } }, template: template(app) });
const job = (app: string, end: string): object => ({
  template: template(app, { restartPolicy: 'Never' }, { [endsAnnotation]: end }),
});

test('an hour in which nothing changes costs no request', async () => {
  const world = await StorageWorld.open(parties);
  try {
    const make = (apiVersion: string, kind: string, spec: object, name = kind.toLowerCase()): Promise<void> => {
      const metadata = { name, namespace, annotations: { 'mountlet.dev/rollout-on-change': 'true' } };
      return world.create(apiVersion, kind, { metadata, spec } as unknown as KubeObject);
    };
    const data = { key: 'value' };
    await world.create('v1', 'ConfigMap', { metadata: { name: 'config', namespace }, data } as KubeObject);
    await make('apps/v1', 'Deployment', { replicas: 2, ...selected('d') });
    await make('apps/v1', 'StatefulSet', { replicas: 2, ...selected('s') });
    await make('apps/v1', 'DaemonSet', selected('n'));
    await make('apps/v1', 'ReplicaSet', { replicas: 1, ...selected('r') });
    await make('v1', 'ReplicationController', { replicas: 1, selector: { app: 'c' }, template: template('c') });
    await make('batch/v1', 'Job', job('j', 'Succeeded'));
    await make('batch/v1', 'Job', job('f', 'Failed'), 'fails');
    await make('batch/v1', 'CronJob', { schedule: '* * * * *', suspend: true, jobTemplate: { spec: job('t', '') } });
    // Its pods are never ready, and one that no node can take.
    await make(
      'apps/v1',
      'Deployment',
      { ...selected('w'), template: template('w', {}, { [endsAnnotation]: 'Stuck' }) },
      'waits',
    );
    await make(
      'apps/v1',
      'Deployment',
      { ...selected('x'), template: template('x', { nodeSelector: { no: 'node' } }) },
      'nowhere',
    );
    await passTime(world, 1_800_000);
    assert.equal(world.all<Pod>('v1', 'Pod').filter(({ status }) => status?.phase === 'Running').length, 7);
    const before = [world.activity, world.points.length];
    await passTime(world, 3_600_000);
    assert.deepEqual([world.activity, world.points.length], before, world.points.slice(before[1]).join('\n'));
  } finally {
    await world.close();
  }
});
