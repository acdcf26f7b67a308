/**
 * StatefulSets and DaemonSets survive what happens to their controllers: struck at a write, before or after it, the same pods, claims
 * and versions are there in the end, none made twice and none left.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import type { ControllerRevision } from '../../kube/kinds/controller-revision.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { DaemonSet } from '../../kube/kinds/workloads/daemon-set.ts';
import type { StatefulSet } from '../../kube/kinds/workloads/stateful-set.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type Fault, StorageWorld, namespace, nodeName } from '../../testing/worlds/storage-world.ts';
import { passTime, workloadParties } from '../../testing/worlds/workload-world.ts';
import { runDaemonSets } from './daemon-sets.ts';
import { runStatefulSets } from './stateful-sets.ts';

const seed = Number(process.env['SEED'] ?? 1);
const parties = workloadParties(runStatefulSets, runDaemonSets);

function templateOf(app: string, image: string): object {
  return { metadata: { labels: { app } }, spec: { containers: [{ name: 'main', image }] } };
}

const claimTemplate = {
  metadata: { name: 'data' },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'local-path', resources: { requests: { storage: '1Gi' } } },
};

interface StoryOptions {
  readonly fault?: Fault & { readonly point: number };
  readonly conflicts?: boolean;
  readonly lag?: number;
}

type Spec = StatefulSet['spec'] & DaemonSet['spec'];

class Story {
  readonly world: StorageWorld;

  constructor(world: StorageWorld) {
    this.world = world;
  }

  async step(act: () => Promise<unknown>): Promise<void> {
    const before = this.world.struck;
    await act();
    await passTime(this.world, 0);
    this.world.start();
    this.world.catchUp();
    await passTime(this.world, this.world.struck === before ? 0 : 40_000);
  }

  async change(kind: string, name: string, part: object): Promise<void> {
    const { user } = this.world;
    const key = user.keyOf(user.kindOf('apps/v1', kind) ?? assert.fail(kind), namespace, name);
    await user.update(key, (object) => {
      const { spec } = object as unknown as { readonly spec: Spec };
      return { ...object, spec: { ...spec, ...part } } as KubeObject;
    });
  }

  async taint(name: string, effect: string | undefined): Promise<void> {
    const { user } = this.world;
    await user.update(this.world.key('Node', name), (object) => {
      const taints = effect === undefined ? [] : [{ key: 'test', value: 'yes', effect }];
      return { ...object, spec: { ...(object as Node).spec, taints } } as KubeObject;
    });
  }

  /** `web-0 one Running` for each pod, by name: its image and phase. */
  pods(app: string): readonly string[] {
    return this.world
      .all<Pod>('v1', 'Pod')
      .filter(({ metadata }) => metadata.labels?.['app'] === app)
      .map(({ metadata, spec, status }) => {
        const who = app === 'web' ? metadata.name : (spec.nodeName ?? '');
        return `${who} ${spec.containers[0]?.image} ${status?.phase}`;
      })
      .sort();
  }

  claims(): readonly string[] {
    return this.world.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim').map(({ metadata }) => metadata.name);
  }

  revisions(app: string): readonly number[] {
    return this.world
      .all<ControllerRevision>('apps/v1', 'ControllerRevision')
      .filter(({ metadata }) => metadata.labels?.['app'] === app)
      .map(({ revision }) => revision)
      .sort();
  }

  statusOf(kind: string, name: string): Readonly<Record<string, unknown>> {
    const found = this.world.all<StatefulSet>('apps/v1', kind).find(({ metadata }) => metadata.name === name);
    return found?.status ?? {};
  }
}

async function tell({ fault, conflicts = false, lag = 0 }: StoryOptions = {}): Promise<readonly string[]> {
  const world = await StorageWorld.open(parties);
  const started = world.points.length;
  if (fault !== undefined) world.fault = { ...fault, point: started + fault.point };
  world.conflicts = conflicts;
  if (lag > 0) for (const plural of ['pods', 'statefulsets', 'daemonsets']) world.lag(plural, lag);
  const story = new Story(world);
  try {
    await tellOfSets(story);
    await tellOfDaemons(story);
    return world.points.slice(started);
  } catch (error) {
    const where = fault === undefined ? '' : `${fault.victim} ${fault.moment} ${fault.point} (${world.struck}): `;
    throw new Error(`${where}${messageOf(error)}\n${world.failures.slice(-5).join('\n')}`, { cause: error });
  } finally {
    await world.close();
  }
}

const web = (numbers: readonly number[], image: string): readonly string[] =>
  numbers.map((number) => `web-${number} ${image} Running`);

async function tellOfSets(story: Story): Promise<void> {
  const { world } = story;
  const selector = { matchLabels: { app: 'web' } };
  const spec = { replicas: 3, serviceName: 'web', selector, template: templateOf('web', 'one') };
  const set = { metadata: { name: 'web', namespace }, spec: { ...spec, volumeClaimTemplates: [claimTemplate] } };
  await story.step(() => world.create('apps/v1', 'StatefulSet', set));
  assert.deepEqual(story.pods('web'), web([0, 1, 2], 'one'));
  const claims = ['data-web-0', 'data-web-1', 'data-web-2'];
  assert.deepEqual(story.claims(), claims);
  const uids = (): readonly string[] =>
    world.all<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim').map(({ metadata }) => metadata.uid ?? '');
  const before = uids();
  await story.step(() => story.change('StatefulSet', 'web', { replicas: 1 }));
  assert.deepEqual([story.pods('web'), story.claims()], [web([0], 'one'), claims]);
  await story.step(() => story.change('StatefulSet', 'web', { replicas: 3 }));
  assert.deepEqual([story.pods('web'), uids()], [web([0, 1, 2], 'one'), before]);
  await story.step(() => story.change('StatefulSet', 'web', { template: templateOf('web', 'two') }));
  assert.deepEqual([story.pods('web'), story.revisions('web')], [web([0, 1, 2], 'two'), [1, 2]]);
  const { currentRevision, updateRevision, updatedReplicas, currentReplicas } = story.statusOf('StatefulSet', 'web');
  assert.deepEqual([currentRevision, updatedReplicas, currentReplicas], [updateRevision, 3, 3]);
  // Back to the first version, which keeps its object and gets the highest number; at first only for the last pod.
  const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { partition: 2 } };
  await story.step(() => story.change('StatefulSet', 'web', { template: templateOf('web', 'one'), updateStrategy }));
  assert.deepEqual(story.pods('web'), [...web([0, 1], 'two'), ...web([2], 'one')]);
  assert.deepEqual(story.revisions('web'), [2, 3]);
  await story.step(() => world.user.delete(world.key('Pod', 'web-0')));
  assert.deepEqual(story.pods('web'), [...web([0, 1], 'two'), ...web([2], 'one')]);
  await story.step(() =>
    story.change('StatefulSet', 'web', { updateStrategy: { type: 'RollingUpdate', rollingUpdate: {} } }),
  );
  assert.deepEqual(story.pods('web'), web([0, 1, 2], 'one'));
  const persistentVolumeClaimRetentionPolicy = { whenDeleted: 'Delete', whenScaled: 'Delete' };
  await story.step(() => story.change('StatefulSet', 'web', { persistentVolumeClaimRetentionPolicy }));
  await story.step(() => story.change('StatefulSet', 'web', { replicas: 2, podManagementPolicy: 'OrderedReady' }));
  assert.deepEqual([story.pods('web'), story.claims()], [web([0, 1], 'one'), claims.slice(0, 2)]);
  const key = world.user.keyOf(world.user.kindOf('apps/v1', 'StatefulSet') ?? assert.fail(), namespace, 'web');
  await story.step(() => world.user.delete(key));
  assert.deepEqual([story.pods('web'), story.claims(), story.revisions('web')], [[], [], []]);
}

async function tellOfDaemons(story: Story): Promise<void> {
  const { world } = story;
  await world.create('v1', 'Node', { metadata: { name: 'there' } });
  await world.setReady('there', true);
  const on = (nodes: readonly string[], image: string): readonly string[] =>
    nodes.map((node) => `${node} ${image} Running`);
  const both = [nodeName, 'there'];
  const selector = { matchLabels: { app: 'log' } };
  const set = { metadata: { name: 'log', namespace }, spec: { selector, template: templateOf('log', 'one') } };
  await story.step(() => world.create('apps/v1', 'DaemonSet', set));
  assert.deepEqual(story.pods('log'), on(both, 'one'));
  await story.step(() => story.taint('there', 'NoSchedule'));
  assert.deepEqual(story.pods('log'), on(both, 'one'));
  assert.equal(story.statusOf('DaemonSet', 'log')['numberMisscheduled'], 1);
  await story.step(() => story.taint('there', 'NoExecute'));
  assert.deepEqual(story.pods('log'), on([nodeName], 'one'));
  await story.step(() => story.taint('there', undefined));
  await story.step(() => story.change('DaemonSet', 'log', { template: templateOf('log', 'two') }));
  assert.deepEqual([story.pods('log'), story.revisions('log')], [on(both, 'two'), [1, 2]]);
  const updateStrategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
  await story.step(() => story.change('DaemonSet', 'log', { template: templateOf('log', 'three'), updateStrategy }));
  assert.deepEqual([story.pods('log'), story.revisions('log')], [on(both, 'three'), [1, 2, 3]]);
  const { desiredNumberScheduled, updatedNumberScheduled, numberAvailable } = story.statusOf('DaemonSet', 'log');
  assert.deepEqual([desiredNumberScheduled, updatedNumberScheduled, numberAvailable], [2, 2, 2]);
  await story.step(() =>
    story.change('DaemonSet', 'log', { updateStrategy: { type: 'OnDelete' }, revisionHistoryLimit: 1 }),
  );
  await story.step(() => story.change('DaemonSet', 'log', { template: templateOf('log', 'four') }));
  assert.deepEqual(story.pods('log'), on(both, 'three'));
  const [pod] = world.all<Pod>('v1', 'Pod');
  await story.step(() => world.user.delete(world.key('Pod', pod?.metadata.name ?? '')));
  assert.deepEqual(
    story
      .pods('log')
      .map((line) => line.split(' ')[1])
      .sort(),
    ['four', 'three'],
  );
  assert.deepEqual(story.revisions('log').slice(-2), [3, 4]);
  const key = world.user.keyOf(world.user.kindOf('apps/v1', 'DaemonSet') ?? assert.fail(), namespace, 'log');
  await story.step(() => world.user.delete(key));
  assert.deepEqual([story.pods('log'), story.revisions('log')], [[], []]);
}

test('sets live, change and end as they should, also where every update meets a conflict and where watches lag behind', async () => {
  await tell();
  await tell({ conflicts: true });
  await tell({ lag: 2 });
});

test('a crash at a write, before or after it, changes nothing about how sets end', async (t) => {
  const points = await tell();
  const fault = fc.record({
    point: fc.integer({ min: 1, max: points.length }),
    victim: fc.constantFrom('party' as const, 'all' as const, 'server' as const),
    moment: fc.constantFrom('before' as const, 'after' as const),
  });
  const sample = fc.sample(fault, { seed, numRuns: 12 });
  t.diagnostic(`seed ${seed}: ${sample.map(({ point }) => point).join()} of ${points.length} points`);
  const wrong: string[] = [];
  for (const one of sample) await tell({ fault: one }).catch((error: unknown) => wrong.push(messageOf(error)));
  assert.deepEqual(wrong, []);
});
