/** Whatever happens to Services, pods and those who look after them: in the end the addresses are those of the pods that are ready. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type EndpointSlice, serviceNameLabel } from '../../kube/kinds/endpoint-slice.ts';
import type { Endpoints } from '../../kube/kinds/endpoints.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { type PartyDeps, StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';
import { unlessRefused } from '../cluster/cluster.ts';
import { runCompanion, serviceAccounts } from '../default-objects.ts';
import { runWorkloads } from '../workloads/workloads.ts';
import { runEndpointSliceMirroring, runEndpointSlices } from './endpoint-slices.ts';
import { runEndpoints } from './endpoints.ts';

const parties = {
  controllers: (deps: PartyDeps, signal: AbortSignal): Promise<unknown> =>
    Promise.all([
      runCompanion(serviceAccounts, deps, signal),
      runWorkloads(deps, [runEndpoints, runEndpointSlices, runEndpointSliceMirroring], signal),
    ]),
};

const seed = Number(process.env['SEED'] ?? 1);
const apps = fc.constantFrom('web', 'db');
const index = fc.integer({ min: 1, max: 5 });
const change = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pod' as const), index, app: apps }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('ready' as const), index, isReady: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('podGoes' as const), index }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('service' as const), app: apps, isSelecting: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('serviceGoes' as const), app: apps }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('written' as const), app: apps, index }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('lag' as const),
      plural: fc.constantFrom('pods', 'services', 'endpointslices', 'endpoints'),
      changes: fc.integer({ min: 0, max: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('strike' as const),
      point: fc.constantFrom('create endpoint', 'delete', 'update'),
      moment: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), turns: fc.integer({ min: 1, max: 40 }) }) },
);
type Change = typeof change extends fc.Arbitrary<infer One> ? One : never;

const ports = [{ port: 80, protocol: 'TCP', targetPort: 8080 }];

async function make(world: StorageWorld, one: Change): Promise<void> {
  const { user } = world;
  switch (one.kind) {
    case 'pod': {
      const name = `p${one.index}`;
      const metadata = { name, namespace, labels: { app: one.app } };
      const spec = { nodeName: 'here', containers: [{ name: 'c', image: 'i' }] };
      return unlessRefused(world.create('v1', 'Pod', { metadata, spec } as KubeObject), 409);
    }
    case 'ready': {
      const ip = `10.1.0.${one.index}`;
      const conditions = [{ type: 'Ready', status: one.isReady ? 'True' : 'False' }];
      const status = { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions };
      const report = (pod: KubeObject): KubeObject => ({ ...pod, status }) as KubeObject;
      return unlessRefused(user.update(world.key('Pod', `p${one.index}`), report, 'status'), 404);
    }
    case 'podGoes': {
      return unlessRefused(user.delete(world.key('Pod', `p${one.index}`), {}, { gracePeriodSeconds: 0 }), 404);
    }
    case 'service': {
      const spec = { ports, ...(one.isSelecting && { selector: { app: one.app } }) };
      const metadata = { name: one.app, namespace };
      return unlessRefused(world.create('v1', 'Service', { metadata, spec } as KubeObject), 409);
    }
    case 'serviceGoes':
      return unlessRefused(user.delete(world.key('Service', one.app)), 404);
    case 'written': {
      const subsets = [{ addresses: [{ ip: `10.2.0.${one.index}` }], ports: [{ port: 9 }] }];
      const endpoints = { metadata: { name: one.app, namespace }, subsets };
      return unlessRefused(world.create('v1', 'Endpoints', endpoints), 409);
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
      return world.start();
  }
}

function checkEnd(world: StorageWorld): void {
  const pods = world.all<Pod>('v1', 'Pod');
  const services = world.all<Service>('v1', 'Service').filter(({ metadata }) => metadata.namespace === namespace);
  const slices = world.all<EndpointSlice>('discovery.k8s.io/v1', 'EndpointSlice');
  const endpoints = world.all<Endpoints>('v1', 'Endpoints');
  const readyIn = (all: readonly EndpointSlice[]): string[] =>
    all
      .flatMap((slice) => slice.endpoints ?? [])
      .flatMap(({ conditions, addresses = [] }) => (conditions?.ready === true ? addresses : []))
      .sort();
  for (const name of ['web', 'db']) {
    const service = services.find(({ metadata }) => metadata.name === name);
    const own = slices.filter(({ metadata }) => metadata.labels?.[serviceNameLabel] === name);
    if (service === undefined) {
      assert.deepEqual(own, [], `no slices without the service ${name}`);
      continue;
    }
    const written = endpoints.find(({ metadata }) => metadata.name === name && metadata.namespace === namespace);
    const listed = (written?.subsets ?? []).flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip)).sort();
    assert.deepEqual(readyIn(own), listed, `slices and Endpoints of ${name}`);
    if (service.spec.selector === undefined) continue;
    const isReady = ({ status }: Pod): boolean => status?.conditions?.[0]?.status === 'True';
    const ready = pods.filter((pod) => pod.metadata.labels?.['app'] === name && isReady(pod));
    assert.deepEqual(listed, ready.map(({ status }) => status?.podIP ?? '').sort(), `the pods of ${name}`);
    assert.ok(own.length >= 1, 'a service has a slice');
  }
}

test('addresses follow the pods, through lost watches, failed writes and kills', async (t) => {
  t.diagnostic(`seed ${seed}`);
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 25 }), async (changes) => {
      const world = await StorageWorld.open(parties);
      try {
        for (const one of changes) await make(world, one);
        world.fault = undefined;
        world.catchUp();
        world.start();
        for (let turn = 0; turn < 4; turn += 1) await world.rest();
        checkEnd(world);
      } finally {
        await world.close();
      }
    }),
    { numRuns: 25, seed },
  );
});

test('a burst of changes is few writes, and one that changes nothing for a service is none', async () => {
  const world = await StorageWorld.open(parties);
  const writes = (): number => world.points.filter((point) => /endpoints/.test(point)).length;
  try {
    await make(world, { kind: 'service', app: 'web', isSelecting: true });
    await world.rest();
    const before = writes();
    for (const round of [1, 2, 3, 4, 5, 6]) {
      for (let pod = 1; pod <= 5; pod += 1) {
        if (round === 1) await make(world, { kind: 'pod', index: pod, app: 'web' });
        await make(world, { kind: 'ready', index: pod, isReady: round % 2 === 0 });
        await world.turns(3);
      }
    }
    await world.rest();
    const burst = writes();
    assert.ok(burst > before && burst - before <= 8, `${burst - before} writes`);
    const note = (pod: KubeObject): KubeObject => ({ ...pod, metadata: { ...pod.metadata, annotations: { a: 'b' } } });
    await world.user.update(world.key('Pod', 'p1'), note);
    await world.rest();
    assert.equal(writes(), burst);
  } finally {
    await world.close();
  }
});
