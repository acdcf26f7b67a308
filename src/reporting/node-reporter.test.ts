/** What a node tells of itself, with the clock in the test's hands and the real API server at the other end. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { untilAborted } from '../base/until-aborted.ts';
import type { ApiClient } from '../client/api-client.ts';
import { leases, nodes, withShape } from '../client/resource-reference.ts';
import type { Node } from '../kube/objects/node.ts';
import { node as nodeShape } from '../kube/objects/node.ts';
import { lease as leaseShape } from '../kube/objects/lease.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { runningApiServer } from '../testing/running-api-server.ts';
import { settle } from '../testing/settle.ts';
import type { NodeFacts } from './node-facts.ts';
import { NodeReporter, nodeReporterDefaults } from './node-reporter.ts';
import { hasChanged, nodeStatus, statusEvents, statusPatch } from './node-status.ts';

const resources = { cpu: '4', memory: '8Gi', pods: '110', 'ephemeral-storage': '100Gi' };
const well: NodeFacts = {
  addresses: [{ type: 'InternalIP', address: '10.0.0.5' }],
  capacity: resources,
  allocatable: resources,
  nodeInfo: {
    machineID: 'm',
    systemUUID: 's',
    bootID: 'b',
    kernelVersion: '6.8',
    osImage: 'Linux',
    containerRuntimeVersion: 'process://1',
    kubeletVersion: 'v1.34.0',
    kubeProxyVersion: '',
    operatingSystem: 'linux',
    architecture: 'amd64',
  },
  serverPort: 10250,
  pressure: { memory: false, disk: false, processes: false },
  problems: [],
};

const conditions: readonly {
  readonly it: string;
  readonly facts: Partial<NodeFacts>;
  readonly says: readonly string[];
}[] = [
  {
    it: 'all is well',
    facts: {},
    says: [
      'MemoryPressure=False KubeletHasSufficientMemory: kubelet has sufficient memory available',
      'DiskPressure=False KubeletHasNoDiskPressure: kubelet has no disk pressure',
      'PIDPressure=False KubeletHasSufficientPID: kubelet has sufficient PID available',
      'Ready=True KubeletReady: kubelet is posting ready status',
    ],
  },
  {
    it: 'nothing is',
    facts: {
      problems: ['one', 'two'],
      capacity: { cpu: '1' },
      pressure: { memory: true, disk: true, processes: true },
    },
    says: [
      'MemoryPressure=True KubeletHasInsufficientMemory: kubelet has insufficient memory available',
      'DiskPressure=True KubeletHasDiskPressure: kubelet has disk pressure',
      'PIDPressure=True KubeletHasInsufficientPID: kubelet has insufficient PID available',
      'Ready=False KubeletNotReady: [one, two, missing node capacity for resources: memory, pods, ephemeral-storage]',
    ],
  },
];
for (const { it, facts, says } of conditions) {
  test(`nodeStatus when ${it}`, () => {
    const status = nodeStatus(undefined, { ...well, ...facts }, 0);
    const shown = status.conditions?.map(
      ({ type, status: is, reason, message }) => `${type}=${is} ${reason}: ${message}`,
    );
    assert.deepEqual(shown, says);
  });
}

test('nodeStatus keeps the time of a change, and whatever is not its own', () => {
  const first = nodeStatus(
    { conditions: [{ type: 'NetworkUnavailable', status: 'False' }], volumesInUse: ['v'] },
    well,
    0,
  );
  const second = nodeStatus(first, well, 60_000);
  assert.deepEqual(second.volumesInUse, ['v']);
  assert.equal(second.conditions?.[0]?.type, 'NetworkUnavailable');
  const ready = second.conditions.at(-1);
  assert.deepEqual(
    [ready?.type, ready?.lastTransitionTime, ready?.lastHeartbeatTime],
    ['Ready', '1970-01-01T00:00:00Z', '1970-01-01T00:01:00Z'],
  );
  assert.equal(hasChanged(first, second), false, 'a heartbeat is no change');
  assert.equal(hasChanged(first, nodeStatus(first, { ...well, problems: ['x'] }, 60_000)), true);
  assert.deepEqual(statusEvents(first, second), []);
  assert.deepEqual(statusEvents(first, nodeStatus(first, { ...well, problems: ['x'] }, 0)), ['NodeNotReady']);
});

test('statusPatch sends addresses whole and takes resources away that are gone', () => {
  const before = nodeStatus(undefined, { ...well, capacity: { ...resources, 'example.com/gpu': '1' } }, 0);
  const after = nodeStatus(before, { ...well, addresses: [{ type: 'Hostname', address: 'here' }] }, 0);
  assert.deepEqual(statusPatch(before, after), {
    status: {
      conditions: after.conditions,
      capacity: { ...resources, 'example.com/gpu': null },
      addresses: [{ type: 'Hostname', address: 'here' }, { $patch: 'replace' }],
    },
  });
  assert.deepEqual(statusPatch(after, after), { status: { conditions: after.conditions } });
});

interface World {
  readonly client: ApiClient;
  readonly clock: FakeClock;
  readonly events: string[];
  readonly failures: string[];
  /** Answered. */
  patches: number;
  facts: NodeFacts;
  node(): Promise<Node>;
  /** Lets time pass until something is true. */
  until(isTrue: () => Promise<boolean>, stepMs?: number): Promise<void>;
}

const here = { name: 'here' };
const { signal } = new AbortController();
const leasePlace = { namespace: 'kube-node-lease', name: 'here' };

async function world(t: TestContext, { exists = false } = {}): Promise<World> {
  const client = (await runningApiServer(t)).client();
  const clock = new FakeClock();
  const stop = new AbortController();
  const made: World = {
    client,
    clock,
    events: [],
    failures: [],
    patches: 0,
    facts: well,
    node: () => client.get(withShape(nodes, nodeShape), here, signal),
    async until(isTrue, stepMs = 100) {
      while (!(await isTrue())) {
        await clock.advance(stepMs);
        await settle(1);
      }
    },
  };
  if (exists) {
    const metadata = { ...here, labels: { mine: 'kept', 'kubernetes.io/os': 'wrong' } };
    await client.create(nodes, {}, { metadata }, signal);
  }
  const reporter = new NodeReporter(
    {
      client: {
        get: (...args) => client.get(...args),
        create: (...args) => client.create(...args),
        update: (...args) => client.update(...args),
        patch: (...args) => client.patch(...args).finally(() => (made.patches += 1)),
      },
      clock,
      chance: () => 0.5,
      facts: () => Promise.resolve(made.facts),
      events: { record: (_, __, reason, message) => void made.events.push(`${reason}: ${message}`) },
      notify: (notice) => void (notice.kind === 'NodeReportFailed' && made.failures.push(notice.doing)),
    },
    { name: 'here', labels: { rack: 'a' }, taints: [], providerId: '' },
  );
  const done = Promise.race([reporter.run(stop.signal), untilAborted(AbortSignal.timeout(60_000))]);
  t.after(async () => {
    stop.abort();
    await done;
  });
  return made;
}

async function isThere(asking: Promise<unknown>): Promise<boolean> {
  return asking.then(
    () => true,
    () => false,
  );
}

const isReady = async (made: World): Promise<boolean> =>
  (await isThere(made.node())) &&
  ((await made.node()).status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True');

test('NodeReporter registers the node with labels, annotation and status, and makes its lease', async (t) => {
  const made = await world(t);
  await made.until(() => isReady(made));
  const { metadata, status } = await made.node();
  assert.deepEqual(Object.fromEntries(Object.entries(metadata.labels ?? {})), {
    'beta.kubernetes.io/arch': 'amd64',
    'beta.kubernetes.io/os': 'linux',
    'kubernetes.io/arch': 'amd64',
    'kubernetes.io/hostname': 'here',
    'kubernetes.io/os': 'linux',
    rack: 'a',
  });
  assert.equal(metadata.annotations?.['volumes.kubernetes.io/controller-managed-attach-detach'], 'true');
  assert.equal(status?.daemonEndpoints?.kubeletEndpoint?.Port, 10250);
  const lease = withShape(leases, leaseShape);
  await made.until(() => isThere(made.client.get(lease, leasePlace, signal)));
  const { metadata: of, spec } = await made.client.get(lease, leasePlace, signal);
  assert.deepEqual([spec?.holderIdentity, spec?.leaseDurationSeconds], ['here', 40]);
  assert.deepEqual(of.ownerReferences, [{ apiVersion: 'v1', kind: 'Node', name: 'here', uid: metadata.uid ?? '' }]);
  assert.match(spec?.renewTime ?? '', /\.\d{6}Z$/);
  assert.deepEqual(made.events, [
    'Starting: Starting kubelet.',
    'NodeHasSufficientMemory: Node here status is now: NodeHasSufficientMemory',
    'NodeHasNoDiskPressure: Node here status is now: NodeHasNoDiskPressure',
    'NodeHasSufficientPID: Node here status is now: NodeHasSufficientPID',
  ]);
});

test('NodeReporter takes over a node that is there, and leaves the labels of others', async (t) => {
  const made = await world(t, { exists: true });
  await made.until(() => isReady(made));
  const { metadata } = await made.node();
  assert.deepEqual(
    [metadata.labels?.['mine'], metadata.labels?.['rack'], metadata.labels?.['kubernetes.io/os']],
    ['kept', 'a', 'linux'],
  );
});

test('NodeReporter tells a change at its next look, and nothing between reports otherwise', async (t) => {
  const made = await world(t);
  await made.until(() => isReady(made));
  // The first report comes right after the registration; from then on only changes count.
  const heartbeat = async (): Promise<string | undefined> =>
    (await made.node()).status?.conditions?.at(-1)?.lastHeartbeatTime;
  await made.until(() => Promise.resolve(made.patches > 0));
  const before = await heartbeat();
  for (let count = 0; count < 5; count += 1) await made.clock.advance(10_400);
  assert.equal(await heartbeat(), before);
  made.facts = { ...well, problems: ['the disk is gone'] };
  await made.until(async () => !(await isReady(made)), 10_400);
  assert.equal((await made.node()).status?.conditions?.at(-1)?.message, 'the disk is gone');
  assert.ok(made.events.includes('NodeNotReady: Node here status is now: NodeNotReady'));
  const changed = await heartbeat();
  const changedAt = made.clock.now();
  await made.until(async () => (await heartbeat()) !== changed, 10_400);
  assert.ok(
    made.clock.now() - changedAt >= nodeReporterDefaults.reportEveryMs - 20_800,
    'five minutes later it is told again',
  );
});

test('NodeReporter renews its lease every ten seconds, also when somebody else wrote or deleted it', async (t) => {
  const made = await world(t);
  const lease = withShape(leases, leaseShape);
  const renewTime = async (): Promise<string | undefined> =>
    (await made.client.get(lease, leasePlace, signal).catch(() => undefined))?.spec?.renewTime;
  await made.until(async () => (await renewTime()) !== undefined);
  for (const disturb of [
    () => Promise.resolve(),
    () => made.client.patch(leases, { ...leasePlace, type: 'merge' }, { metadata: { labels: { a: 'b' } } }, signal),
    () => made.client.delete(leases, leasePlace, undefined, signal),
  ]) {
    const before = await renewTime();
    await disturb();
    await made.until(async () => ![before, undefined].includes(await renewTime()), 1000);
  }
  assert.ok((await renewTime()) !== undefined);
});
