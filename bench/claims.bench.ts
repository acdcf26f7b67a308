/**
 * What binding costs as claims and volumes grow: N volumes and N claims at once, through the API server and its loops, until every
 * claim is bound. The ratio is of the time of one claim; the sizes take turns, so that noise of the machine meets both alike.
 *
 * `npm run bench -- claims`
 */
import type { ApiClient } from '../src/client/api/api-client.ts';
import type { ResourceReference } from '../src/client/api/resource-reference.ts';
import type { KubeObject } from '../src/kube/schema/kind.ts';
import { runningApiServer } from '../src/testing/servers/test-api-server.ts';
import { median, timedMs } from './measuring.ts';

const sizes = [100, 1_000] as const;
const rounds = 3;
const claims: ResourceReference = reference('PersistentVolumeClaim', 'persistentvolumeclaims', true);
const volumes: ResourceReference = reference('PersistentVolume', 'persistentvolumes', false);
const { signal } = new AbortController();

function reference(kind: string, plural: string, isNamespaced: boolean): ResourceReference {
  return { group: '', version: 'v1', kind, plural, isNamespaced };
}

interface Listed extends KubeObject {
  readonly status?: { readonly phase?: string };
}

/** Binds `count` claims from nothing, on a server of its own. */
async function bindAll(count: number): Promise<number> {
  const ends: (() => Promise<void>)[] = [];
  const server = await runningApiServer({ after: (act) => void ends.push(act) });
  const client = server.client({ rate: { perSecond: 1e6, burst: 1e6 } });
  const names = Array.from({ length: count }, (_, index) => `x${index}`);
  const capacity = { storage: '1Gi' };
  const accessModes = ['ReadWriteOnce'];
  const storageClassName = 'bench';
  const makeAll = (make: (name: string) => Promise<unknown>): Promise<unknown> => inParallel(names, 32, make);
  const tookMs = await timedMs(async () => {
    await makeAll((name) => {
      const spec = { capacity, accessModes, storageClassName, hostPath: { path: '/tmp' } };
      return client.create(volumes, {}, { metadata: { name }, spec }, signal);
    });
    await makeAll((name) => {
      const spec = { accessModes, storageClassName, resources: { requests: capacity } };
      return client.create(claims, { namespace: 'default' }, { metadata: { name }, spec }, signal);
    });
    while ((await boundOf(client)) < count) await new Promise((resolve) => setTimeout(resolve, 20));
  });
  for (const end of ends) await end();
  return tookMs;
}

async function boundOf(client: ApiClient): Promise<number> {
  const { items } = await client.list(claims, { namespace: 'default' }, signal);
  return (items as readonly Listed[]).filter(({ status }) => status?.phase === 'Bound').length;
}

async function inParallel<T>(items: readonly T[], width: number, act: (item: T) => Promise<unknown>): Promise<void> {
  const rest = items.values();
  const work = async (): Promise<void> => {
    for (const item of rest) await act(item);
  };
  await Promise.all(Array.from({ length: width }, work));
}

const results = new Map<number, number[]>(sizes.map((size) => [size, []]));
await bindAll(20); // warm
for (let round = 0; round < rounds; round += 1) {
  for (const size of sizes) results.get(size)?.push(await bindAll(size));
}
const [small, large] = sizes.map((size) => median(results.get(size) ?? []));
const ratio = (large ?? NaN) / (small ?? NaN);
process.stdout.write(
  `binding 100 x 100: ${small?.toFixed(0)} ms; 1,000 x 1,000: ${large?.toFixed(0)} ms; ratio ${ratio.toFixed(1)} (target <= 15)\n`,
);
