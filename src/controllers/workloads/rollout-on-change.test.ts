/**
 * Workloads that follow their configuration, on a store in memory, with controllers that die at their writes. The oracle looks at
 * what every pod could read when it was made.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Event } from '../../kube/kinds/event.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type Fault, StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';
import { passTime, workloadParties } from '../../testing/worlds/workload-world.ts';
import { coreKind, kindNamed } from '../cluster/cluster.ts';
import { runDaemonSets } from './daemon-sets.ts';
import { runDeployments } from './deployments.ts';
import { runReplicaSets } from './replicas.ts';
import { runRolloutOnChange } from './rollout-on-change.ts';
import { runStatefulSets } from './stateful-sets.ts';

const seed = Number(process.env['SEED'] ?? 1);
const parties = workloadParties(runDeployments, runReplicaSets, runStatefulSets, runDaemonSets, runRolloutOnChange);
const follows = 'mountlet.dev/rollout-on-change';
const hash = 'mountlet.dev/config-hash';

/** Uses the key `used` of the ConfigMap `web`, and all of `extra` where it exists. */
function workload(kind: string, name: string, annotation = 'true', parts: object = {}): KubeObject {
  const containers = [
    {
      name: 'main',
      image: 'none',
      env: [{ name: 'USED', valueFrom: { configMapKeyRef: { name: 'web', key: 'used' } } }],
      envFrom: [{ configMapRef: { name: 'extra', optional: true } }],
    },
  ];
  const template = { metadata: { labels: { app: name } }, spec: { containers } };
  const replicas = kind === 'DaemonSet' ? {} : { replicas: 2 };
  const spec = { ...replicas, selector: { matchLabels: { app: name } }, template };
  return {
    metadata: { name, namespace, annotations: { [follows]: annotation }, ...parts },
    spec,
  } as unknown as KubeObject;
}

class Story {
  readonly world: StorageWorld;
  #hash: string | undefined;
  #mark: string | undefined;
  readonly rolloutsMs: number[] = [];
  readonly wrong: string[] = [];
  /** By the uid of a pod: what it could read when it was made. */
  readonly #read = new Map<string, string>();

  constructor(world: StorageWorld) {
    this.world = world;
    const { user } = world;
    user.watch(coreKind(user, 'Pod'), ({ object }) => {
      const { uid = '' } = object.metadata;
      if (!this.#read.has(uid)) this.#read.set(uid, this.content());
    });
    user.watch(kindNamed(user, 'apps/v1', 'Deployment'), ({ object }) => this.#sawDeployment(object as Deployment));
  }

  static async open(fault?: Fault): Promise<Story> {
    const world = await StorageWorld.open(parties);
    const story = new Story(world);
    await story.write('web', { used: 'first', unused: 'first' });
    if (fault !== undefined) world.fault = fault;
    return story;
  }

  #sawDeployment({ metadata, spec }: Deployment): void {
    const { [hash]: started } = spec.template.metadata?.annotations ?? {};
    if (started !== this.#hash) {
      this.#hash = started;
      if (metadata.annotations?.[hash] === this.#mark) this.wrong.push(`${started} without a change`);
      this.rolloutsMs.push(this.world.clock.now());
    }
    this.#mark = metadata.annotations?.[hash];
  }

  /** What the workload uses. */
  content(): string {
    const found = (name: string): ConfigMap['data'] =>
      this.world
        .all<ConfigMap>('v1', 'ConfigMap')
        .find(({ metadata }) => metadata.name === name && metadata.namespace === namespace)?.data;
    return JSON.stringify([found('web')?.['used'], found('extra')]);
  }

  async write(
    name: string,
    data: Readonly<Record<string, string>>,
    labels: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const { world } = this;
    const key = world.key('ConfigMap', name);
    if ((await world.user.get(key)) === undefined) {
      await world.create('v1', 'ConfigMap', { metadata: { name, namespace, labels }, data } as KubeObject);
    } else {
      await world.user.update(key, (object) => {
        const metadata = { ...object.metadata, labels: { ...object.metadata.labels, ...labels } };
        return { ...object, metadata, data: { ...(object as ConfigMap).data, ...data } } as KubeObject;
      });
    }
  }

  async change(kind: string, name: string, act: (object: Deployment) => object): Promise<void> {
    const { user } = this.world;
    const key = user.keyOf(kindNamed(user, 'apps/v1', kind), namespace, name);
    await user.update(key, (object) => act(object as Deployment) as KubeObject);
  }

  get(kind: string, name: string): Deployment {
    const all = this.world.all<Deployment>('apps/v1', kind);
    return all.find(({ metadata }) => metadata.name === name) ?? assert.fail(`no ${kind} ${name}`);
  }

  /** Of the pods of a workload that live. */
  read(app: string): readonly string[] {
    const pods = this.world.all<Pod>('v1', 'Pod').filter(({ metadata }) => metadata.labels?.['app'] === app);
    return pods.map(({ metadata }) => this.#read.get(metadata.uid ?? '') ?? '');
  }

  events(reason: string): readonly string[] {
    return this.world
      .all<Event>('v1', 'Event')
      .filter((event) => event.reason === reason)
      .map(({ message = '' }) => message);
  }
}

/** Resolves with the numbers of the points at which a Deployment itself, or the key of the marks, was written. */
async function tell(body: (story: Story) => Promise<void>, fault?: Fault): Promise<readonly number[]> {
  const story = await Story.open(fault);
  const { world } = story;
  const started = world.points.length;
  try {
    await body(story);
    assert.deepEqual(story.wrong, []);
    const isOurs = (point: string): boolean => /rollout-key|deployments\/\S+ $/.test(point);
    return world.points.flatMap((point, index) => (index >= started && isOurs(point) ? [index + 1] : []));
  } catch (error) {
    const where = `${JSON.stringify(fault)} ${world.struck}`;
    throw new Error([messageOf(error), where, ...world.failures.slice(-5)].join('\n'), { cause: error });
  } finally {
    await world.close();
  }
}

const isChanged = (story: Story, app: string, used: string): void =>
  assert.ok(
    story.read(app).length > 0 && story.read(app).every((content) => content.startsWith(`["${used}"`)),
    story.read(app).join(),
  );

/** Six writes within a second, and enough time for what follows. */
async function burst(story: Story, word: string): Promise<void> {
  for (let count = 0; count < 6; count += 1) {
    await story.write('web', { used: `${word}${count}` });
    await story.world.clock.advance(150);
  }
  await settle(story);
}

async function settle({ world }: Story): Promise<void> {
  await passTime(world, 20_000);
  world.start();
  world.catchUp();
  await passTime(world, 60_000);
}

async function burstOfEdits(story: Story): Promise<void> {
  await story.world.create('apps/v1', 'Deployment', workload('Deployment', 'web'));
  await settle(story);
  assert.deepEqual([story.rolloutsMs.length, story.read('web').length], [0, 2]);
  await burst(story, 'new');
  assert.equal(story.rolloutsMs.length, 1);
  isChanged(story, 'web', 'new5');
}

test('a burst of edits starts one rollout, also where a write of the controllers is their last', async () => {
  const points = await tell(burstOfEdits);
  assert.equal(points.length, 3, 'the key, the first mark, the rollout');
  for (const point of points) {
    for (const moment of ['before', 'after'] as const) {
      for (const victim of ['party', 'server'] as const) await tell(burstOfEdits, { point, moment, victim });
    }
  }
});

for (const kind of ['StatefulSet', 'DaemonSet']) {
  test(`a ${kind} is rolled out as well`, async () => {
    await tell(async (story) => {
      await story.world.create('apps/v1', kind, workload(kind, 'set'));
      await settle(story);
      isChanged(story, 'set', 'first');
      await burst(story, 'new');
      isChanged(story, 'set', 'new5');
      assert.deepEqual(story.events('RolloutStarted'), [
        'Started a rolling update: keys that it uses changed in configmap/web',
      ]);
    });
  });
}

test('what no pod uses starts nothing; nor does what goes back, nor what comes before the pods can start', async () => {
  await tell(async (story) => {
    const { world } = story;
    await world.user.delete(world.key('ConfigMap', 'web'));
    await world.create('apps/v1', 'Deployment', workload('Deployment', 'web'));
    await settle(story);
    assert.equal(story.get('Deployment', 'web').metadata.annotations?.[hash], undefined);
    await story.write('web', { used: 'first' });
    await settle(story);
    await story.write('web', { unused: 'other' }, { app: 'other' });
    await settle(story);
    await story.write('web', { used: 'wrong' });
    await world.clock.advance(1_000);
    await story.write('web', { used: 'first' });
    await settle(story);
    assert.equal(story.rolloutsMs.length, 0);
    // As long as it is gone new pods could not start.
    await world.user.delete(world.key('ConfigMap', 'web'));
    await settle(story);
    assert.equal(story.rolloutsMs.length, 0);
    await story.write('web', { used: 'second' });
    await settle(story);
    assert.equal(story.rolloutsMs.length, 1);
    await settle(story);
    // An optional one that comes, and goes.
    await story.write('extra', { a: '1' });
    await settle(story);
    assert.equal(story.rolloutsMs.length, 2);
    await world.user.delete(world.key('ConfigMap', 'extra'));
    await settle(story);
    await settle(story);
    assert.equal(story.rolloutsMs.length, 3);
  });
});

test('a template that changes after the configuration takes it along', async () => {
  await tell(async (story) => {
    await story.world.create('apps/v1', 'Deployment', workload('Deployment', 'web'));
    await settle(story);
    await story.write('web', { used: 'second' });
    await story.change('Deployment', 'web', ({ spec, ...object }) => {
      const { template } = spec;
      const metadata = { ...template.metadata, annotations: { version: '2' } };
      return { ...object, spec: { ...spec, template: { ...template, metadata } } };
    });
    await settle(story);
    assert.equal(story.rolloutsMs.length, 0);
    isChanged(story, 'web', 'second');
  });
});

test('rollouts keep a minute between them, and there are ten in an hour, also for a new process', async () => {
  await tell(async (story) => {
    const { world } = story;
    await world.create('apps/v1', 'Deployment', workload('Deployment', 'web'));
    await settle(story);
    for (let minute = 0; minute < 20; minute += 1) {
      await story.write('web', { used: `${minute}` });
      await passTime(world, 40_000);
      world.kill('controllers');
      world.start();
    }
    assert.equal(story.rolloutsMs.length, 10);
    const pauses = story.rolloutsMs.slice(1).map((time, index) => time - (story.rolloutsMs[index] ?? 0));
    assert.ok(Math.min(...pauses) >= 59_000, pauses.join());
    await passTime(world, 3_600_000);
    assert.equal(story.rolloutsMs.length, 11);
    isChanged(story, 'web', '19');
  });
});

test('twenty workloads start at once, and each second one more', async () => {
  await tell(async (story) => {
    const { world } = story;
    for (let number = 0; number < 25; number += 1) {
      await world.create('apps/v1', 'Deployment', workload('Deployment', `web-${number}`));
    }
    await settle(story);
    await story.write('web', { used: 'second' });
    await world.rest();
    await world.clock.advance(2_000);
    await world.rest();
    const count = story.events('RolloutStarted').length;
    assert.ok(count >= 20 && count < 24, `${count}`);
    await settle(story);
    assert.equal(story.events('RolloutStarted').length, 25);
  });
});

test('an annotation that is wrong follows nothing and says why, once; so does one on what another object makes', async () => {
  await tell(async (story) => {
    const { world } = story;
    await world.create('apps/v1', 'Deployment', workload('Deployment', 'web', 'yes'));
    const owner = { apiVersion: 'example.com/v1', kind: 'Site', name: 'shop', uid: 'u', controller: true };
    const owned = workload('DaemonSet', 'owned', 'true', { ownerReferences: [owner], finalizers: ['test/stays'] });
    await world.create('apps/v1', 'DaemonSet', owned);
    await settle(story);
    await burst(story, 'new');
    assert.equal(story.rolloutsMs.length, 0);
    assert.deepEqual(story.events('InvalidReaction').toSorted(), [
      `annotation ${follows}: Site "shop" makes this object and may undo the rollout: annotate that one`,
      `annotation ${follows}: unknown word "yes": want true, false or a list such as configmap/a,secret/b,!secret/c`,
    ]);
    await story.change('Deployment', 'web', ({ metadata, ...object }) => {
      return { ...object, metadata: { ...metadata, annotations: { ...metadata.annotations, [follows]: 'true' } } };
    });
    await settle(story);
    await burst(story, 'newer');
    assert.equal(story.rolloutsMs.length, 1);
  });
});

const change = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ kind: 'edit' as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: 'other' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'template' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('lag' as const), changes: fc.integer({ min: 0, max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('strike' as const), isAfter: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 300, 3_000, 50_000) }),
  },
);

test('whatever is edited, and whenever controllers die: no rollout without cause, and in the end all pods have read the last', async () => {
  const history = fc.asyncProperty(fc.array(change, { minLength: 5, maxLength: 20 }), async (changes) => {
    await tell(async (story) => {
      const { world } = story;
      let [count, last] = [0, 'first'];
      await world.create('apps/v1', 'Deployment', workload('Deployment', 'web'));
      // What is changed before the first sight starts nothing.
      await settle(story);
      for (const step of changes) {
        count += 1;
        if (step.kind === 'edit') await story.write('web', { used: (last = `${count}`) });
        else if (step.kind === 'other') await story.write('web', { unused: `${count}` }, { count: `${count}` });
        else if (step.kind === 'template') {
          await story.change('Deployment', 'web', ({ spec, ...object }) => {
            const { metadata, ...rest } = spec.template;
            const annotations = { ...metadata?.annotations, version: `${count}` };
            return { ...object, spec: { ...spec, template: { ...rest, metadata: { ...metadata, annotations } } } };
          });
        } else if (step.kind === 'kill') {
          world.kill('controllers');
          world.start();
        } else if (step.kind === 'lag') {
          for (const plural of ['configmaps', 'deployments']) world.lag(plural, step.changes);
        } else if (step.kind === 'strike') {
          world.fault = { point: 'deployments/', moment: step.isAfter ? 'after' : 'before', victim: 'party' };
        } else if (step.ms === 0) await world.turns(3);
        else await passTime(world, step.ms);
        world.start();
      }
      world.fault = undefined;
      await settle(story);
      for (let hour = 0; hour < 4; hour += 0.25) {
        await world.clock.advance(900_000);
        await world.rest();
      }
      isChanged(story, 'web', last);
      const edits = changes.filter(({ kind }) => kind === 'edit').length;
      assert.ok(story.rolloutsMs.length <= edits, `${story.rolloutsMs.length} rollouts for ${edits} edits`);
    });
  });
  await fc.assert(history, { seed, numRuns: 6, includeErrorInReport: true });
});
