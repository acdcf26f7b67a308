/**
 * Deployments, ReplicaSets and ReplicationControllers through random histories: users change their minds, pods go, watches lag, and
 * the controllers are killed between any two writes. In the end there are as many pods as were asked for, of the last template, each
 * with its owner, and at no moment did a set have more pods than it was ever asked for.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import { coreKind, kindNamed, unlessRefused } from '../../controllers/cluster/cluster.ts';
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import { runCompanion, serviceAccounts } from '../../controllers/default-objects.ts';
import { runGarbageCollector } from '../../controllers/garbage-collector.ts';
import { runDeployments } from '../../controllers/workloads/deployments.ts';
import { runReplicaSets, runReplicationControllers } from '../../controllers/workloads/replicas.ts';
import { runWorkloads } from '../../controllers/workloads/workloads.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { type PartyDeps, StorageWorld, namespace } from './storage-world.ts';

export const workloadParties = {
  controllers: (deps: PartyDeps, signal: AbortSignal): Promise<unknown> =>
    Promise.all([
      runCompanion(serviceAccounts, deps, signal),
      runGarbageCollector(deps, signal),
      runWorkloads(deps, [runDeployments, runReplicaSets, runReplicationControllers], signal),
    ]),
  node: runReadyNode,
};

/** Every pod is ready as soon as it is seen, and gone as soon as it is deleted. */
async function runReadyNode(deps: PartyDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('node', signal);
  const queue = new WorkQueue('node', deps);
  const look = async (key: string): Promise<void> => {
    const pod = (await cluster.get(key)) as Pod | undefined;
    if (pod === undefined) return;
    if (pod.metadata.deletionTimestamp !== undefined) {
      return unlessRefused(cluster.delete(key, {}, { gracePeriodSeconds: 0 }), 404, 409);
    }
    if (pod.status?.phase === 'Running') return;
    const lastTransitionTime = new Date(deps.clock.now()).toISOString();
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] };
    await unlessRefused(
      cluster.update(key, (object) => ({ ...object, status }) as KubeObject, 'status'),
      404,
      409,
    );
  };
  const stop = cluster.watch(coreKind(cluster, 'Pod'), ({ key }) => queue.touch(key));
  try {
    await queue.run(look, signal);
  } finally {
    stop();
  }
}

const podSpec = (image: string): Pod['spec'] => ({
  nodeName: 'here',
  terminationGracePeriodSeconds: 1,
  containers: [{ name: 'main', image }],
});

export function newWorkload(name: string, image: string, replicas: number, selector: object): KubeObject {
  const template = { metadata: { labels: { app: name } }, spec: podSpec(image) };
  return { metadata: { name, namespace }, spec: { replicas, selector, template } } as KubeObject;
}

const change = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('image' as const), image: fc.constantFrom('a', 'b', 'c') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('size' as const),
      of: fc.constantFrom('web', 'old'),
      replicas: fc.integer({ min: 0, max: 6 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('podGoes' as const), index: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('podLeaves' as const), index: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('lag' as const),
      plural: fc.constantFrom('pods', 'replicasets', 'deployments'),
      changes: fc.integer({ min: 0, max: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('strike' as const),
      point: fc.constantFrom('create pods', 'create replicasets', 'replicasets/', 'deployments/', 'delete', 'update'),
      moment: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), turns: fc.integer({ min: 1, max: 60 }) }) },
);
type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

class History {
  readonly world: StorageWorld;
  readonly #wrong: string[] = [];
  readonly #largest = new Map<string, number>();
  readonly #pods = new Map<string, Pod>();
  #left = 0;

  constructor(world: StorageWorld) {
    this.world = world;
    const { user } = world;
    user.watch(kindNamed(user, 'apps/v1', 'ReplicaSet'), ({ object }) => {
      const { metadata, spec } = object as ReplicaSet;
      const known = this.#largest.get(metadata.uid ?? '') ?? 0;
      this.#largest.set(metadata.uid ?? '', Math.max(known, spec.replicas ?? 0));
    });
    user.watch(coreKind(user, 'Pod'), ({ key, type, object }) => {
      if (type === 'delete') this.#pods.delete(key);
      else this.#pods.set(key, object as Pod);
      this.#checkSizes();
    });
  }

  #checkSizes(): void {
    const counts = new Map<string, number>();
    for (const { metadata } of this.#pods.values()) {
      const owner = controllerOf(metadata);
      if (owner?.kind !== 'ReplicaSet' || metadata.deletionTimestamp !== undefined) continue;
      counts.set(owner.uid, (counts.get(owner.uid) ?? 0) + 1);
    }
    for (const [uid, count] of counts) {
      const most = this.#largest.get(uid) ?? 0;
      if (count > most) this.#wrong.push(`${count} pods of a set that never wanted more than ${most}`);
    }
  }

  async make(one: Change): Promise<void> {
    const { world } = this;
    switch (one.kind) {
      case 'image':
        return this.#setSpec('web', (spec) => ({
          ...spec,
          template: { metadata: { labels: { app: 'web' } }, spec: podSpec(one.image) },
        }));
      case 'size':
        return this.#setSpec(one.of, (spec) => ({ ...spec, replicas: one.replicas }));
      case 'pause':
        return this.#setSpec('web', (spec) => ({ ...spec, paused: one.paused }));
      case 'podGoes':
      case 'podLeaves': {
        const pod = world.all<Pod>('v1', 'Pod')[one.index];
        if (pod === undefined) return;
        const key = world.key('Pod', pod.metadata.name);
        if (one.kind === 'podGoes') return unlessRefused(world.user.delete(key), 404, 409);
        this.#left += pod.metadata.labels?.['app'] === 'left' ? 0 : 1;
        const leave = (object: KubeObject): KubeObject => {
          return { ...object, metadata: { ...object.metadata, labels: { app: 'left' } } };
        };
        return unlessRefused(world.user.update(key, leave), 404);
      }
      case 'lag':
        return world.lag(one.plural, one.changes);
      case 'strike':
        world.fault = { ...one, victim: 'party' };
        return;
      case 'kill':
        world.kill('controllers');
        await world.turns(3);
        return world.start();
      case 'wait':
        await world.turns(one.turns);
        // One that was struck comes back.
        return world.start();
    }
  }

  #setSpec(name: string, set: (spec: Deployment['spec']) => Deployment['spec']): Promise<void> {
    const { user } = this.world;
    const kind = name === 'web' ? kindNamed(user, 'apps/v1', 'Deployment') : coreKind(user, 'ReplicationController');
    return user.update(user.keyOf(kind, namespace, name), (object) => {
      const current = object as Deployment;
      return { ...current, spec: set(current.spec) };
    });
  }

  /** Everything that is asked for is there, and nothing else. */
  async checkEnd(): Promise<void> {
    const { world } = this;
    world.fault = undefined;
    world.catchUp();
    await this.make({ kind: 'pause', paused: false });
    world.start();
    for (let turn = 0; turn < 4; turn += 1) await world.rest();
    const pods = world.all<Pod>('v1', 'Pod');
    const [web] = world.all<Deployment>('apps/v1', 'Deployment');
    const [old] = world.all<ReplicaSet>('v1', 'ReplicationController');
    const sets = world.all<ReplicaSet>('apps/v1', 'ReplicaSet');
    const wanted = web?.spec.replicas ?? 0;
    const image = web?.spec.template.spec.containers[0]?.image;
    const ofWeb = pods.filter(({ metadata }) => controllerOf(metadata)?.kind === 'ReplicaSet');
    assert.deepEqual(this.#wrong, []);
    assert.deepEqual(
      ofWeb.map(({ spec }) => spec.containers[0]?.image),
      Array.from({ length: wanted }, () => image),
      'the pods of the Deployment',
    );
    assert.equal(new Set(ofWeb.map(({ metadata }) => controllerOf(metadata)?.uid)).size, Math.min(1, wanted));
    const ofOld = pods.filter(({ metadata }) => controllerOf(metadata)?.uid === old?.metadata.uid);
    assert.equal(ofOld.length, old?.spec.replicas, 'the pods of the ReplicationController');
    const free = pods.filter(({ metadata }) => controllerOf(metadata) === undefined);
    assert.ok(free.length <= this.#left, 'only pods that were taken away have no owner');
    assert.equal(pods.length, ofWeb.length + ofOld.length + free.length);
    const images = sets.map(({ spec }) => spec.template.spec.containers[0]?.image);
    assert.equal(new Set(images).size, images.length, 'one set for each template');
    assert.deepEqual(
      sets.map(({ spec }) => spec.replicas).filter((size) => size !== 0),
      wanted === 0 ? [] : [wanted],
    );
    const revisions = sets.map(({ metadata }) => metadata.annotations?.['deployment.kubernetes.io/revision']);
    assert.equal(new Set(revisions).size, revisions.length, 'each revision once');
    const { replicas = 0, updatedReplicas = 0, availableReplicas = 0, observedGeneration } = web?.status ?? {};
    assert.deepEqual(
      [replicas, updatedReplicas, availableReplicas],
      [wanted, wanted, wanted],
      'what it says of itself',
    );
    assert.equal(observedGeneration, web?.metadata.generation);
    const progress = web?.status?.conditions?.find(({ type }) => type === 'Progressing');
    assert.equal(progress?.reason, 'NewReplicaSetAvailable');
  }
}

export async function checkRandomWorkloads(numRuns: number, seed: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 25 }), async (changes) => {
      const world = await StorageWorld.open(workloadParties);
      try {
        const history = new History(world);
        const labels = { app: 'old' };
        await world.create('apps/v1', 'Deployment', newWorkload('web', 'a', 3, { matchLabels: { app: 'web' } }));
        await world.create('v1', 'ReplicationController', newWorkload('old', 'a', 2, labels));
        for (const one of changes) await history.make(one);
        await history.checkEnd();
      } catch (error) {
        throw new Error(
          `${messageOf(error)}\n${world.points.slice(-25).join('\n')}\n${world.failures.slice(-5).join('\n')}`,
          { cause: error },
        );
      } finally {
        await world.close();
      }
    }),
    { numRuns, seed },
  );
}
