/**
 * Pods and nodes through random histories: pods come, end and go, nodes come and are closed, watches lag, and the scheduler is killed
 * between any two writes. At no moment has a node given away more than it has, and in the end no pod waits that fits somewhere.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { messageOf } from '../../base/errors.ts';
import { coreKind } from '../../controllers/cluster/cluster.ts';
import { runCompanion, serviceAccounts } from '../../controllers/default-objects.ts';
import { misfits } from '../../controllers/scheduling/node-fit.ts';
import { NodeRooms, needsOf } from '../../controllers/scheduling/node-rooms.ts';
import { runScheduler } from '../../controllers/scheduling/scheduler.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { isOver } from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type PartyDeps, StorageWorld, namespace, nodeName } from './storage-world.ts';
import { passTime } from './workload-world.ts';

const schedulingParties = {
  accounts: (deps: PartyDeps, signal: AbortSignal): Promise<unknown> => runCompanion(serviceAccounts, deps, signal),
  scheduler: (deps: PartyDeps, signal: AbortSignal): Promise<unknown> => runStorage(deps, [runScheduler], true, signal),
};

const priorities = { low: -10, middle: 0, high: 10 };
type Priority = keyof typeof priorities;

interface WantedPod {
  readonly cpu: number;
  readonly priority: Priority;
  readonly port: number;
}

const wantedPod: fc.Arbitrary<WantedPod> = fc.record({
  cpu: fc.integer({ min: 0, max: 4 }),
  priority: fc.constantFrom<Priority>('low', 'middle', 'high'),
  port: fc.constantFrom(0, 0, 0, 80),
});

const change = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('come' as const), pod: wantedPod }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('end' as const), index: fc.nat(9) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('go' as const), index: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'node' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cordon' as const), is: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('lag' as const),
      plural: fc.constantFrom('pods', 'nodes'),
      changes: fc.integer({ min: 0, max: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('strike' as const),
      point: fc.constantFrom('bind', 'status'),
      moment: fc.constantFrom('before' as const, 'after' as const),
      victim: fc.constantFrom('party' as const, 'server' as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), turns: fc.integer({ min: 1, max: 40 }) }) },
);
type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

/** What a node has: four cpus and room for three pods. */
const status = {
  allocatable: { cpu: '4', memory: '8Gi', pods: '3' },
  conditions: [{ type: 'Ready', status: 'True' }],
};

class SchedulingWorld {
  readonly world: StorageWorld;
  readonly wrong: string[] = [];
  #count = 0;

  private constructor(world: StorageWorld) {
    this.world = world;
    world.user.watch(coreKind(world.user, 'Pod'), () => this.#checkRooms());
  }

  static async with(body: (world: SchedulingWorld) => Promise<void>): Promise<void> {
    const world = await StorageWorld.open(schedulingParties);
    try {
      const here = { metadata: { name: nodeName } };
      await world.user.update(world.key('Node', nodeName), () => ({ ...here, status }) as KubeObject, 'status');
      for (const [name, value] of Object.entries(priorities)) {
        await world.create('scheduling.k8s.io/v1', 'PriorityClass', { metadata: { name }, value } as KubeObject);
      }
      await world.rest();
      await body(new SchedulingWorld(world));
    } finally {
      await world.close();
    }
  }

  get pods(): readonly Pod[] {
    return this.world.all<Pod>('v1', 'Pod');
  }

  get nodes(): readonly Node[] {
    return this.world.all<Node>('v1', 'Node');
  }

  /** With these pods on their nodes. */
  #rooms(pods: readonly Pod[]): NodeRooms {
    const rooms = new NodeRooms();
    for (const node of this.nodes) rooms.setNode(node.metadata.name, node);
    for (const pod of pods) {
      const at = pod.spec.nodeName ?? '';
      if (at !== '' && !isOver(pod)) rooms.set(pod.metadata.uid ?? '', at, needsOf(pod));
    }
    return rooms;
  }

  #checkRooms(): void {
    for (const { node, used, allocatable, ports } of this.#rooms(this.pods).all()) {
      for (const [name, amount] of used) {
        const most = allocatable.get(name);
        if (most !== undefined && amount > most) {
          this.wrong.push(`${node.metadata.name} has ${most} ${name} and gave away ${amount}`);
        }
      }
      if (ports.size > 1) this.wrong.push(`${ports.size} pods listen on one port of ${node.metadata.name}`);
    }
  }

  /** Pods that could run, were only these others there. */
  fitting(pod: Pod, others: readonly Pod[]): readonly string[] {
    const rooms = [...this.#rooms(others).all()].filter((room) => misfits(pod, needsOf(pod), room).length === 0);
    return rooms.map(({ node }) => `${pod.metadata.name} fits on ${node.metadata.name}`);
  }

  checkRest(): void {
    assert.deepEqual(this.wrong, []);
    const waiting = this.pods.filter(({ spec }) => (spec.nodeName ?? '') === '');
    assert.deepEqual(
      waiting.flatMap((pod) => this.fitting(pod, this.pods)),
      [],
    );
    for (const { metadata, status: { conditions = [] } = {} } of waiting) {
      assert.match(conditions[0]?.message ?? `${metadata.name} says nothing`, /^0\/\d nodes are available: .*\.$/);
    }
  }

  async add({ cpu, priority, port }: WantedPod): Promise<void> {
    const resources = { requests: { cpu: String(cpu) } };
    const ports = port === 0 ? [] : [{ containerPort: port, hostPort: port }];
    await this.world.create('v1', 'Pod', {
      metadata: { name: `p${(this.#count += 1)}`, namespace },
      spec: { priorityClassName: priority, containers: [{ name: 'main', image: 'a', resources, ports }] },
    } as KubeObject);
  }

  async make(one: Change): Promise<void> {
    const { world } = this;
    const { user } = world;
    switch (one.kind) {
      case 'come':
        return this.add(one.pod);
      case 'end': {
        const running = this.pods.filter((pod) => (pod.spec.nodeName ?? '') !== '' && !isOver(pod));
        const pod = running[one.index % running.length];
        if (pod === undefined) return;
        const ended = { phase: 'Succeeded' };
        return user.update(
          world.key('Pod', pod.metadata.name),
          (object) => ({ ...object, status: ended }) as KubeObject,
          'status',
        );
      }
      case 'go': {
        const pod = this.pods[one.index % this.pods.length];
        if (pod === undefined) return;
        return user.delete(world.key('Pod', pod.metadata.name), {}, { gracePeriodSeconds: 0 });
      }
      case 'node': {
        if (this.nodes.length > 2) return;
        return world.create('v1', 'Node', { metadata: { name: `n${this.nodes.length}` }, status } as KubeObject);
      }
      case 'cordon':
        return user.update(world.key('Node', nodeName), (object) => {
          const unschedulable = one.is;
          return { ...object, spec: { unschedulable } } as KubeObject;
        });
      case 'lag':
        return world.lag(one.plural, one.changes);
      case 'strike':
        world.fault = one;
        return undefined;
      case 'kill':
        return world.kill('scheduler');
      case 'wait':
        world.start();
        return world.turns(one.turns);
    }
  }
}

export async function checkRandomScheduling(runs: number, seed: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 40 }), async (changes) => {
      await SchedulingWorld.with(async (story) => {
        const { world } = story;
        for (const one of changes) await story.make(one);
        world.fault = undefined;
        world.catchUp();
        world.start();
        // Through the pauses that follow failures, and not as far as the scheduler's own sweep.
        await passTime(world, 60_000);
        story.checkRest();
        // Whoever waits for that gets the room that is left behind.
        for (let index = 0; index < 3; index += 1) {
          await story.make({ kind: index === 1 ? 'go' : 'end', index });
          await world.rest();
          story.checkRest();
        }
      }).catch((error: unknown) => {
        throw new Error(messageOf(error), { cause: error });
      });
    }),
    { numRuns: runs, seed, endOnFailure: true },
  );
}

/** Pods that wait when the scheduler starts: none of them gave its place to one that is less important. */
export async function checkPriorities(runs: number, seed: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(wantedPod, { minLength: 1, maxLength: 12 }), async (wanted) => {
      await SchedulingWorld.with(async (story) => {
        const { world } = story;
        world.kill('scheduler');
        for (const one of wanted) await story.add(one);
        world.start();
        await world.rest();
        assert.deepEqual(story.wrong, []);
        const priorityOf = ({ spec }: Pod): number => spec.priority ?? 0;
        const unfair = story.pods
          .filter(({ spec }) => (spec.nodeName ?? '') === '')
          .flatMap((pod) => {
            const notLess = story.pods.filter((other) => priorityOf(other) >= priorityOf(pod));
            return story.fitting(pod, notLess);
          });
        assert.deepEqual(unfair, []);
      });
    }),
    { numRuns: runs, seed, endOnFailure: true },
  );
}
