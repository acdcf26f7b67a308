/**
 * Workloads of every kind through random histories: users change their minds, pods go, watches lag, and the controllers are killed
 * between any two writes. In the end there are as many pods as were asked for, of the last template, each with its owner, and at no
 * moment did a workload have more pods than it was ever asked for.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import { coreKind, kindNamed, unlessRefused } from '../../controllers/cluster/cluster.ts';
import { nodeOf } from '../../controllers/workloads/daemon-set-plan.ts';
import { runDaemonSets } from '../../controllers/workloads/daemon-sets.ts';
import { runDeployments } from '../../controllers/workloads/deployments.ts';
import { isFinished } from '../../controllers/workloads/job-plan.ts';
import { runJobs } from '../../controllers/workloads/jobs.ts';
import { isActive } from '../../controllers/workloads/pod-state.ts';
import { runReplicaSets, runReplicationControllers } from '../../controllers/workloads/replicas.ts';
import { templateOf as revisionTemplate } from '../../controllers/workloads/revisions.ts';
import { runStatefulSets } from '../../controllers/workloads/stateful-sets.ts';
import type { ControllerRevision } from '../../kube/kinds/controller-revision.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { DaemonSet } from '../../kube/kinds/workloads/daemon-set.ts';
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { Job } from '../../kube/kinds/workloads/job.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import type { StatefulSet } from '../../kube/kinds/workloads/stateful-set.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { StorageWorld, namespace, nodeName } from './storage-world.ts';
import { endsAnnotation, passTime, workloadParties } from './workload-world.ts';

export const allWorkloads = workloadParties(
  runDeployments,
  runReplicaSets,
  runReplicationControllers,
  runStatefulSets,
  runDaemonSets,
  runJobs,
);

const podSpec = (image: string): Pod['spec'] => ({
  terminationGracePeriodSeconds: 1,
  containers: [{ name: 'main', image }],
});

const templateOf = (name: string, image: string): Deployment['spec']['template'] => ({
  metadata: { labels: { app: name } },
  spec: podSpec(image),
});

export function newWorkload(name: string, image: string, replicas: number, selector: object): KubeObject {
  return {
    metadata: { name, namespace },
    spec: { replicas, selector, template: templateOf(name, image) },
  } as KubeObject;
}

const completions = 4;

function newJob(name: string): KubeObject {
  const metadata = { annotations: { [endsAnnotation]: 'Succeeded' } };
  const template = { metadata, spec: { ...podSpec('a'), restartPolicy: 'Never' } };
  // Pods that are deleted count as failures.
  const spec = { completions, parallelism: 2, backoffLimit: 1_000, template };
  return { metadata: { name, namespace }, spec } as KubeObject;
}

const selecting = (app: string): object => ({ matchLabels: { app } });
const another = 'there';

/** What there is, by name. */
const workloads = {
  web: ['apps/v1', 'Deployment', newWorkload('web', 'a', 3, selecting('web'))],
  old: ['v1', 'ReplicationController', newWorkload('old', 'a', 2, { app: 'old' })],
  db: ['apps/v1', 'StatefulSet', newWorkload('db', 'a', 2, selecting('db'))],
  log: [
    'apps/v1',
    'DaemonSet',
    { metadata: { name: 'log', namespace }, spec: { selector: selecting('log'), template: templateOf('log', 'a') } },
  ],
  sum: ['batch/v1', 'Job', newJob('sum')],
} as const;
type Name = keyof typeof workloads;

const change = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('image' as const),
      of: fc.constantFrom('web' as const, 'db' as const, 'log' as const),
      image: fc.constantFrom('a', 'b', 'c'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('size' as const),
      of: fc.constantFrom('web' as const, 'old' as const, 'db' as const),
      replicas: fc.integer({ min: 0, max: 6 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('together' as const), parallelism: fc.integer({ min: 0, max: 4 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('again' as const),
      of: fc.constantFrom('db' as const, 'log' as const, 'sum' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('podGoes' as const), index: fc.nat(14) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('podLeaves' as const), index: fc.nat(14) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('pause' as const),
      of: fc.constantFrom('web' as const, 'sum' as const),
      paused: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('lag' as const),
      plural: fc.constantFrom(
        'pods',
        'replicasets',
        'deployments',
        'statefulsets',
        'daemonsets',
        'controllerrevisions',
        'jobs',
      ),
      changes: fc.integer({ min: 0, max: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('strike' as const),
      point: fc.constantFrom(
        'create pods',
        'create replicasets',
        'create controllerrevisions',
        'replicasets/',
        'deployments/',
        'statefulsets/',
        'daemonsets/',
        'jobs/',
        'delete',
        'update',
      ),
      moment: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), turns: fc.integer({ min: 1, max: 60 }) }) },
);
type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

type AnySpec = Deployment['spec'] & Job['spec'];

class History {
  readonly world: StorageWorld;
  readonly #wrong: string[] = [];
  /** The most pods that each was ever asked for at a time; of a DaemonSet, on one node. */
  readonly #largest = new Map<string, number>();
  readonly #pods = new Map<string, Pod>();
  #left = 0;

  constructor(world: StorageWorld) {
    this.world = world;
    const { user } = world;
    const sizes = [
      ['apps/v1', 'ReplicaSet'],
      ['v1', 'ReplicationController'],
      ['apps/v1', 'StatefulSet'],
      ['apps/v1', 'DaemonSet'],
      ['batch/v1', 'Job'],
    ] as const;
    for (const [apiVersion, kind] of sizes) {
      user.watch(kindNamed(user, apiVersion, kind), ({ object }) => {
        const { metadata, spec } = object as KubeObject & { readonly spec: AnySpec };
        const known = this.#largest.get(metadata.uid ?? '') ?? 0;
        const size = kind === 'DaemonSet' ? 1 : ((kind === 'Job' ? spec.parallelism : spec.replicas) ?? 0);
        this.#largest.set(metadata.uid ?? '', Math.max(known, size));
      });
    }
    user.watch(coreKind(user, 'Pod'), ({ key, type, object }) => {
      if (type === 'delete') this.#pods.delete(key);
      else this.#pods.set(key, object as Pod);
      this.#checkSizes();
    });
  }

  async begin(): Promise<void> {
    const { world } = this;
    await world.create('v1', 'Node', { metadata: { name: another } });
    await world.setReady(another, true);
    for (const [apiVersion, kind, object] of Object.values(workloads)) await world.create(apiVersion, kind, object);
  }

  #checkSizes(): void {
    const counts = new Map<string, number>();
    for (const pod of this.#pods.values()) {
      const owner = controllerOf(pod.metadata);
      if (owner === undefined || !isActive(pod)) continue;
      const key = `${owner.uid} ${owner.kind} ${owner.kind === 'DaemonSet' ? nodeOf(pod) : ''}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const [key, count] of counts) {
      const most = this.#largest.get(key.split(' ')[0] ?? '') ?? 0;
      if (count > most) this.#wrong.push(`${count} pods of ${key}, which never wanted more than ${most}`);
    }
  }

  async make(one: Change): Promise<void> {
    const { world } = this;
    switch (one.kind) {
      case 'image':
        return this.#setSpec(one.of, (spec) => ({ ...spec, template: templateOf(one.of, one.image) }));
      case 'size':
        return this.#setSpec(one.of, (spec) => ({ ...spec, replicas: one.replicas }));
      case 'together':
        return this.#setSpec('sum', (spec) => ({ ...spec, parallelism: one.parallelism }));
      case 'pause':
        return this.#setSpec(one.of, (spec) => ({ ...spec, [one.of === 'sum' ? 'suspend' : 'paused']: one.paused }));
      case 'again': {
        const [apiVersion, kind, object] = workloads[one.of];
        await world.remove(this.#keyOf(one.of), 'Background');
        return world.create(apiVersion, kind, object);
      }
      case 'podGoes':
      case 'podLeaves': {
        const pod = world.all<Pod>('v1', 'Pod')[one.index];
        if (pod === undefined) return;
        const key = world.key('Pod', pod.metadata.name);
        if (one.kind === 'podGoes') return unlessRefused(world.user.delete(key), 404, 409);
        // The name of a StatefulSet's pod is taken as long as it is there.
        if (controllerOf(pod.metadata)?.kind === 'StatefulSet') return;
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

  #keyOf(name: Name): string {
    const { user } = this.world;
    const [apiVersion, kind] = workloads[name];
    return user.keyOf(kindNamed(user, apiVersion, kind), namespace, name);
  }

  #setSpec(name: Name, set: (spec: AnySpec) => AnySpec): Promise<void> {
    return this.world.user.update(this.#keyOf(name), (object) => {
      const current = object as KubeObject & { readonly spec: AnySpec };
      return { ...current, spec: set(current.spec) };
    });
  }

  /** Everything that is asked for is there, and nothing else. */
  async checkEnd(): Promise<void> {
    const { world } = this;
    world.fault = undefined;
    world.catchUp();
    await this.make({ kind: 'pause', of: 'web', paused: false });
    await this.make({ kind: 'pause', of: 'sum', paused: false });
    await this.make({ kind: 'together', parallelism: 2 });
    world.start();
    for (let turn = 0; turn < 4; turn += 1) await world.rest();
    // Through the pauses after failures.
    const isDone = (): boolean => world.all<Job>('batch/v1', 'Job').every(isFinished);
    for (let turn = 0; turn < 90 && !isDone(); turn += 1) await passTime(world, 20_000);
    assert.deepEqual(this.#wrong, []);
    const pods = world.all<Pod>('v1', 'Pod');
    const owned = [
      this.#checkDeployment(pods),
      this.#checkController(pods),
      this.#checkStatefulSet(pods),
      this.#checkDaemonSet(pods),
      this.#checkJob(pods),
    ];
    const free = pods.filter(({ metadata }) => controllerOf(metadata) === undefined);
    assert.ok(free.length <= this.#left, 'only pods that were taken away have no owner');
    assert.equal(pods.length, free.length + owned.reduce((sum, count) => sum + count, 0), 'no pod of one that is gone');
    assert.deepEqual(
      pods.flatMap(({ metadata }) => metadata.finalizers ?? []),
      [],
    );
  }

  // Each returns how many pods are its own.

  #checkDeployment(pods: readonly Pod[]): number {
    const [web] = this.world.all<Deployment>('apps/v1', 'Deployment');
    const sets = this.world.all<ReplicaSet>('apps/v1', 'ReplicaSet');
    const wanted = web?.spec.replicas ?? 0;
    const own = pods.filter(({ metadata }) => controllerOf(metadata)?.kind === 'ReplicaSet');
    assert.deepEqual(
      own.map(imageOf),
      Array.from({ length: wanted }, () => web && imageOf(web.spec.template)),
      'the pods of the Deployment',
    );
    assert.equal(new Set(own.map(({ metadata }) => controllerOf(metadata)?.uid)).size, Math.min(1, wanted));
    const images = sets.map(({ spec }) => imageOf(spec.template));
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
    return own.length;
  }

  #checkController(pods: readonly Pod[]): number {
    const [old] = this.world.all<ReplicaSet>('v1', 'ReplicationController');
    const own = podsOf(old, pods);
    assert.equal(own.length, old?.spec.replicas, 'the pods of the ReplicationController');
    return own.length;
  }

  #checkStatefulSet(pods: readonly Pod[]): number {
    const [db] = this.world.all<StatefulSet>('apps/v1', 'StatefulSet');
    assert.ok(db !== undefined);
    const { replicas = 0, template } = db.spec;
    const own = podsOf(db, pods);
    assert.deepEqual(
      own.map((pod) => `${pod.metadata.name} ${imageOf(pod)}`),
      Array.from({ length: replicas }, (_, ordinal) => `db-${ordinal} ${imageOf(template)}`),
      'the pods of the StatefulSet',
    );
    const { status } = db;
    assert.deepEqual(
      [status?.replicas, status?.readyReplicas, status?.updatedReplicas, status?.currentReplicas],
      [replicas, replicas, replicas, replicas],
      'what it says of itself',
    );
    assert.equal(status?.currentRevision, status?.updateRevision);
    assert.equal(status?.observedGeneration, db.metadata.generation);
    this.#checkRevisions(db);
    return own.length;
  }

  #checkDaemonSet(pods: readonly Pod[]): number {
    const [log] = this.world.all<DaemonSet>('apps/v1', 'DaemonSet');
    assert.ok(log !== undefined);
    const own = podsOf(log, pods);
    assert.deepEqual(
      own.map((pod) => `${pod.spec.nodeName} ${imageOf(pod)}`).sort(),
      [nodeName, another].map((node) => `${node} ${imageOf(log.spec.template)}`),
      'the pods of the DaemonSet',
    );
    const { status } = log;
    assert.deepEqual(
      [status?.desiredNumberScheduled, status?.updatedNumberScheduled, status?.numberAvailable],
      [2, 2, 2],
    );
    assert.equal(status?.observedGeneration, log.metadata.generation);
    this.#checkRevisions(log);
    return own.length;
  }

  /** Each template once, each with a number of its own, the one of now with the highest. */
  #checkRevisions({ metadata, spec }: StatefulSet | DaemonSet): void {
    const own = this.world
      .all<ControllerRevision>('apps/v1', 'ControllerRevision')
      .filter((revision) => controllerOf(revision.metadata)?.uid === metadata.uid)
      .toSorted((a, b) => a.revision - b.revision);
    const images = own.map((revision) => imageOf(revisionTemplate(revision)));
    assert.equal(new Set(images).size, images.length, `each version of ${metadata.name} once`);
    assert.equal(new Set(own.map(({ revision }) => revision)).size, own.length);
    assert.equal(images.at(-1), imageOf(spec.template));
  }

  #checkJob(pods: readonly Pod[]): number {
    const [sum] = this.world.all<Job>('batch/v1', 'Job');
    assert.ok(sum !== undefined);
    const { active = 0, succeeded, uncountedTerminatedPods = {} } = sum.status ?? {};
    assert.deepEqual([active, succeeded, uncountedTerminatedPods], [0, completions, {}], 'what the Job says of itself');
    const own = podsOf(sum, pods);
    assert.deepEqual(own.filter(isActive), []);
    return own.length;
  }
}

function podsOf(owner: KubeObject | undefined, pods: readonly Pod[]): readonly Pod[] {
  return pods.filter(({ metadata }) => controllerOf(metadata)?.uid === owner?.metadata.uid);
}

function imageOf({ spec }: Pick<Pod, 'spec'>): string | undefined {
  return spec.containers[0]?.image;
}

export async function checkRandomWorkloads(numRuns: number, seed: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 25 }), async (changes) => {
      const world = await StorageWorld.open(allWorkloads);
      try {
        const history = new History(world);
        await history.begin();
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
