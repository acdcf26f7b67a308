import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../apiserver/patch/json-value.ts';
import { applyStrategicMergePatch } from '../apiserver/patch/strategic-merge-patch.ts';
import { type Node, nodeKind, nodeShape } from '../kube/kinds/node.ts';
import { means } from '../kube/schema/equality.ts';
import { Quantity } from '../kube/values/quantity.ts';
import { nodeSettings, smallMachine } from '../testing/fakes/builders.ts';
import { type NodeStatus, type Observed, hasChanged, nodeConditions, observedStatus } from './node-status.ts';
import { initialNode, nodePatch, reconciledNode } from './registration.ts';

const observed: Observed = {
  nowMs: Date.UTC(2026, 0, 1),
  machine: smallMachine,
  problems: [],
  volumesInUse: undefined,
  isUnderDiskPressure: false,
  runtime: {},
};
const later = { ...observed, nowMs: Date.UTC(2026, 0, 2) };

function statusAfter(before: NodeStatus, parts: Partial<Observed> = {}): NodeStatus {
  return observedStatus(before, { ...observed, ...parts }, nodeSettings).status;
}

function withStatus(status: NodeStatus): Node {
  return { metadata: { name: 'here' }, status };
}

test('the first Node has labels, annotation, taints and its whole status, and is valid', () => {
  const settings = {
    ...nodeSettings,
    nodeLabels: { tier: 'front', 'kubernetes.io/arch': 'sparc' },
    taints: [{ key: 'new', value: '', effect: 'NoSchedule' }],
    providerId: 'cloud://1',
  };
  const { node } = initialNode(settings, observed);
  assert.deepEqual(node.metadata.labels, {
    'kubernetes.io/hostname': 'here',
    'kubernetes.io/os': 'linux',
    'kubernetes.io/arch': 'sparc',
    'beta.kubernetes.io/os': 'linux',
    'beta.kubernetes.io/arch': 'amd64',
    tier: 'front',
  });
  assert.deepEqual(node.metadata.annotations, { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' });
  assert.deepEqual(node.spec, { taints: settings.taints, providerID: 'cloud://1' });
  assert.deepEqual(node.status?.capacity, { ...smallMachine.capacity, pods: '110' });
  assert.deepEqual(node.status.allocatable, node.status.capacity);
  assert.deepEqual(node.status.addresses, [
    { type: 'InternalIP', address: '192.0.2.1' },
    { type: 'Hostname', address: 'here' },
  ]);
  assert.deepEqual(node.status.daemonEndpoints, { kubeletEndpoint: { Port: 10_250 } });
  assert.equal(node.status.nodeInfo?.containerRuntimeVersion, 'process://0.1.0');
  assert.deepEqual(nodeKind.validate(node), []);
});

test('what is reserved is not allocatable, and never less than nothing', () => {
  const amount = (text: string): Quantity => Quantity.parse(text);
  const reserved = [
    { resource: 'memory', amount: amount('1Mi'), part: 0 },
    { resource: 'memory', amount: amount('24Ki'), part: 0 },
    { resource: 'cpu', amount: amount('300m'), part: 0 },
    { resource: 'ephemeral-storage', amount: amount('0'), part: 0.1 },
    { resource: 'pid', amount: amount('1000'), part: 0 },
  ];
  const { status } = observedStatus({}, observed, { ...nodeSettings, reserved });
  assert.deepEqual(status.allocatable, {
    cpu: '1700m',
    memory: '1000Ki',
    'ephemeral-storage': '9Gi',
    pods: '110',
  });
  const all = [{ resource: 'memory', amount: amount('4Gi'), part: 0 }];
  assert.equal(observedStatus({}, observed, { ...nodeSettings, reserved: all }).status.allocatable?.['memory'], '0');
});

test('the status has the largest images with some of their names, and what the runtime says it can do', () => {
  const tags = ['a:1', 'a:2', 'a:3', 'a:4', 'a:5'];
  const image = (id: string, sizeBytes: number): object => ({ id, tags, digests: [`${id}@sha256:1`], sizeBytes });
  const features = { recursiveReadOnlyMounts: true, userNamespaces: false };
  const runtime = {
    images: [image('small', 1), image('large', 30), image('medium', 20)],
    handlers: [
      { name: 'runc', features },
      { name: '', features },
    ],
    supplementalGroupsPolicy: false,
  } as Observed['runtime'];
  const { status } = observedStatus({}, { ...observed, runtime }, { ...nodeSettings, imagesMax: 2 });
  assert.deepEqual(status.images, [
    { names: ['large@sha256:1', 'a:1', 'a:2', 'a:3', 'a:4'], sizeBytes: 30 },
    { names: ['medium@sha256:1', 'a:1', 'a:2', 'a:3', 'a:4'], sizeBytes: 20 },
  ]);
  assert.deepEqual(status.runtimeHandlers, [
    { name: '', features },
    { name: 'runc', features },
  ]);
  assert.deepEqual(status.features, { supplementalGroupsPolicy: false });
  const { images, runtimeHandlers } = statusAfter({});
  assert.deepEqual([images, runtimeHandlers], [undefined, undefined]);
});

test('the conditions of a ready node, in order and in words', () => {
  const { conditions, changes } = nodeConditions([], { problems: [] }, 'now');
  const times = { lastHeartbeatTime: 'now', lastTransitionTime: 'now' };
  const words = conditions.map(({ type, status, reason, message, ...rest }) => {
    assert.deepEqual(rest, times);
    return `${type} ${status} ${reason}: ${message}`;
  });
  assert.deepEqual(words, [
    'MemoryPressure False KubeletHasSufficientMemory: kubelet has sufficient memory available',
    'DiskPressure False KubeletHasNoDiskPressure: kubelet has no disk pressure',
    'PIDPressure False KubeletHasSufficientPID: kubelet has sufficient PID available',
    'Ready True KubeletReady: kubelet is posting ready status',
  ]);
  assert.deepEqual(changes, ['NodeHasSufficientMemory', 'NodeHasNoDiskPressure', 'NodeHasSufficientPID']);
});

const problemTexts: readonly (readonly [problems: readonly string[], message: string])[] = [
  [['one'], 'one'],
  [['one', 'two'], '[one, two]'],
  [['one', 'one'], 'one'],
];
for (const [problems, message] of problemTexts) {
  test(`a node with the problems ${problems.join(' and ')} is not ready: ${message}`, () => {
    const ready = nodeConditions([], { problems: problems }, 'now').conditions.at(-1);
    assert.deepEqual([ready?.status, ready?.reason, ready?.message], ['False', 'KubeletNotReady', message]);
  });
}

test('a condition keeps its time of transition while its status stays, and a change is an event', () => {
  const foreign = { type: 'NetworkUnavailable', status: 'False' };
  const first = nodeConditions([foreign], { problems: ['starting'] }, 't1').conditions;
  const second = nodeConditions(first, { problems: ['still starting'] }, 't2');
  const third = nodeConditions(second.conditions, { problems: [] }, 't3');
  const timesOf = (conditions: typeof first): unknown => {
    const { lastTransitionTime, lastHeartbeatTime } = conditions.at(-1) ?? {};
    return [lastTransitionTime, lastHeartbeatTime];
  };
  assert.deepEqual(timesOf(second.conditions), ['t1', 't2']);
  assert.deepEqual(timesOf(third.conditions), ['t3', 't3']);
  assert.deepEqual([second.changes, third.changes], [[], ['NodeReady']]);
  assert.deepEqual(nodeConditions(third.conditions, { problems: ['ill'] }, 't4').changes, ['NodeNotReady']);
  assert.deepEqual(third.conditions[0], foreign);
});

test('conditions that the control plane set on a silent node are corrected, with an event', () => {
  const known = nodeConditions([], { problems: [] }, 't1').conditions.map((condition) => ({
    ...condition,
    status: 'Unknown',
  }));
  const { conditions, changes } = nodeConditions(known, { problems: [] }, 't2');
  assert.deepEqual(
    conditions.map(({ status, lastTransitionTime }) => `${status} ${lastTransitionTime}`),
    ['False t2', 'False t2', 'False t2', 'True t2'],
  );
  assert.equal(changes.length, 4);
});

test('the passing of time is not a change; anything else is', () => {
  const before = withStatus(statusAfter({}));
  const changed = (status: NodeStatus): boolean => hasChanged(before, withStatus(status));
  assert.equal(changed(statusAfter(before.status ?? {}, later)), false);
  assert.equal(changed(statusAfter(before.status ?? {}, { ...later, problems: ['ill'] })), true);
  assert.equal(changed(statusAfter(before.status ?? {}, { volumesInUse: ['v'] })), true);
  const machine = { ...smallMachine, internalAddresses: ['192.0.2.2'] };
  assert.equal(changed(statusAfter(before.status ?? {}, { machine })), true);
  const sameMemory = { ...smallMachine, capacity: { ...smallMachine.capacity, memory: '2Mi' } };
  assert.equal(changed(statusAfter(before.status ?? {}, { machine: sameMemory })), false);
});

test('the volumes in use are reported in order, and not before they are known', () => {
  const told = statusAfter({ volumesInUse: ['old'] });
  assert.deepEqual(told.volumesInUse, ['old']);
  assert.deepEqual(statusAfter(told, { volumesInUse: ['b', 'a'] }).volumesInUse, ['a', 'b']);
  assert.deepEqual(statusAfter(told, { volumesInUse: [] }).volumesInUse, []);
});

test('a machine that cannot be queried keeps its last report; without a capacity no node is ready', () => {
  const before = statusAfter({});
  const after = statusAfter(before, { machine: undefined, problems: ['no answer'] });
  assert.deepEqual(
    [after.capacity, after.addresses, after.nodeInfo],
    [before.capacity, before.addresses, before.nodeInfo],
  );
  assert.equal(
    statusAfter({}, { machine: undefined }).conditions?.at(-1)?.message,
    'missing node capacity for resources: cpu, memory, ephemeral-storage',
  );
});

test('what others count on this node stays, and huge pages are taken from its memory', () => {
  const machine = { ...smallMachine, capacity: { ...smallMachine.capacity, 'hugepages-2Mi': '1Mi' } };
  const before = {
    capacity: { 'example.com/gpu': '2' },
    allocatable: { 'example.com/gpu': '2', 'example.com/gone': '1' },
  };
  const { capacity, allocatable } = statusAfter(before, { machine });
  assert.equal(capacity?.['example.com/gpu'], '2');
  assert.equal(allocatable?.['example.com/gone'], undefined);
  assert.equal(allocatable?.['memory'], '1Mi');
});

test('a Node from before keeps what is not ours, and gets labels, annotation and sizes of pages', () => {
  const existing: Node = {
    metadata: {
      name: 'here',
      labels: { 'kubernetes.io/arch': 'sparc', team: 'a' },
      annotations: { note: 'keep' },
    },
    status: { capacity: { cpu: '1', 'hugepages-1Gi': '1Gi', 'example.com/gpu': '1' } },
  };
  const { node } = initialNode({ ...nodeSettings, nodeLabels: { team: 'b' } }, observed);
  const { metadata, status } = reconciledNode(existing, node);
  assert.equal(metadata.labels?.['kubernetes.io/arch'], 'amd64');
  assert.equal(metadata.labels['team'], 'a');
  assert.deepEqual(metadata.annotations, {
    note: 'keep',
    'volumes.kubernetes.io/controller-managed-attach-detach': 'true',
  });
  assert.deepEqual(status?.capacity, { cpu: '1', 'example.com/gpu': '1' });
  assert.deepEqual(status.allocatable, node.status?.allocatable);
  const without = initialNode({ ...nodeSettings, controllerAttaches: false }, observed).node;
  assert.deepEqual(reconciledNode({ ...existing, metadata }, without).metadata.annotations, { note: 'keep' });
});

test('changed addresses are sent as a whole, and unchanged ones not at all', () => {
  const before = withStatus({ addresses: [{ type: 'InternalIP', address: '192.0.2.1' }], capacity: { cpu: '1' } });
  const addresses = [
    { type: 'InternalIP', address: '192.0.2.1' },
    { type: 'InternalIP', address: '192.0.2.2' },
  ];
  assert.deepEqual(nodePatch(before, withStatus({ ...before.status, addresses })), {
    status: { addresses: [...addresses, { $patch: 'replace' }] },
  });
  // Servers before 1.28 would take the directive for an address.
  assert.deepEqual(nodePatch(withStatus({}), withStatus({ addresses })), { status: { addresses } });
  assert.deepEqual(nodePatch(before, before), {});
});

const texts = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'));
const conditions = fc.uniqueArray(
  fc.record({ type: fc.constantFrom('Ready', 'DiskPressure', 'Other'), status: fc.constantFrom('True', 'False') }),
  { selector: ({ type }) => type },
);
const addressLists = fc.uniqueArray(
  fc.record({ type: fc.constantFrom('InternalIP', 'Hostname'), address: fc.constantFrom('x', 'y', 'z') }),
  { selector: ({ type, address }) => `${type} ${address}` },
);
const someNode = fc.record({
  metadata: fc.record({ name: fc.constant('here'), labels: texts, annotations: texts }),
  status: fc.record({
    conditions,
    addresses: addressLists,
    capacity: texts,
    volumesInUse: fc.array(fc.constantFrom('v', 'w')),
  }),
});

test('whatever two Nodes are, the server makes the second of the first with the patch', () => {
  fc.assert(
    fc.property(someNode, someNode, (before, after) => {
      const patched = applyStrategicMergePatch(asJson(before), asJson(nodePatch(before, after)), nodeShape);
      assert.ok(means(nodeShape, patched as unknown as Node, after), JSON.stringify(patched));
    }),
  );
});

function asJson(value: unknown): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

test('a short disk is a condition of its own, with its Event', () => {
  const { conditions: before } = nodeConditions([], { problems: [] }, 't1');
  const { conditions: now, changes } = nodeConditions(before, { problems: [], isUnderDiskPressure: true }, 't2');
  assert.deepEqual(changes, ['NodeHasDiskPressure']);
  assert.deepEqual(
    now.find(({ type }) => type === 'DiskPressure'),
    {
      type: 'DiskPressure',
      status: 'True',
      reason: 'KubeletHasDiskPressure',
      message: 'kubelet has disk pressure',
      lastHeartbeatTime: 't2',
      lastTransitionTime: 't2',
    },
  );
  assert.deepEqual(nodeConditions(now, { problems: [] }, 't3').changes, ['NodeHasNoDiskPressure']);
});
