/**
 * The scheduler on a store in memory: 1,000 pods on 10 nodes until each is bound, where all of them fit; and where 500 fit, of which
 * one after the other ends, until the other 500 have its place. Beside it: the same number of bindings written without a decision.
 */
import { systemRandom } from '../src/apiserver/model/random.ts';
import { ResourceTable } from '../src/apiserver/model/resource.ts';
import { resources } from '../src/apiserver/resources/resources.ts';
import { StoreCluster } from '../src/apiserver/serving/store-cluster.ts';
import { systemClock } from '../src/base/clock.ts';
import { type Cluster, coreKind } from '../src/controllers/cluster/cluster.ts';
import { runScheduler } from '../src/controllers/scheduling/scheduler.ts';
import { runStorage } from '../src/controllers/storage/storage.ts';
import type { KubeObject } from '../src/kube/schema/kind.ts';
import { memoryStore } from '../src/testing/servers/stores.ts';

const nodes = 10;
const pods = 1_000;
const namespace = 'default';

class Bench {
  readonly #store = memoryStore();
  readonly #stop = new AbortController();
  readonly cluster = this.#clusterFor('bench');
  #running: Promise<void> = Promise.resolve();

  #clusterFor(name: string): StoreCluster {
    const deps = { store: this.#store, clock: systemClock, random: systemRandom };
    return new StoreCluster(
      { ...deps, admission: [], resources: new ResourceTable(resources) },
      name,
      this.#stop.signal,
    );
  }

  async setUp(podsOfNode: number): Promise<void> {
    const { cluster } = this;
    const make = (kind: string, home: string, object: object): Promise<KubeObject> =>
      cluster.create(coreKind(cluster, kind), home, object as KubeObject);
    await make('Namespace', '', { metadata: { name: namespace } });
    await make('ServiceAccount', namespace, { metadata: { name: 'default' } });
    const status = {
      allocatable: { cpu: '64', memory: '256Gi', pods: String(podsOfNode) },
      conditions: [{ type: 'Ready', status: 'True' }],
    };
    for (let index = 0; index < nodes; index += 1) await make('Node', '', { metadata: { name: `n${index}` }, status });
  }

  startScheduler(): void {
    const notify = ({ error }: { readonly error: unknown }): void => void process.stderr.write(`${String(error)}\n`);
    const clusterFor = (name: string): Cluster => this.#clusterFor(name);
    const deps = { clusterFor, clock: systemClock, random: systemRandom, notify };
    this.#running = runStorage(deps, [runScheduler], true, this.#stop.signal);
  }

  /** Each asks for something else where `differ` says so. */
  async addPods(differ: boolean): Promise<readonly string[]> {
    const { cluster } = this;
    const kind = coreKind(cluster, 'Pod');
    const keys: string[] = [];
    for (let index = 0; index < pods; index += 1) {
      const asked = { requests: { cpu: '10m', memory: String(1_000_000 + (differ ? index : 0)) } };
      const spec = {
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'main', image: 'none', resources: asked }],
      };
      await cluster.create(kind, namespace, { metadata: { name: `p${index}` }, spec } as KubeObject);
      keys.push(cluster.keyOf(kind, namespace, `p${index}`));
    }
    return keys;
  }

  /** Resolves when so many pods have got a node since the call; each is told as it gets it. */
  bound(count: number, told: (key: string) => void = () => {}): Promise<void> {
    const seen = new Set<string>();
    return new Promise((resolve) => {
      const stop = this.cluster.watch(coreKind(this.cluster, 'Pod'), (change) => {
        if (change.type === 'delete' || seen.has(change.key) || !change.mentions('nodeName')) return;
        seen.add(change.key);
        told(change.key);
        if (seen.size === count) resolve();
      });
      this.#stop.signal.addEventListener('abort', stop);
    });
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#store.close();
  }
}

async function measured(name: string, podsOfNode: number, act: (bench: Bench) => Promise<void>): Promise<void> {
  const bench = new Bench();
  await bench.setUp(podsOfNode);
  const [began, usedBefore] = [performance.now(), process.cpuUsage()];
  await act(bench);
  const { user, system } = process.cpuUsage(usedBefore);
  const [ms, cpuMs] = [performance.now() - began, (user + system) / 1000];
  process.stdout.write(`${name}: ${ms.toFixed(0)} ms, ${((cpuMs * 1000) / pods).toFixed(0)} µs of cpu for each pod\n`);
  await bench.end();
}

// The first round warms up.
for (const differ of [false, true, false]) {
  const which = differ ? 'that all differ' : 'that are alike';
  await measured(`${pods} pods ${which}, bound without a decision`, pods, async (bench) => {
    for (const key of await bench.addPods(differ)) {
      const uid = (await bench.cluster.get(key))?.metadata.uid ?? '';
      await bench.cluster.bind(key, uid, `n${key.length % nodes}`);
    }
  });
  await measured(`${pods} pods ${which}, scheduled`, pods, async (bench) => {
    bench.startScheduler();
    const done = bench.bound(pods);
    await bench.addPods(differ);
    await done;
  });
  await measured(
    `${pods} pods ${which}, of which half wait until another one ends`,
    pods / nodes / 2,
    async (bench) => {
      bench.startScheduler();
      const half = new Promise<void>((resolve) => void bench.bound(pods / 2).then(resolve));
      await bench.addPods(differ);
      await half;
      await bench.bound(pods, (key) => void bench.cluster.delete(key, {}, { gracePeriodSeconds: 0 }));
    },
  );
}
