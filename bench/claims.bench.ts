/**
 * What claims cost as they grow in number, through the API server and its loops. Two figures: N volumes and N claims at once, until
 * every claim is bound; and N claims in pods of 20, provisioned as directories, until every pod has its node. The sizes take turns,
 * so that noise of the machine meets both alike.
 *
 * `npm run bench -- claims`
 */
import type { ApiClient } from '../src/client/api/api-client.ts';
import type { ResourceReference } from '../src/client/api/resource-reference.ts';
import { runControllers } from '../src/controllers/controllers.ts';
import { runLocalPath } from '../src/controllers/storage/local-path.ts';
import type { KubeObject } from '../src/kube/schema/kind.ts';
import { runningApiServer } from '../src/testing/servers/test-api-server.ts';
import { memoryStore } from '../src/testing/servers/stores.ts';
import { median, timedMs } from './measuring.ts';

const sizes = [100, 1_000] as const;
const rounds = 3;
const claimsOfPod = 20;
const nodeName = 'here';
const namespace = 'default';
const claims: ResourceReference = reference('PersistentVolumeClaim', 'persistentvolumeclaims', true);
const volumes: ResourceReference = reference('PersistentVolume', 'persistentvolumes', false);
const pods: ResourceReference = reference('Pod', 'pods', true);
const nodes: ResourceReference = reference('Node', 'nodes', false);
const capacity = { storage: '1Gi' };
const accessModes = ['ReadWriteOnce'];
const { signal } = new AbortController();

function reference(kind: string, plural: string, isNamespaced: boolean): ResourceReference {
  return { group: '', version: 'v1', kind, plural, isNamespaced };
}

interface Listed extends KubeObject {
  readonly spec?: { readonly nodeName?: string };
  readonly status?: { readonly phase?: string };
}

/** On a server of its own, with a node whose volumes cost nothing. */
async function measured(work: (client: ApiClient) => Promise<void>): Promise<number> {
  const ends: (() => Promise<void>)[] = [];
  const none = (): Promise<void> => Promise.resolve();
  const localPath = {
    nodeName,
    directories: {
      pathOf: (name: string) => `/${name}`,
      make: none,
      remove: none,
      removeEmpty: none,
      list: async () => [],
    },
  };
  const server = await runningApiServer({ after: (act) => void ends.push(act) }, memoryStore(), {
    controllers: (host, end) => runControllers({ ...host, provisioners: [runLocalPath(localPath)] }, end),
  });
  const client = server.client({ rate: { perSecond: 1e6, burst: 1e6 } });
  const metadata = { name: nodeName, labels: { 'kubernetes.io/hostname': nodeName } };
  await client.create(nodes, {}, { metadata }, signal);
  const ready = { metadata, status: { conditions: [{ type: 'Ready', status: 'True' }] } };
  await client.update(nodes, { name: nodeName, subresource: 'status' }, ready, signal);
  const tookMs = await timedMs(() => work(client));
  for (const end of ends) await end();
  return tookMs;
}

/** Binds `count` claims from nothing. */
const bindAll = (count: number): Promise<number> =>
  measured(async (client) => {
    const storageClassName = 'bench';
    await inParallel(namesOf(count), async (name) => {
      const spec = { capacity, accessModes, storageClassName, hostPath: { path: '/tmp' } };
      await client.create(volumes, {}, { metadata: { name }, spec }, signal);
    });
    await inParallel(namesOf(count), async (name) => {
      const spec = { accessModes, storageClassName, resources: { requests: capacity } };
      await client.create(claims, { namespace }, { metadata: { name }, spec }, signal);
    });
    await until(client, claims, count, ({ status }) => status?.phase === 'Bound');
  });

/** Pods with `count` claims in all, each from nothing to a node. */
const scheduleAll = (count: number): Promise<number> =>
  measured(async (client) => {
    const podNames = namesOf(count / claimsOfPod);
    await inParallel(podNames, async (pod) => {
      const names = namesOf(claimsOfPod).map((name) => `${pod}-${name}`);
      for (const name of names) {
        const spec = { accessModes, resources: { requests: capacity } };
        await client.create(claims, { namespace }, { metadata: { name }, spec }, signal);
      }
      const spec = {
        containers: [{ name: 'main', image: 'none' }],
        volumes: names.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
      };
      await client.create(pods, { namespace }, { metadata: { name: pod }, spec }, signal);
    });
    await until(client, pods, podNames.length, ({ spec }) => spec?.nodeName === nodeName);
    await until(client, claims, count, ({ status }) => status?.phase === 'Bound');
  });

async function until(
  client: ApiClient,
  kind: ResourceReference,
  count: number,
  isDone: (object: Listed) => boolean,
): Promise<void> {
  for (;;) {
    const { items } = await client.list(kind, { namespace }, signal);
    if ((items as readonly Listed[]).filter(isDone).length === count) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function namesOf(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `x${index}`);
}

async function inParallel<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<void> {
  const rest = items.values();
  const work = async (): Promise<void> => {
    for (const item of rest) await act(item);
  };
  await Promise.all(Array.from({ length: 32 }, work));
}

async function compare(run: (count: number) => Promise<number>): Promise<readonly [number, number, ratio: number]> {
  const results = new Map<number, number[]>(sizes.map((size) => [size, []]));
  await run(20); // warm
  for (let round = 0; round < rounds; round += 1) {
    for (const size of sizes) results.get(size)?.push(await run(size));
  }
  const [small = NaN, large = NaN] = sizes.map((size) => median(results.get(size) ?? []));
  return [small, large, large / small];
}

const [small, large, ratio] = await compare(bindAll);
process.stdout.write(
  `binding 100 x 100: ${small.toFixed(0)} ms; 1,000 x 1,000: ${large.toFixed(0)} ms; ratio ${ratio.toFixed(1)} (target <= 15)\n`,
);
const [few, many, growth] = await compare(scheduleAll);
process.stdout.write(
  `pods of ${claimsOfPod} claims, each claim: ${(few / 100).toFixed(2)} ms of 100; ${(many / 1_000).toFixed(2)} ms of 1,000; ` +
    `ratio ${(growth / 10).toFixed(2)} (target <= 1.5)\n`,
);
