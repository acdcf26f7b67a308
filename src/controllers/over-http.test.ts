/** The loops need nothing of the API server's process: here they run over HTTP, against a server that was started without them. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { SharedCluster } from '../agent/machine/http-cluster.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import type { DaemonSet } from '../kube/kinds/workloads/daemon-set.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import type { Cluster, ControllerDeps, Kind } from './cluster/cluster.ts';
import { ensureDefaultObjects } from './default-objects.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { FakeClock } from '../testing/fakes/fake-clock.ts';
import { runNodeLife } from './node-life.ts';
import { runNodeTaints } from './node-taints.ts';
import { runAttachDetach } from './attachments/attach-detach.ts';
import { runScheduler } from './scheduling/scheduler.ts';
import { type LocalDirectories, runLocalPath } from './storage/local-path.ts';
import { runClaimProtection, runVolumeProtection } from './storage/protection.ts';
import { runStorage } from './storage/storage.ts';
import { runVolumeBinder } from './storage/volume-binder.ts';
import { runRolloutOnChange } from './workloads/rollout-on-change.ts';
import { runWorkloads } from './workloads/workloads.ts';

async function start(
  t: TestContext,
  loop: (deps: ControllerDeps, signal: AbortSignal) => Promise<unknown>,
  clock: Clock = systemClock,
): Promise<{ cluster: Cluster; kind: (name: string) => Kind }> {
  const stop = new AbortController();
  const failures: unknown[] = [];
  let running: Promise<unknown> = Promise.resolve();
  // Before the server ends: a loop that is about to write must not fail.
  t.after(async () => {
    stop.abort();
    await running;
    assert.deepEqual(failures, []);
  });
  const server = await runningApiServer(t, memoryStore(), {
    controllers: (host, signal) => ({ settled: ensureDefaultObjects(host, signal), done: Promise.resolve() }),
  });
  const client = server.client({ rate: { perSecond: 1_000, burst: 1_000 } });
  const shared = await SharedCluster.connect(
    { client, clock: systemClock, random: Math.random, notify: () => {} },
    stop.signal,
  );
  running = loop(
    {
      clusterFor: (controller, signal) => shared.for(controller, signal),
      clock,
      random: { suffix: () => 'abcde' },
      notify: ({ error }) => failures.push(error),
    },
    stop.signal,
  );
  const cluster = shared.for('test', stop.signal);
  const kind = (name: string): Kind => cluster.kindOf('v1', name) ?? assert.fail(name);
  return { cluster, kind };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 6_000, 'it does not happen');
    await sleep(20);
  }
}

test('the garbage collector deletes what has lost its owners, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, runGarbageCollector);
  const maps = kind('ConfigMap');
  const keyOf = (name: string): string => cluster.keyOf(maps, 'default', name);
  await cluster.create(maps, 'default', { metadata: { name: 'owner' } });
  const uid = (await cluster.get(keyOf('owner')))?.metadata.uid ?? '';
  const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid }];
  await cluster.create(maps, 'default', { metadata: { name: 'dependent', ownerReferences } });
  await cluster.create(maps, 'default', { metadata: { name: 'free' } });
  await cluster.delete(keyOf('owner'));
  await until(async () => (await cluster.get(keyOf('dependent'))) === undefined);
  assert.ok(await cluster.get(keyOf('free')));
});

test('the scheduler gives a pod a node, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) => runStorage(deps, [runScheduler], true, signal));
  const containers = [{ name: 'main', image: 'none' }];
  const key = cluster.keyOf(kind('Pod'), 'default', 'web');
  const pod = { metadata: { name: 'web' }, spec: { containers } } as KubeObject;
  await cluster.create(kind('Pod'), 'default', pod);
  const read = async (): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { reason?: string }[] } }> =>
    (await cluster.get(key)) as never;
  await until(async () => (await read()).status?.conditions?.[0]?.reason === 'Unschedulable');
  await cluster.create(kind('Node'), '', { metadata: { name: 'one' } });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  await cluster.update(
    cluster.keyOf(kind('Node'), '', 'one'),
    (node) => ({ ...node, status: ready }) as KubeObject,
    'status',
  );
  await until(async () => (await read()).spec.nodeName === 'one');
  const events = await cluster.list(kind('Event'), 'default');
  const reasons = events.map(({ object }) => (object as KubeObject & { reason?: string }).reason);
  assert.ok(reasons.includes('FailedScheduling'));
});

test('a node takes as many volumes of a driver as it says, those that are still attached among them, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, [runVolumeBinder, runScheduler], true, signal),
  );
  const storage = (name: string): Kind => cluster.kindOf('storage.k8s.io/v1', name) ?? assert.fail(name);
  const make = (of: Kind, name: string, parts: object): Promise<KubeObject> =>
    cluster.create(of, of.namespaced ? 'default' : '', { metadata: { name }, ...parts });
  await make(kind('Node'), 'one', {});
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  const driver = 'disks.example.com';
  await make(storage('CSINode'), 'one', {
    spec: { drivers: [{ name: driver, nodeID: 'n', allocatable: { count: 1 } }] },
  });
  const capacity = { storage: '1Gi' };
  const accessModes = ['ReadWriteOnce'];
  for (const name of ['old', 'new']) {
    const csi = { driver, volumeHandle: name };
    const storageClassName = name;
    await make(kind('PersistentVolume'), name, { spec: { capacity, accessModes, csi, storageClassName } });
  }
  const source = { persistentVolumeName: 'old' };
  const attachments = storage('VolumeAttachment');
  await make(attachments, 'old', { spec: { attacher: driver, nodeName: 'one', source } });
  await make(kind('PersistentVolumeClaim'), 'new', {
    spec: { accessModes, resources: { requests: capacity }, storageClassName: 'new' },
  });
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'new' } }];
  await make(kind('Pod'), 'web', { spec: { containers: [{ name: 'main', image: 'none' }], volumes } });
  const read = async (): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { message?: string }[] } }> =>
    (await cluster.get(cluster.keyOf(kind('Pod'), 'default', 'web'))) as never;
  const full = '0/1 nodes are available: 1 node(s) exceed max volume count.';
  await until(async () => (await read()).status?.conditions?.[0]?.message === full);
  await cluster.delete(cluster.keyOf(attachments, '', 'old'));
  await until(async () => (await read()).spec.nodeName === 'one');
});

test('a pod waits until a driver that says how much it has left has enough for its claim, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, [runVolumeBinder, runScheduler], true, signal),
  );
  const storage = (name: string): Kind => cluster.kindOf('storage.k8s.io/v1', name) ?? assert.fail(name);
  const make = (of: Kind, name: string, parts: object): Promise<KubeObject> =>
    cluster.create(of, of.namespaced ? 'default' : '', { metadata: { name }, ...parts });
  await cluster.create(kind('Node'), '', { metadata: { name: 'one', labels: { rack: 'a' } } });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  const driver = 'disks.example.com';
  await make(storage('CSIDriver'), driver, { spec: { storageCapacity: true } });
  await make(storage('StorageClass'), 'disks', { provisioner: driver, volumeBindingMode: 'WaitForFirstConsumer' });
  for (const [name, size] of Object.entries({ small: '1Gi', large: '2Gi' })) {
    await make(kind('PersistentVolumeClaim'), name, {
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: size } }, storageClassName: 'disks' },
    });
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: name } }];
    await make(kind('Pod'), name, { spec: { containers: [{ name: 'main', image: 'none' }], volumes } });
  }
  const isFull = async (name: string): Promise<boolean> => {
    const pod = (await cluster.get(cluster.keyOf(kind('Pod'), 'default', name))) as Pod | undefined;
    const full = '0/1 nodes are available: 1 node(s) did not have enough free storage.';
    return pod?.status?.conditions?.[0]?.message === full;
  };
  const isPlaced = async (name: string): Promise<boolean> => {
    const claim = await cluster.get(cluster.keyOf(kind('PersistentVolumeClaim'), 'default', name));
    return claim?.metadata.annotations?.['volume.kubernetes.io/selected-node'] === 'one';
  };
  await until(async () => (await isFull('small')) && (await isFull('large')));
  const here = { matchLabels: { rack: 'a' } };
  const figures = [
    { nodeTopology: { matchLabels: { rack: 'b' } }, storageClassName: 'disks', capacity: '10Gi' },
    { nodeTopology: here, storageClassName: 'other', capacity: '10Gi' },
    { storageClassName: 'disks', capacity: '10Gi' },
    { nodeTopology: here, storageClassName: 'disks', capacity: '10Gi', maximumVolumeSize: '1Gi' },
  ];
  for (const [index, parts] of figures.entries()) await make(storage('CSIStorageCapacity'), `c${index}`, parts);
  await until(() => isPlaced('small'));
  assert.ok((await isFull('large')) && !(await isPlaced('large')));
  await cluster.update(
    cluster.keyOf(storage('CSIStorageCapacity'), 'default', 'c3'),
    (object) => ({ ...object, maximumVolumeSize: '2Gi' }) as KubeObject,
  );
  await until(() => isPlaced('large'));
});

test('a volume that moved to a CSI driver is reached by the labels of the driver, once the node says so, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, [runVolumeBinder, runScheduler], true, signal),
  );
  const csiNodes = cluster.kindOf('storage.k8s.io/v1', 'CSINode') ?? assert.fail();
  const make = (of: Kind, name: string, parts: object, annotations = {}): Promise<KubeObject> =>
    cluster.create(of, of.namespaced ? 'default' : '', { metadata: { name, annotations }, ...parts });
  const labels = { 'topology.ebs.csi.aws.com/zone': 'us-east-1a' };
  await cluster.create(kind('Node'), '', { metadata: { name: 'one', labels } });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  const capacity = { storage: '1Gi' };
  const accessModes = ['ReadWriteOnce'];
  const storageClassName = 'old';
  const matchExpressions = [{ key: 'topology.kubernetes.io/zone', operator: 'In', values: ['us-east-1a'] }];
  const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions }] } };
  const awsElasticBlockStore = { volumeID: 'vol-1' };
  await make(kind('PersistentVolume'), 'ebs', {
    spec: { capacity, accessModes, storageClassName, nodeAffinity, awsElasticBlockStore },
  });
  const resources = { requests: capacity };
  await make(kind('PersistentVolumeClaim'), 'data', { spec: { accessModes, resources, storageClassName } });
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
  await make(kind('Pod'), 'web', { spec: { containers: [{ name: 'main', image: 'none' }], volumes } });
  const read = async (): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { message?: string }[] } }> =>
    (await cluster.get(cluster.keyOf(kind('Pod'), 'default', 'web'))) as never;
  const elsewhere = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.";
  await until(async () => (await read()).status?.conditions?.[0]?.message === elsewhere);
  const migrated = { 'storage.alpha.kubernetes.io/migrated-plugins': 'kubernetes.io/aws-ebs,kubernetes.io/gce-pd' };
  await make(csiNodes, 'one', { spec: { drivers: [] } }, migrated);
  await until(async () => (await read()).spec.nodeName === 'one');
});

test('a node takes no more disks written into pods than the driver that has taken them over says, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, [runVolumeBinder, runScheduler], true, signal),
  );
  const csiNodes = cluster.kindOf('storage.k8s.io/v1', 'CSINode') ?? assert.fail();
  await cluster.create(kind('Node'), '', { metadata: { name: 'one' } });
  const ready = { conditions: [{ type: 'Ready', status: 'True' }] };
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  const drivers = [{ name: 'cinder.csi.openstack.org', nodeID: 'n', allocatable: { count: 1 } }];
  const create = (of: Kind, name: string, spec: object): Promise<KubeObject> => {
    const object = { metadata: { name }, spec };
    return cluster.create(of, of.namespaced ? 'default' : '', object);
  };
  await create(csiNodes, 'one', { drivers });
  const make = (name: string, volumeID: string): Promise<KubeObject> => {
    const volumes = [{ name: 'data', cinder: { volumeID } }];
    return create(kind('Pod'), name, { containers: [{ name: 'main', image: 'none' }], volumes });
  };
  const read = async (
    name: string,
  ): Promise<{ spec: { nodeName?: string }; status?: { conditions?: { message?: string }[] } }> =>
    (await cluster.get(cluster.keyOf(kind('Pod'), 'default', name))) as never;
  await make('first', 'a');
  await until(async () => (await read('first')).spec.nodeName === 'one');
  await make('other', 'b');
  const full = '0/1 nodes are available: 1 node(s) exceed max volume count.';
  await until(async () => (await read('other')).status?.conditions?.[0]?.message === full);
  await make('same', 'a');
  await until(async () => (await read('same')).spec.nodeName === 'one');
});

test('pods leave a node that has fallen silent, and are collected when it is gone, over HTTP', async (t) => {
  const clock = new FakeClock(Date.now());
  const loops = (deps: ControllerDeps, signal: AbortSignal): Promise<unknown> =>
    Promise.all([runNodeLife(deps, signal), runNodeTaints(deps, signal)]);
  const { cluster, kind } = await start(t, loops, clock);
  const node = cluster.keyOf(kind('Node'), '', 'one');
  await cluster.create(kind('Node'), '', { metadata: { name: 'one' } });
  const ready = { conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime: '2026-01-01T00:00:00Z' }] };
  await cluster.update(node, (object) => ({ ...object, status: ready }) as KubeObject, 'status');
  // Pods leave a node only where another one is ready.
  const other = cluster.keyOf(kind('Node'), '', 'two');
  await cluster.create(kind('Node'), '', { metadata: { name: 'two' } });
  const report = (): Promise<void> => {
    const lastHeartbeatTime = new Date(clock.now()).toISOString();
    const status = { conditions: [{ type: 'Ready', status: 'True', lastHeartbeatTime }] };
    return cluster.update(other, (object) => ({ ...object, status }) as KubeObject, 'status');
  };
  const placed = async (name: string, nodeName: string): Promise<string> => {
    const spec = { nodeName, containers: [{ name: 'main', image: 'none' }], terminationGracePeriodSeconds: 5 };
    await cluster.create(kind('Pod'), 'default', { metadata: { name }, spec } as KubeObject);
    return cluster.keyOf(kind('Pod'), 'default', name);
  };
  const patient = await placed('patient', 'one');
  const lost = await placed('lost', 'never-was');
  // In steps: what happens at one of them, and is seen over HTTP, sets the time of the next.
  const passes = async (holds: () => Promise<boolean>): Promise<void> =>
    until(async () => {
      await clock.advance(5_000);
      await report();
      return await holds();
    });
  await passes(async () => (await cluster.get(lost)) === undefined);
  const taints = async (): Promise<string | undefined> => {
    const found: Node | undefined = await cluster.get(node);
    return found?.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`).join();
  };
  const unreachable = 'node.kubernetes.io/unreachable';
  await passes(async () => (await taints()) === `${unreachable}:NoSchedule,${unreachable}:NoExecute`);
  const stillThere = await cluster.get(patient);
  assert.equal(stillThere?.metadata.deletionTimestamp, undefined, 'it tolerates that for five minutes');
  await passes(async () => (await cluster.get(patient))?.metadata.deletionTimestamp !== undefined);
  // Its node will not come back to end it: an administrator says so.
  await cluster.update(node, (object) => {
    const { spec }: Node = object;
    const more = [...(spec?.taints ?? []), { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }];
    return { ...object, spec: { ...spec, taints: more } } as KubeObject;
  });
  await passes(async () => (await cluster.get(patient)) === undefined);
  const left = await placed('left', 'one');
  await cluster.delete(node);
  await passes(async () => (await cluster.get(left)) === undefined);
});

test('a volume of a CSI driver is attached, listed, and after its pod detached, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(deps, [runVolumeBinder, runAttachDetach], true, signal),
  );
  const attachments = cluster.kindOf('storage.k8s.io/v1', 'VolumeAttachment') ?? assert.fail();
  const make = (of: Kind, name: string, parts: object): Promise<KubeObject> =>
    cluster.create(of, of.namespaced ? 'default' : '', { metadata: { name }, ...parts });
  const metadata = { name: 'one', annotations: { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' } };
  await cluster.create(kind('Node'), '', { metadata });
  const node = cluster.keyOf(kind('Node'), '', 'one');
  const read = async (): Promise<NonNullable<Node['status']>> => ((await cluster.get(node)) as Node).status ?? {};
  const report = (volumesInUse: readonly string[]): Promise<void> =>
    cluster.update(
      node,
      (object) => ({ ...object, status: { ...(object as Node).status, volumesInUse } }) as KubeObject,
      'status',
    );
  const capacity = { storage: '1Gi' };
  const shared = { accessModes: ['ReadWriteOnce'], storageClassName: 'disks' };
  const csi = { driver: 'disks.example.com', volumeHandle: 'h' };
  const unique = 'kubernetes.io/csi/disks.example.com^h';
  await make(kind('PersistentVolume'), 'disk', { spec: { ...shared, capacity, csi } });
  await make(kind('PersistentVolumeClaim'), 'data', { spec: { ...shared, resources: { requests: capacity } } });
  await report([unique]);
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
  const containers = [{ name: 'main', image: 'none' }];
  await make(kind('Pod'), 'web', { spec: { nodeName: 'one', containers, volumes } });
  const [found] = await (async () => {
    await until(async () => (await cluster.list(attachments)).length === 1);
    return await cluster.list(attachments);
  })();
  // As the driver's attacher.
  const attached = (object: KubeObject): KubeObject => ({ ...object, status: { attached: true } }) as KubeObject;
  await cluster.update(found?.key ?? '', attached, 'status');
  await until(async () => (await read()).volumesAttached?.[0]?.name === unique);
  await cluster.delete(cluster.keyOf(kind('Pod'), 'default', 'web'), {}, { gracePeriodSeconds: 0 });
  await until(async () => (await cluster.get(cluster.keyOf(kind('Pod'), 'default', 'web'))) === undefined);
  assert.equal((await cluster.list(attachments)).length, 1, 'the node uses it');
  await report([]);
  await until(async () => (await cluster.list(attachments)).length === 0);
  assert.deepEqual((await read()).volumesAttached ?? [], []);
});

test('a workload follows its configuration, over HTTP', async (t) => {
  const { cluster, kind } = await start(t, (deps, signal) => runWorkloads(deps, [runRolloutOnChange], signal));
  const sets = cluster.kindOf('apps/v1', 'DaemonSet') ?? assert.fail();
  const key = cluster.keyOf(sets, 'default', 'log');
  const env = [{ name: 'USED', valueFrom: { secretKeyRef: { name: 'login', key: 'used' } } }];
  const template = {
    metadata: { labels: { app: 'log' } },
    spec: { containers: [{ name: 'main', image: 'none', env }] },
  };
  const metadata = { name: 'log', annotations: { 'mountlet.dev/rollout-on-change': 'true' } };
  const spec = { selector: { matchLabels: { app: 'log' } }, template };
  await cluster.create(kind('Secret'), 'default', {
    metadata: { name: 'login' },
    stringData: { used: '1' },
  } as KubeObject);
  await cluster.create(sets, 'default', { metadata, spec } as KubeObject);
  const annotations = async (): Promise<readonly unknown[]> => {
    const { metadata: own, spec: now } = (await cluster.get(key)) as DaemonSet;
    return [own, now.template.metadata].map((each) => each?.annotations?.['mountlet.dev/config-hash']);
  };
  await until(async () => (await annotations())[0] !== undefined);
  assert.equal((await annotations())[1], undefined);
  await cluster.update(cluster.keyOf(kind('Secret'), 'default', 'login'), (object) => {
    return { ...object, data: { used: 'Mg==' } } as KubeObject;
  });
  await until(async () => (await annotations())[1] !== undefined);
});

/** Directories of a node, by volume; all nodes have the same root. */
function sameRoot(): {
  readonly made: Set<string>;
  readonly removed: string[];
  readonly directories: LocalDirectories;
} {
  const made = new Set<string>();
  const removed: string[] = [];
  return {
    made,
    removed,
    directories: {
      pathOf: (name) => `/var/lib/mountlet/local-path/${name}`,
      make: async (name) => void made.add(name),
      async remove(name) {
        made.delete(name);
        removed.push(name);
      },
      list: async () => [...made],
      removeEmpty: async () => {},
    },
  };
}

test('nodes with the same root directory make and delete only their own volumes, of one class', async (t) => {
  const [one, two] = [sameRoot(), sameRoot()];
  const { cluster, kind } = await start(t, (deps, signal) =>
    runStorage(
      deps,
      [
        runVolumeBinder,
        runVolumeProtection,
        runClaimProtection,
        runLocalPath({ nodeName: 'one', directories: one.directories }),
        runLocalPath({ nodeName: 'two', directories: two.directories }),
      ],
      true,
      signal,
    ),
  );
  const [claims, volumes] = [kind('PersistentVolumeClaim'), kind('PersistentVolume')];
  const volumeOf = async (claim: string): Promise<string> => {
    const found = (await cluster.get(cluster.keyOf(claims, 'default', claim))) as PersistentVolumeClaim | undefined;
    return found?.status?.phase === 'Bound' ? (found.spec.volumeName ?? '') : '';
  };
  const classes = cluster.kindOf('storage.k8s.io/v1', 'StorageClass') ?? assert.fail();
  await until(async () => (await cluster.list(classes)).length === 1);
  for (const name of ['one', 'two']) {
    const labels = { 'kubernetes.io/hostname': `host-${name}` };
    await cluster.create(kind('Node'), '', { metadata: { name, labels } });
    const metadata = { name, annotations: { 'volume.kubernetes.io/selected-node': name } };
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } };
    await cluster.create(claims, 'default', { metadata, spec } as KubeObject);
    await until(async () => (await volumeOf(name)) !== '');
  }
  const [ofOne, ofTwo] = [await volumeOf('one'), await volumeOf('two')];
  assert.deepEqual([[...one.made], [...two.made]], [[ofOne], [ofTwo]]);
  // As a provisioned volume in all but its place: that of every node.
  const forged = `forged-${ofTwo}`;
  const nodeSelectorTerms = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'Exists' }] }];
  await cluster.create(volumes, '', {
    metadata: { name: forged, annotations: { 'pv.kubernetes.io/provisioned-by': 'mountlet.dev/local-path' } },
    spec: {
      capacity: { storage: '1Mi' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Delete',
      local: { path: one.directories.pathOf(forged) },
      nodeAffinity: { required: { nodeSelectorTerms } },
      claimRef: { namespace: 'default', name: 'never-was', uid: 'never-was' },
    },
  } as KubeObject);
  await cluster.delete(cluster.keyOf(claims, 'default', 'two'));
  await until(async () => (await cluster.get(cluster.keyOf(volumes, '', ofTwo))) === undefined);
  await until(async () => {
    const found = (await cluster.get(cluster.keyOf(volumes, '', forged))) as PersistentVolume | undefined;
    return found?.status?.phase === 'Released';
  });
  assert.deepEqual([one.removed, two.removed], [[], [ofTwo]]);
  assert.deepEqual([...one.made], [ofOne]);
});

test('a cluster that has a default class keeps it', async (t) => {
  const local = { nodeName: 'one', directories: sameRoot().directories };
  const { cluster } = await start(t, async (deps, signal) => {
    const own = deps.clusterFor('test', signal);
    const classes = own.kindOf('storage.k8s.io/v1', 'StorageClass') ?? assert.fail();
    const annotations = { 'storageclass.kubernetes.io/is-default-class': 'true' };
    const standard = { metadata: { name: 'standard', annotations }, provisioner: 'example.com/disks' };
    await own.create(classes, '', standard);
    await runStorage(deps, [runLocalPath(local)], false, signal);
  });
  const classes = cluster.kindOf('storage.k8s.io/v1', 'StorageClass') ?? assert.fail();
  await until(async () => (await cluster.list(classes)).length === 2);
  const ours = (await cluster.list(classes)).find(({ object }) => object.metadata.name === 'local-path');
  assert.deepEqual(ours?.object.metadata.annotations ?? {}, {});
});
