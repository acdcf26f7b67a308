/** What the server itself decides of an object when it is made, changed or deleted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namespaceKind } from '../../kube/kinds/namespace.ts';
import { nodeShape } from '../../kube/kinds/node.ts';
import { serviceShape } from '../../kube/kinds/service.ts';
import { persistentVolumeClaimShape } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeShape } from '../../kube/kinds/storage/persistent-volume.ts';
import { aContainer, aPod, decoded } from '../../testing/fakes/builders.ts';
import type { Subresource } from '../model/resource.ts';
import { namespaces, nodes, serviceAccounts } from './cluster.ts';
import { secrets } from './configuration.ts';
import { pods } from './pod.ts';
import { services } from './service.ts';
import { csiDrivers, csiNodes, persistentVolumeClaims, persistentVolumes, volumeAttachments } from './storage.ts';

const now = Date.parse('2026-01-01T00:00:00.789Z');

function updateOf<T>(
  { subresources }: { readonly subresources: readonly Subresource<T>[] },
  name: string,
): NonNullable<Subresource<T>['update']> {
  const update = subresources.find((subresource) => subresource.name === name)?.update;
  assert.ok(update);
  return update;
}

test('a new pod is of generation 1, Pending and of a quality of service, whatever it says', () => {
  const given = aPod({ metadata: { generation: 9 }, status: { phase: 'Running', podIP: '10.0.0.1' } });
  const created = pods.prepareForCreate(given, now);
  assert.equal(created.metadata.generation, 1);
  assert.deepEqual(created.status, { phase: 'Pending', qosClass: 'BestEffort' });
});

test('a new pod that says only its limits is Guaranteed, as its requests become its limits', () => {
  const limits = { cpu: '500m', memory: '96Mi' };
  const created = pods.prepareForCreate(aPod({ containers: [aContainer({ resources: { limits } })] }), now);
  assert.equal(created.status?.qosClass, 'Guaranteed');
});

test('a new pod with gates says that they hold it', () => {
  const created = pods.prepareForCreate(aPod({ schedulingGates: [{ name: 'a' }] }), now);
  assert.deepEqual(created.status?.conditions, [
    {
      type: 'PodScheduled',
      status: 'False',
      reason: 'SchedulingGated',
      message: 'Scheduling is blocked due to non-empty scheduling gates',
    },
  ]);
});

test('the generation of a pod moves with its spec and with nothing else', () => {
  const old = pods.prepareForCreate(aPod(), now);
  const same = { ...old, metadata: { ...old.metadata, generation: 7, labels: { a: 'b' } } };
  assert.equal(pods.prepareForUpdate(same, old, now).metadata.generation, 1);
  const changed = { ...old, spec: { ...old.spec, containers: [aContainer({ image: 'x:2' })] } };
  assert.equal(pods.prepareForUpdate(changed, old, now).metadata.generation, 2);
});

test('an update of a pod leaves its status alone', () => {
  const old = pods.prepareForCreate(aPod(), now);
  const { status: _, ...bare } = old;
  assert.deepEqual(pods.prepareForUpdate({ ...old, status: { phase: 'Failed' } }, old, now), old);
  assert.deepEqual(pods.prepareForUpdate(bare, old, now), old);
  assert.deepEqual(pods.prepareForUpdate(old, bare, now), bare);
});

test("an update of a pod's status leaves the spec, the owners, the generation and the end alone", () => {
  const owner = { apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u' };
  const metadata = { ownerReferences: [owner], deletionTimestamp: '2026-01-01T00:00:00Z', generation: 3 };
  const old = aPod({
    metadata,
    status: {
      phase: 'Running',
      qosClass: 'Burstable',
      observedGeneration: 3,
      conditions: [{ type: 'Ready', status: 'True', observedGeneration: 3 }],
    },
  });
  const given = aPod({
    nodeName: 'elsewhere',
    metadata: { generation: 9, labels: { a: 'b' } },
    status: {
      phase: 'Succeeded',
      conditions: [
        { type: 'Ready', status: 'False' },
        { type: 'Other', status: 'True' },
      ],
    },
  });
  const updated = updateOf(pods, 'status').prepare(given, old, now);
  assert.deepEqual(updated.spec, old.spec);
  assert.deepEqual(updated.metadata, { ...given.metadata, ...metadata });
  assert.deepEqual(updated.status, {
    phase: 'Succeeded',
    qosClass: 'Burstable',
    observedGeneration: 3,
    conditions: [
      { type: 'Ready', status: 'False', observedGeneration: 3 },
      { type: 'Other', status: 'True' },
    ],
  });
});

test('an update of ephemeral containers changes these alone, and the generation', () => {
  const old = aPod({ metadata: { generation: 1, resourceVersion: '5' }, status: { phase: 'Running' } });
  const one = aContainer({ name: 'debug' });
  const given = {
    ...aPod({ nodeName: 'x', ephemeralContainers: [one], metadata: { resourceVersion: '6', labels: { a: 'b' } } }),
  };
  const updated = updateOf(pods, 'ephemeralcontainers').prepare(given, old, now);
  assert.deepEqual(updated, {
    ...old,
    metadata: { ...old.metadata, generation: 2, resourceVersion: '6' },
    spec: { ...old.spec, ephemeralContainers: [one] },
  });
});

const graceCases: readonly (readonly [string, Parameters<typeof aPod>[0], number | undefined, number])[] = [
  ['the time of its spec', { nodeName: 'n', terminationGracePeriodSeconds: 30 }, undefined, 30],
  ['the time that was asked for', { nodeName: 'n', terminationGracePeriodSeconds: 30 }, 5, 5],
  ['no time before it has a node', { terminationGracePeriodSeconds: 30 }, 5, 0],
  [
    'no time once it has failed',
    { nodeName: 'n', terminationGracePeriodSeconds: 30, status: { phase: 'Failed' } },
    undefined,
    0,
  ],
  ['no time once it has succeeded', { nodeName: 'n', status: { phase: 'Succeeded' } }, 9, 0],
  ['a second for less than none', { nodeName: 'n' }, -1, 1],
];
for (const [what, parts, requested, seconds] of graceCases) {
  test(`a deleted pod has ${what}`, () => {
    assert.equal(pods.deletion?.graceSeconds?.(aPod(parts), requested), seconds);
  });
}

test('a new namespace is Active, labelled with its name, and has its finalizer', () => {
  const created = namespaces.prepareForCreate(
    namespaceKind.complete(
      decoded(namespaceKind.shape, {
        metadata: { name: 'shop', labels: { a: 'b' } },
        spec: { finalizers: ['x.y/z'] },
        status: { phase: 'Odd' },
      }),
    ),
    now,
  );
  assert.deepEqual(created, {
    metadata: { name: 'shop', labels: { a: 'b', 'kubernetes.io/metadata.name': 'shop' } },
    spec: { finalizers: ['x.y/z', 'kubernetes'] },
    status: { phase: 'Active' },
  });
});

test('an update of a namespace changes neither finalizers nor status nor the label of its name', () => {
  const named = namespaceKind.complete(decoded(namespaceKind.shape, { metadata: { name: 'shop' } }));
  const old = namespaces.prepareForCreate(named, now);
  const given = decoded(namespaceKind.shape, {
    metadata: { name: 'shop', labels: { 'kubernetes.io/metadata.name': 'x' } },
    spec: { finalizers: [] },
  });
  assert.deepEqual(namespaces.prepareForUpdate(namespaceKind.complete(given), old, now), old);
});

test('finalize changes the finalizers of a namespace alone', () => {
  const old = namespaces.prepareForCreate(decoded(namespaceKind.shape, { metadata: { name: 'shop' } }), now);
  const given = decoded(namespaceKind.shape, {
    metadata: { name: 'shop', labels: { a: 'b' } },
    status: { phase: 'Odd' },
  });
  const updated = updateOf(namespaces, 'finalize').prepare(given, old, now);
  assert.deepEqual(updated, { ...old, spec: { finalizers: [] } });
  assert.equal(namespaces.deletion?.isHeld?.(old), true);
  assert.equal(namespaces.deletion?.isHeld?.(updated), false);
});

test('the end of a namespace begins with its phase; some never end', () => {
  const shop = namespaces.prepareForCreate(decoded(namespaceKind.shape, { metadata: { name: 'shop' } }), now);
  assert.deepEqual(namespaces.deletion?.begin?.(shop).status, { phase: 'Terminating' });
  const refusal = (name: string) =>
    namespaces.deletion?.refusal?.(decoded(namespaceKind.shape, { metadata: { name } }));
  assert.equal(refusal('shop'), undefined);
  assert.equal(refusal('kube-node-lease'), undefined);
  for (const name of ['default', 'kube-system', 'kube-public']) {
    assert.equal(refusal(name), 'this namespace may not be deleted');
  }
});

test('a new node keeps its status; an update of it does not change it', () => {
  const given = decoded(nodeShape, { metadata: { name: 'n' }, status: { capacity: { cpu: '1' } } });
  const created = nodes.prepareForCreate(given, now);
  assert.deepEqual(created, given);
  const update = decoded(nodeShape, { metadata: { name: 'n', labels: { a: 'b' } }, spec: { unschedulable: true } });
  assert.deepEqual(nodes.prepareForUpdate(update, created, now), { ...update, status: given.status });
});

test("an update of a node's status takes metadata along and leaves the spec alone", () => {
  const old = decoded(nodeShape, { metadata: { name: 'n' }, spec: { podCIDR: '10.0.0.0/24' } });
  const given = decoded(nodeShape, {
    metadata: { name: 'n', labels: { a: 'b' } },
    spec: { unschedulable: true },
    status: { phase: 'x' },
  });
  assert.deepEqual(updateOf(nodes, 'status').prepare(given, old, now), { ...given, spec: old.spec });
});

test('a new volume and a new claim are Pending, and no finalizer is added that nothing would remove', () => {
  const volume = persistentVolumes.prepareForCreate(
    decoded(persistentVolumeShape, {
      metadata: { name: 'v' },
      spec: {},
      status: { phase: 'Bound' },
    }),
    now,
  );
  assert.equal(volume.metadata.finalizers, undefined);
  assert.deepEqual(volume.status, { phase: 'Pending', lastPhaseTransitionTime: '2026-01-01T00:00:00Z' });
  const claim = persistentVolumeClaims.prepareForCreate(
    decoded(persistentVolumeClaimShape, {
      metadata: { name: 'c', finalizers: ['a/b'] },
      spec: {},
      status: { phase: 'Bound' },
    }),
    now,
  );
  assert.deepEqual(claim.metadata.finalizers, ['a/b']);
  assert.deepEqual(claim.status, { phase: 'Pending' });
});

test('statuses of volumes and claims are theirs alone', () => {
  const old = decoded(persistentVolumeShape, {
    metadata: { name: 'v' },
    spec: { storageClassName: 'a' },
    status: { phase: 'Available', lastPhaseTransitionTime: '2025-01-01T00:00:00Z' },
  });
  const given = decoded(persistentVolumeShape, {
    metadata: { name: 'v' },
    spec: { storageClassName: 'b' },
    status: { phase: 'Bound' },
  });
  assert.deepEqual(persistentVolumes.prepareForUpdate(given, old, now), { ...given, status: old.status });
  const prepare = (status: object) => updateOf(persistentVolumes, 'status').prepare({ ...given, status }, old, now);
  assert.deepEqual(prepare({ phase: 'Bound' }).spec, old.spec);
  assert.equal(prepare({ phase: 'Bound' }).status?.lastPhaseTransitionTime, '2026-01-01T00:00:00Z');
  assert.equal(prepare({ phase: 'Bound', lastPhaseTransitionTime: 'own' }).status?.lastPhaseTransitionTime, 'own');
  assert.equal(prepare({ phase: 'Available' }).status?.lastPhaseTransitionTime, '2025-01-01T00:00:00Z');
  const claim = decoded(persistentVolumeClaimShape, {
    metadata: { name: 'c' },
    spec: { volumeName: 'v' },
    status: { phase: 'Bound' },
  });
  const other = decoded(persistentVolumeClaimShape, { metadata: { name: 'c' }, spec: {}, status: { phase: 'Lost' } });
  assert.deepEqual(persistentVolumeClaims.prepareForUpdate(other, claim, now), { ...other, status: claim.status });
  assert.deepEqual(updateOf(persistentVolumeClaims, 'status').prepare(other, claim, now), {
    ...other,
    spec: claim.spec,
  });
});

const statuses = [
  { it: 'is one of the known', status: { allocatedResourceStatuses: { storage: 'NodeResizePending' } }, says: [] },
  {
    it: 'is none of the known',
    status: { allocatedResourceStatuses: { storage: 'Growing' } },
    says: [
      'status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"',
    ],
  },
  {
    it: 'is of something else than storage',
    status: { allocatedResourceStatuses: { cpu: 'NodeResizePending' }, allocatedResources: { cpu: '-1' } },
    says: [
      'status.allocatedResourceStatuses: Unsupported value: "cpu": supported values: "storage"',
      'status.allocatedResources: Unsupported value: "cpu": supported values: "storage"',
    ],
  },
  { it: "is of a driver's own resource", status: { allocatedResources: { 'example.com/iops': '10' } }, says: [] },
  {
    it: 'has less than nothing',
    status: { capacity: { storage: '-1Gi' }, allocatedResources: { storage: '-5' } },
    says: [
      'status.capacity[storage]: Invalid value: -1073741824: must be a valid resource quantity',
      'status.allocatedResources[storage]: Invalid value: -5: must be a valid resource quantity',
    ],
  },
];
for (const { it, status, says } of statuses) {
  test(`what a claim says of its growth: ${it}`, () => {
    const metadata = { name: 'c', namespace: 'n', resourceVersion: '1', uid: 'u' };
    const from = (given: object) => decoded(persistentVolumeClaimShape, { metadata, spec: {}, status: given });
    const errors = updateOf(persistentVolumeClaims, 'status').validate(from(status), from({}));
    assert.deepEqual(
      errors.map(({ message }) => message),
      says,
    );
  });
}

test('a service that changes its type loses what it had for the old type alone', () => {
  const from = (spec: object) => decoded(serviceShape, { metadata: { name: 's' }, spec });
  const created = services.prepareForCreate(from({ type: 'ClusterIP', clusterIP: '10.0.0.1' }), now);
  assert.deepEqual(created.status, { loadBalancer: {} });
  const balanced = from({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 30100,
    allocateLoadBalancerNodePorts: true,
    ports: [{ port: 80, nodePort: 30080 }],
  });
  const inside = services.prepareForUpdate(
    { ...balanced, spec: { ...balanced.spec, type: 'ClusterIP' } },
    balanced,
    now,
  );
  assert.deepEqual(inside.spec, { type: 'ClusterIP', ports: [{ port: 80 }] });
  // What is changed with the type is the user's own wish, and validation's business.
  const ports = [{ port: 80, nodePort: 30081 }];
  const odd = services.prepareForUpdate(from({ type: 'ClusterIP', healthCheckNodePort: 30101, ports }), balanced, now);
  assert.deepEqual(odd.spec, { type: 'ClusterIP', healthCheckNodePort: 30101, ports });
  const addressed = from({ type: 'ClusterIP', clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'], ipFamilies: ['IPv4'] });
  const named = { ...addressed, spec: { ...addressed.spec, type: 'ExternalName', externalName: 'x' } };
  const outside = services.prepareForUpdate(named, addressed, now);
  assert.deepEqual(outside.spec, { type: 'ExternalName', externalName: 'x' });
  assert.deepEqual(updateOf(services, 'status').prepare(from({}), created, now).spec, created.spec);
});

test('a Secret has a type and no stringData once it is complete', () => {
  const completed = secrets.complete({ metadata: { name: 's' }, stringData: { a: 'b' } });
  assert.deepEqual(completed, { metadata: { name: 's' }, data: { a: 'Yg==' }, type: 'Opaque' });
});

test('a token request lasts an hour if it does not say otherwise', () => {
  const kind = serviceAccounts.subresources.find(({ name }) => name === 'token')?.kind;
  const given = decoded(kind?.shape ?? assert.fail(), { spec: { audiences: [] } });
  assert.deepEqual(kind?.complete?.(given), {
    metadata: { name: '' },
    spec: { audiences: [], expirationSeconds: 3600 },
  });
});

test('the status of CSI objects is theirs alone, and the generation of a driver moves with its spec', () => {
  const csiNode = { metadata: { name: 'n' }, spec: { drivers: [] }, status: { storageHealth: [] } };
  assert.deepEqual(csiNodes.prepareForCreate(csiNode, now), { metadata: { name: 'n' }, spec: { drivers: [] } });
  const attachment = {
    metadata: { name: 'a' },
    spec: { attacher: 'd', source: {}, nodeName: 'n' },
    status: { attached: true },
  };
  const created = volumeAttachments.prepareForCreate(attachment, now);
  assert.deepEqual(created.status, { attached: false });
  assert.deepEqual(volumeAttachments.prepareForUpdate(attachment, created, now), created);
  assert.deepEqual(updateOf(volumeAttachments, 'status').prepare(attachment, created, now), attachment);
  const driver = { metadata: { name: 'd' }, spec: { podInfoOnMount: false } };
  assert.deepEqual(csiDrivers.prepareForUpdate(driver, driver, now), driver);
  const changed = { ...driver, spec: { podInfoOnMount: true } };
  assert.equal(csiDrivers.prepareForUpdate(changed, driver, now).metadata.generation, 1);
});
