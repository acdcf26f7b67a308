import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Service } from '../../kube/kinds/service.ts';
import { ServiceRange } from '../../kube/values/service-range.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { systemRandom } from '../model/random.ts';
import { ResourceTable } from '../model/resource.ts';
import { StatusError } from '../model/status.ts';
import { parseStored } from '../model/stored-objects.ts';
import { resources } from '../resources/resources.ts';
import { StoreCluster } from '../serving/store-cluster.ts';
import { storeDefaults } from '../store/durable-store.ts';
import type { StoredObject } from '../store/store.ts';
import { VersionedStore } from '../store/versioned-store.ts';
import { serviceAllocation } from './service-allocation.ts';
import { followServiceClaims } from './service-claims.ts';

/** A server whose disk refuses writes when a test says so, and that begins again with what was written. */
class Machine {
  isBroken = false;
  #revision = 1;
  store = this.#open([]);
  cluster = this.#serve();

  restart(): void {
    this.store = this.#open(this.services());
    this.cluster = this.#serve();
  }

  services(): readonly StoredObject[] {
    return this.store.list({ prefix: '/registry/core/services/' }).items;
  }

  #open(objects: readonly StoredObject[]): VersionedStore {
    const commit = async ({ revision }: { readonly revision: number }): Promise<void> => {
      if (this.isBroken) throw new Error('the disk is gone');
      this.#revision = revision;
    };
    const nothing = (): Promise<void> => Promise.resolve();
    const rest = { reseal: () => Promise.resolve(0), backup: nothing, close: nothing };
    const journal = { commit, revisionOnDisk: () => this.#revision, ...rest };
    const content = { revision: this.#revision, compactedRevision: this.#revision, objects, changes: [], damaged: [] };
    return new VersionedStore(journal, content, { now: () => 0, limits: storeDefaults });
  }

  #serve(): StoreCluster {
    const range = ServiceRange.parse('10.7.0.0/29') ?? assert.fail();
    const { claims } = followServiceClaims(this.store, range);
    const admission = [serviceAllocation(claims)];
    const deps = { store: this.store, clock: new FakeClock(0), random: systemRandom, admission };
    return new StoreCluster({ ...deps, resources: new ResourceTable(resources) }, 'test', new AbortController().signal);
  }
}

const ports = [{ port: 80, protocol: 'TCP' }];
const specs: readonly Service['spec'][] = [
  { ports },
  { ports, clusterIP: '10.7.0.2' },
  { ports, clusterIP: '10.7.0.3', type: 'NodePort' },
  { type: 'NodePort', ports: [{ port: 80, protocol: 'TCP', nodePort: 30001 }] },
  { type: 'NodePort', ports: [{ port: 80, protocol: 'TCP', nodePort: 30002 }] },
  { type: 'LoadBalancer', externalTrafficPolicy: 'Local', ports },
  { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30001, ports },
  { type: 'ExternalName', externalName: 'example.com' },
  { clusterIP: 'None', ports },
];

const step = fc.record({
  act: fc.constantFrom('create', 'update', 'delete'),
  name: fc.constantFrom('a', 'b', 'c', 'd'),
  spec: fc.constantFrom(...specs),
});
const round = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 6 }),
  fails: fc.boolean(),
  restarts: fc.boolean(),
});

function perform(
  { cluster }: Machine,
  { act, name, spec }: typeof step extends fc.Arbitrary<infer S> ? S : never,
): Promise<unknown> {
  const kind = cluster.kindOf('v1', 'Service') ?? assert.fail();
  const key = cluster.keyOf(kind, 'default', name);
  if (act === 'create') return cluster.create(kind, 'default', { metadata: { name }, spec } as Service);
  if (act === 'delete') return cluster.delete(key);
  return cluster.update(key, (object) => ({ ...object, spec }) as Service);
}

test('whatever is written at once, fails or is lost with a crash, no two Services have the same', async () => {
  const history = fc.array(round, { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(history, async (rounds) => {
      const machine = new Machine();
      for (const { steps, fails, restarts } of rounds) {
        machine.isBroken = fails;
        const outcomes = await Promise.allSettled(steps.map((one) => perform(machine, one)));
        machine.isBroken = false;
        for (const outcome of outcomes) {
          if (outcome.status === 'fulfilled') continue;
          const isRefusal = outcome.reason instanceof StatusError;
          assert.ok(isRefusal || (fails && /disk is gone/.test(String(outcome.reason))), String(outcome.reason));
        }
        if (restarts) machine.restart();
        const all = machine.services().map(({ value }) => (parseStored(value) as Service).spec);
        const claims = all.flatMap(({ clusterIP = '', ports: own = [], healthCheckNodePort }) => {
          const numbers = [...own.map(({ nodePort }) => nodePort), healthCheckNodePort];
          return [...numbers, clusterIP].filter((claim) => claim !== undefined && claim !== '' && claim !== 'None');
        });
        assert.equal(new Set(claims).size, claims.length, JSON.stringify(claims));
        for (const { type, clusterIP } of all) assert.equal(type === 'ExternalName', clusterIP === undefined);
      }
    }),
    { numRuns: 150 },
  );
});
