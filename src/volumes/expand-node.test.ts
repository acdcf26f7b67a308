import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import { ExpansionRefusedError } from '../plugins/plugin.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { ScriptedError, ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import { ScriptedClaimWriter, podUsing } from '../testing/worlds/volume-world.ts';
import { ActualState } from './actual-state.ts';
import type { DesiredMount } from './desired-state.ts';
import { type Expanded, NodeExpander } from './expand.ts';
import type { VolumeNotice } from './notices.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const { signal } = new AbortController();
const volume = asVolumeName('example.com/disk/disk');
const gibibyte = 1024n ** 3n;
const sizes = { sizeBytesNow: gibibyte, sizeBytesWanted: 2n * gibibyte };

type ClaimParts = Partial<PersistentVolumeClaim['spec']> & Partial<PersistentVolumeClaim['status']>;

interface Parts {
  readonly claim?: ClaimParts;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly accessMode?: string;
  readonly request?: string;
  readonly readOnly?: boolean;
  /** Bound to no claim, as a volume that did not come from the API. */
  readonly isUnbound?: boolean;
}

/** One volume of 2Gi on the node, whose claim has the status that a test gives. */
class World {
  readonly plugin = new ScriptedPlugin({ kind: 'device' });
  readonly claims = new Map<string, PersistentVolumeClaim>();
  readonly writer = new ScriptedClaimWriter(this.claims);
  readonly notices: VolumeNotice[] = [];
  readonly actual: ActualState;
  readonly expander: NodeExpander;
  readonly mount: DesiredMount;
  readFailure: Error | undefined;

  constructor(parts: Parts = {}) {
    const { registry } = PluginRegistry.of([this.plugin]);
    this.actual = new ActualState(registry, () => {});
    this.#setClaim(parts);
    const claimRef = parts.isUnbound === true ? {} : { claimRef: { namespace: 'shop', name: 'disk' } };
    const spec = storageSpec('disk', { capacity: { storage: '2Gi' }, ...claimRef }, parts.readOnly ?? false);
    this.actual.attached({ volume, spec, devicePath: '/dev/disk' });
    const pod = podUsing('web', []);
    const podUid = asPodUid('web');
    const match = registry.findBySpec(spec);
    this.mount = {
      volume,
      podUid,
      pod,
      spec,
      follows: [],
      podVolumeNames: ['data'],
      requestedAt: 0,
      revision: 1,
      changes: [],
      ...match,
    };
    const claims = {
      claim: async (_namespace: string, name: string) => {
        if (this.readFailure !== undefined) throw this.readFailure;
        return this.claims.get(name);
      },
      persistentVolume: async () => undefined,
    };
    const node = { name: 'node-1', current: () => undefined, read: async () => ({ metadata: { name: 'node-1' } }) };
    const notify = (notice: VolumeNotice): number => this.notices.push(notice);
    this.expander = new NodeExpander({ actual: this.actual, claims, node, now: () => 0, notify }, this.writer);
  }

  #setClaim({ claim = {}, annotations = {}, accessMode = 'ReadWriteOnce', request = '2Gi' }: Parts): void {
    this.claims.set('disk', {
      metadata: { name: 'disk', namespace: 'shop', uid: 'uid-disk', annotations },
      spec: { accessModes: [accessMode], resources: { requests: { storage: request } } },
      status: { capacity: { storage: '1Gi' }, ...claim },
    });
  }

  inUse(): Promise<Expanded> {
    return this.expander.expandInUse({ mount: this.mount, directory: '/pod', devicePath: '/dev/disk' }, sizes, signal);
  }

  onMount(): Promise<void> {
    return this.expander.expandOnMount({ mount: this.mount, directory: '/pod', devicePath: '/dev/disk' }, signal);
  }

  status(): NonNullable<PersistentVolumeClaim['status']> {
    return this.claims.get('disk')?.status ?? {};
  }

  resizeStatus(): string | undefined {
    return this.status().allocatedResourceStatuses?.['storage'];
  }

  capacity(): unknown {
    return this.status().capacity?.['storage'];
  }

  events(): readonly string[] {
    return this.notices.flatMap((notice) => {
      if (notice.kind === 'PodEvent') return [`pod ${notice.type} ${notice.reason}: ${notice.message}`];
      if (notice.kind === 'ObjectEvent')
        return [`${notice.object.name} ${notice.type} ${notice.reason}: ${notice.message}`];
      return [];
    });
  }
}

const done: Expanded = { done: true, sizeBytes: 2n * gibibyte };
const notDone: Expanded = { done: false, sizeBytes: gibibyte };
const pending = (status: string): ClaimParts => ({
  allocatedResources: { storage: '2Gi' },
  allocatedResourceStatuses: { storage: status },
});
const atSize: ClaimParts = { capacity: { storage: '2Gi' }, allocatedResources: { storage: '2Gi' } };
const grown = [
  'pod Normal FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "disk" node-1',
  'disk Normal FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "disk" node-1',
];

const quiet = [
  { it: 'an infeasible claim: no call, not done', parts: { claim: pending('NodeResizeInfeasible') }, is: notDone },
  {
    it: 'a claim that the controller still works on: no call, not done',
    parts: { claim: pending('ControllerResizeInProgress') },
    is: notDone,
  },
  {
    it: 'a size without a status, smaller than asked for: no call, not done',
    parts: { claim: { allocatedResources: { storage: '2Gi' } } },
    is: notDone,
  },
  { it: 'a claim of one node at its size: no call, done', parts: { claim: atSize }, is: done },
  {
    it: 'a claim of many nodes at its size that says no node has to do anything: no call, done',
    parts: {
      claim: atSize,
      accessMode: 'ReadWriteMany',
      annotations: { 'volume.kubernetes.io/node-expansion-not-required': 'true' },
    },
    is: done,
  },
];
for (const { it, parts, is } of quiet) {
  test(it, async () => {
    const world = new World(parts);
    assert.deepEqual(await world.inUse(), is);
    assert.deepEqual([world.plugin.calls, world.writer.patches, world.events()], [[], [], []]);
  });
}

for (const status of ['NodeResizePending', 'NodeResizeInProgress']) {
  test(`a claim in ${status} is grown and its status says so`, async () => {
    const world = new World({ claim: pending(status) });
    assert.deepEqual(await world.inUse(), done);
    assert.equal(world.plugin.count('expand'), 1);
    assert.deepEqual([world.capacity(), world.resizeStatus()], ['2Gi', undefined]);
    assert.deepEqual(
      world.writer.patches.map(({ status: { allocatedResourceStatuses: told } }) => told),
      [{ storage: 'NodeResizeInProgress' }, null],
    );
    assert.deepEqual(world.events(), grown);
    const [{ sizeBytes, directory, devicePath } = { sizeBytes: 0n }] = world.plugin.expansions;
    assert.deepEqual([sizeBytes, directory, devicePath], [2n * gibibyte, '/pod', '/dev/disk']);
  });
}

test('a claim of many nodes at its size is grown here too, and not written', async () => {
  const world = new World({ claim: atSize, accessMode: 'ReadWriteMany' });
  assert.deepEqual(await world.inUse(), done);
  assert.equal(world.plugin.count('expand'), 1);
  assert.deepEqual(world.writer.patches, []);
  assert.deepEqual(world.events(), grown);
});

test('what can never be done makes the claim infeasible, and is remembered', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  world.plugin.script('expand', new Error('wrapped', { cause: new ExpansionRefusedError('infeasible', 'too large') }));
  await assert.rejects(world.inUse(), { message: 'wrapped' });
  assert.equal(world.resizeStatus(), 'NodeResizeInfeasible');
  assert.equal(world.status().conditions?.[0]?.message, 'failed to expand pvc with wrapped');
  assert.equal(world.actual.hasFinalExpansionError(volume), true);
  assert.deepEqual(await world.inUse(), notDone);
  assert.equal(world.plugin.count('expand'), 1);
});

test('another final failure leaves the claim in progress, with a condition', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  world.plugin.script('expand', new Error('no room'), new Error('no room at all'));
  await assert.rejects(world.inUse(), { message: 'no room' });
  assert.equal(world.resizeStatus(), 'NodeResizeInProgress');
  assert.deepEqual(
    world.status().conditions?.map(({ type, message }) => ({ type, message })),
    [{ type: 'NodeResizeError', message: 'failed to expand pvc with no room' }],
  );
  await assert.rejects(world.inUse(), { message: 'no room at all' });
  assert.equal(world.resizeStatus(), 'NodeResizeInProgress');
  assert.equal(world.status().conditions?.[0]?.message, 'failed to expand pvc with no room');
  assert.deepEqual(await world.inUse(), done);
  assert.deepEqual(world.status().conditions ?? [], []);
});

test('a second final failure, when another size was asked for since, gives the claim back to the controller', async () => {
  const world = new World({ claim: pending('NodeResizePending'), request: '3Gi' });
  world.plugin.script('expand', new Error('no room'), new Error('no room'));
  await assert.rejects(world.inUse(), { message: 'no room' });
  assert.equal(world.resizeStatus(), 'NodeResizeInProgress');
  await assert.rejects(world.inUse(), { message: 'no room' });
  assert.equal(world.resizeStatus(), 'NodeResizeInfeasible');
});

for (const failureClass of ['uncertain', 'transient'] as const) {
  test(`a failure that is ${failureClass} is passed on and remembered nowhere`, async () => {
    const world = new World({ claim: pending('NodeResizePending') });
    world.plugin.script('expand', new ScriptedError(failureClass));
    await assert.rejects(world.inUse(), { message: `${failureClass} failure` });
    assert.equal(world.actual.hasFinalExpansionError(volume), false);
    assert.equal(world.resizeStatus(), 'NodeResizeInProgress');
    assert.equal(world.status().conditions, undefined);
  });
}

test('a volume that cannot be grown in use is left alone, by steps: not done, no error', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  world.plugin.script('expand', new Error('wrapped', { cause: new ExpansionRefusedError('in-use', 'in use') }));
  assert.deepEqual(await world.inUse(), notDone);
  assert.equal(world.actual.volume(volume)?.refusesExpansionInUse, true);
  assert.equal(world.actual.hasFinalExpansionError(volume), true);
  assert.equal(world.status().conditions?.[0]?.type, 'NodeResizeError');
});

test('without steps, a volume that cannot be grown in use counts as done', async () => {
  const world = new World();
  world.plugin.script('expand', new ExpansionRefusedError('in-use', 'in use'));
  assert.deepEqual(await world.inUse(), done);
  assert.equal(world.actual.volume(volume)?.refusesExpansionInUse, true);
  const told = 'pod Warning VolumeResizeFailed: MountVolume.NodeExpandVolume failed with in use';
  assert.deepEqual([world.capacity(), world.events()], ['1Gi', [told]]);
});

const notSupported = new ExpansionRefusedError('not-supported', 'nothing to do on a node');
const unsupported = [
  { it: 'without steps it counts as done', parts: {}, is: done },
  { it: 'of a claim at its size it counts as done', parts: { claim: atSize, accessMode: 'ReadWriteMany' }, is: done },
  { it: 'of a claim that waits for this node it is a failure', parts: { claim: pending('NodeResizePending') } },
];
for (const { it, parts, is } of unsupported) {
  test(`growing is not supported: ${it}`, async () => {
    const world = new World(parts);
    world.plugin.script('expand', notSupported);
    if (is === undefined) await assert.rejects(world.inUse(), notSupported);
    else assert.deepEqual(await world.inUse(), is);
    assert.deepEqual(world.events(), []);
  });
}

test('without steps the claim gets the size of its volume, as it is written there', async () => {
  const world = new World();
  assert.deepEqual(await world.inUse(), done);
  assert.deepEqual([world.capacity(), world.events()], ['2Gi', grown]);
  assert.deepEqual(world.writer.patches, [{ status: { capacity: { storage: '2Gi' } } }]);
});

test('without steps a claim that has the size is not written', async () => {
  const world = new World({ claim: { capacity: { storage: '2048Mi' } } });
  assert.deepEqual(await world.inUse(), done);
  assert.deepEqual([world.writer.patches, world.events()], [[], grown]);
});

test('a plugin that is not ready yet is asked again, and no success is reported', async () => {
  for (const claim of [{}, pending('NodeResizePending')]) {
    const world = new World({ claim });
    world.plugin.canExpand = false;
    assert.deepEqual(await world.inUse(), notDone);
    assert.deepEqual([world.capacity(), world.events()], ['1Gi', []]);
  }
});

const readOnlyEvents = [
  'pod Warning FileSystemResizeFailed: MountVolume.NodeExpandVolume failed for volume "disk" requested read-only file system',
  'disk Warning FileSystemResizeFailed: MountVolume.NodeExpandVolume failed for volume "disk" requested read-only file system',
];

test('a volume that is read-only is not grown, and that is reported to the pod and its claim', async () => {
  const world = new World({ readOnly: true });
  await world.onMount();
  assert.deepEqual([world.plugin.calls, world.events()], [[], readOnlyEvents]);
  const inUse = new World({ readOnly: true });
  assert.deepEqual(await inUse.inUse(), { done: true, sizeBytes: gibibyte });
  assert.deepEqual([inUse.plugin.calls, inUse.events()], [[], readOnlyEvents]);
});

const failures = [
  {
    it: 'the claim cannot be read',
    parts: {},
    prepare: (world: World) => (world.readFailure = new Error('server away')),
    message: 'mountVolume.NodeExpandVolume get PVC failed : server away',
    calls: 0,
  },
  {
    it: 'the claim is gone',
    parts: {},
    prepare: (world: World) => world.claims.clear(),
    message: 'mountVolume.NodeExpandVolume get PVC failed : persistentvolumeclaims "disk" not found',
    calls: 0,
  },
  {
    it: 'the beginning cannot be written',
    parts: { claim: pending('NodeResizePending') },
    prepare: (world: World) => world.writer.script(new Error('conflict')),
    message: 'patchPVCStatus failed to patch PVC "disk": conflict',
    calls: 0,
  },
  {
    it: 'the end cannot be written, by steps',
    parts: { claim: pending('NodeResizePending') },
    prepare: (world: World) => world.writer.script(undefined, new Error('conflict')),
    message:
      'mountVolume.NodeExpandVolume update pvc status failed: patchPVCStatus failed to patch PVC "disk": conflict',
    calls: 1,
  },
  {
    it: 'the end cannot be written, without steps',
    parts: {},
    prepare: (world: World) => world.writer.script(new Error('conflict')),
    message:
      'mountVolume.NodeExpandVolume update PVC status failed : patchPVCStatus failed to patch PVC "disk": conflict',
    calls: 1,
  },
];
for (const { it, parts, prepare, message, calls } of failures) {
  test(`growing fails where ${it}`, async () => {
    const world = new World(parts);
    prepare(world);
    await assert.rejects(world.inUse(), { message });
    assert.equal(world.plugin.count('expand'), calls);
  });
}

test('a failure that cannot be written to the claim is thrown all the same', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  world.plugin.script('expand', new Error('no room'));
  world.writer.script(undefined, new Error('conflict'));
  await assert.rejects(world.inUse(), { message: 'no room' });
  assert.deepEqual(
    world.notices.map((notice) => ('message' in notice ? notice.message : '')),
    [
      'MountVolume.NodeExpandVolume failed to mark node expansion as failed: patchPVCStatus failed to patch PVC "disk": conflict',
    ],
  );
});

test('a bug in a plugin is not a final failure', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  world.plugin.script('expand', new TypeError('undefined is not a function'));
  await assert.rejects(world.inUse(), TypeError);
  assert.equal(world.actual.hasFinalExpansionError(volume), false);
});

test('within a mount a volume is grown where its claim is smaller, and counts as grown', async () => {
  const world = new World({ claim: pending('NodeResizePending') });
  await world.onMount();
  assert.deepEqual([world.capacity(), world.resizeStatus()], ['2Gi', undefined]);
  assert.equal(world.actual.sizeOf(volume), 2n * gibibyte);
  await world.onMount();
  assert.equal(world.plugin.count('expand'), 1);
});

test('within a mount "not yet" is a success, and the volume does not count as grown', async () => {
  const world = new World({ claim: pending('NodeResizeInfeasible') });
  await world.onMount();
  assert.equal(world.actual.sizeOf(volume), 0n);
});

test('a volume that belongs to no claim is not grown', async () => {
  const world = new World({ isUnbound: true });
  await world.onMount();
  assert.deepEqual(await world.inUse(), { done: true, sizeBytes: gibibyte });
  assert.deepEqual(world.plugin.calls, []);
});

test('a status without a size does not make the claim an empty one', async () => {
  const world = new World({ claim: { allocatedResourceStatuses: { storage: 'NodeResizePending' } } });
  assert.deepEqual(await world.inUse(), done);
  assert.equal(world.capacity(), '2Gi');
});
