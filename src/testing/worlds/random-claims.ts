/**
 * Random histories of claims, volumes, classes, pods and nodes, with writes that conflict, watches that lag behind and loops that
 * are killed. Wherever it goes on the way, what must never be is not, and in the end everything is as it should be.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { refusalCode } from '../../controllers/cluster/cluster.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { ephemeralVolume, newClaim, newVolume, podWithClaims } from '../fakes/storage-builders.ts';
import { problemsAtRest, watchMoments } from './storage-invariants.ts';
import { StorageWorld, nodeName } from './storage-world.ts';

const claimNames = ['a', 'b', 'c'] as const;
const volumeNames = ['v1', 'v2', 'v3'] as const;
const podNames = ['p', 'q', 'r'] as const;
const otherNode = 'there';

const one = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const maybe = <T>(value: fc.Arbitrary<T>, others = 1): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: others, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
/** Mostly alike: histories in which nothing fits anything say little. */
const size = one('1Gi', '1Gi', '1Gi', '2Gi');
const [plain, alone] = [['ReadWriteOnce'], ['ReadWriteOncePod']];
const modes = one(plain, plain, plain, ['ReadWriteOnce', 'ReadOnlyMany'], alone);
const mode = fc.oneof({ weight: 19, arbitrary: one('Filesystem') }, { weight: 1, arbitrary: one('Block') });
const disk = one('ssd', 'hdd');
const className = one('', '', '', 'late');

const command = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('claim' as const),
      name: one(...claimNames),
      size,
      modes,
      mode,
      disk: maybe(disk, 5),
      class: fc.oneof(className, one('local-path', undefined)),
      names: maybe(one(...volumeNames), 5),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('volume' as const),
      name: one(...volumeNames),
      size,
      modes,
      mode,
      disk: maybe(disk),
      class: className,
      for: maybe(one(...claimNames), 2),
      withUid: fc.boolean(),
      at: maybe(one(nodeName, otherNode), 3),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('pod' as const),
      name: one(...podNames),
      claims: fc.uniqueArray(one(...claimNames), { minLength: 1, maxLength: 2 }),
      ephemeral: one(false, false, true),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.oneof(
      fc.record({ do: fc.constant('delete' as const), kind: one('PersistentVolumeClaim'), name: one(...claimNames) }),
      fc.record({ do: fc.constant('delete' as const), kind: one('PersistentVolume'), name: one(...volumeNames) }),
      fc.record({ do: fc.constant('delete' as const), kind: one('Pod'), name: one(...podNames) }),
      fc.record({ do: fc.constant('delete' as const), kind: one('StorageClass'), name: one('late') }),
    ),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('finish' as const), name: one(...podNames) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('relabel' as const), name: one(...volumeNames), disk }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('forget' as const), name: one(...volumeNames) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('ask' as const), name: one(...claimNames), volume: one(...volumeNames) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('class' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('ready' as const), name: one(nodeName, otherNode), is: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('lag' as const),
      plural: one('persistentvolumes', 'persistentvolumeclaims', 'pods', 'storageclasses', 'nodes'),
      changes: fc.nat({ max: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('conflicts' as const), are: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('kill' as const), party: one('controllers', 'node') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('strike' as const),
      after: fc.nat({ max: 12 }),
      moment: one('before' as const, 'after' as const),
      victim: one('party' as const, 'all' as const, 'server' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('start' as const) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('turns' as const), count: fc.nat({ max: 10 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('rest' as const) }) },
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

async function carryOut(world: StorageWorld, next: Command): Promise<void> {
  switch (next.do) {
    case 'claim':
      return world.create(
        'v1',
        'PersistentVolumeClaim',
        newClaim({
          name: next.name,
          size: next.size,
          accessModes: next.modes,
          volumeMode: next.mode,
          ...(next.names !== undefined && { volumeName: next.names }),
          ...(next.disk !== undefined && { selector: { matchLabels: { disk: next.disk } } }),
          ...(next.class === undefined ? { storageClassName: undefined as never } : { storageClassName: next.class }),
        }),
      );
    case 'volume': {
      const claim = await world.get('PersistentVolumeClaim', next.for ?? '');
      const reference = next.withUid && claim !== undefined ? `${next.for}@${claim.metadata.uid}` : next.for;
      return world.create(
        'v1',
        'PersistentVolume',
        newVolume(next.name, {
          size: next.size,
          accessModes: next.modes,
          volumeMode: next.mode,
          storageClassName: next.class,
          ...(reference !== undefined && { for: reference }),
          ...(next.at !== undefined && { nodeAffinity: onNode(next.at) }),
          ...(next.disk !== undefined && { metadata: { labels: { disk: next.disk } } }),
        }),
      );
    }
    case 'pod':
      return world.create(
        'v1',
        'Pod',
        next.ephemeral ? podWithClaims(next.name, [], [ephemeralVolume('own')]) : podWithClaims(next.name, next.claims),
      );
    case 'delete':
      return world.user.delete(world.key(next.kind, next.name));
    case 'finish':
      // Only a node ends pods, and only its own.
      return world.user.update(
        world.key('Pod', next.name),
        (pod) =>
          (pod as KubeObject & { spec: { nodeName?: string } }).spec.nodeName === undefined
            ? pod
            : ({ ...pod, status: { phase: 'Succeeded' } } as KubeObject),
        'status',
      );
    case 'relabel':
      return world.user.update(world.key('PersistentVolume', next.name), (volume) => ({
        ...volume,
        metadata: { ...volume.metadata, labels: { disk: next.disk } },
      }));
    case 'forget':
      // As an administrator does with a volume that is to be used again.
      return world.user.update(world.key('PersistentVolume', next.name), (object) => {
        const volume = object as PersistentVolume;
        const { claimRef: _, ...spec } = volume.spec;
        return volume.status?.phase === 'Released' ? ({ ...volume, spec } as KubeObject) : volume;
      });
    case 'ask':
      return world.user.update(world.key('PersistentVolumeClaim', next.name), (object) => {
        const claim = object as PersistentVolumeClaim;
        return (claim.spec.volumeName ?? '') === ''
          ? ({ ...claim, spec: { ...claim.spec, volumeName: next.volume } } as KubeObject)
          : claim;
      });
    case 'class':
      return world.create('storage.k8s.io/v1', 'StorageClass', {
        metadata: { name: 'late' },
        provisioner: 'kubernetes.io/no-provisioner',
        volumeBindingMode: 'WaitForFirstConsumer',
      } as KubeObject);
    case 'ready':
      return world.setReady(next.name, next.is);
    case 'lag':
      return world.lag(next.plural, next.changes);
    case 'conflicts':
      world.conflicts = next.are;
      return;
    case 'kill':
      return world.kill(next.party);
    case 'strike':
      world.fault = { point: world.points.length + 1 + next.after, moment: next.moment, victim: next.victim };
      return;
    case 'start':
      return world.start();
    case 'turns':
      return world.turns(next.count);
    case 'rest':
      return world.rest();
  }
}

function onNode(name: string): NonNullable<PersistentVolume['spec']['nodeAffinity']> {
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [name] }];
  return { required: { nodeSelectorTerms: [{ matchExpressions }] } };
}

/** Throws what is wrong after this history. */
export async function live(history: readonly Command[]): Promise<void> {
  const world = await StorageWorld.open();
  try {
    const moments = watchMoments(world);
    const labels = { 'kubernetes.io/hostname': otherNode };
    await world.create('v1', 'Node', { metadata: { name: otherNode, labels } });
    await world.setReady(otherNode, true);
    for (const next of history) {
      try {
        await carryOut(world, next);
      } catch (error) {
        // A user may ask for what is refused.
        if (typeof refusalCode(error) !== 'number') throw error;
      }
    }
    world.fault = undefined;
    world.conflicts = false;
    world.catchUp();
    // By then the pending fault has struck.
    await world.rest();
    world.start();
    await world.rest();
    assert.deepEqual([...moments, ...problemsAtRest(world)], []);
  } finally {
    await world.close();
  }
}

export async function checkRandomClaims(runs: number, seed?: number): Promise<void> {
  await fc.assert(fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 50, size: 'max' }), live), {
    numRuns: runs,
    ...(seed !== undefined && { seed }),
  });
}
