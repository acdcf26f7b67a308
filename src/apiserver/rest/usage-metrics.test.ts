/** The figures of `kubectl top`, over HTTP, from nodes that answer as a test wants. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { hastyClock } from '../../testing/fakes/fake-clock.ts';
import { startTestApiServer } from '../../testing/servers/test-api-server.ts';
import { type TestClient, http1Client } from '../../testing/servers/test-client.ts';

const root = '/apis/metrics.k8s.io/v1beta1';
const startedMs = Date.parse('2026-01-02T03:04:05Z');
const time = (seconds: number): string => new Date(startedMs + seconds * 1_000).toISOString();

interface World {
  readonly client: TestClient;
  /** Which nodes were asked, in order. */
  readonly asked: string[];
  /** By node. */
  answers: Record<string, (count: number) => Promise<object>>;
}

function counters(seconds: number, cores: number, name?: string): object {
  return {
    ...(name !== undefined && { name }),
    startTime: time(0),
    cpu: { time: time(seconds), usageCoreNanoSeconds: seconds * cores * 1e9 },
    memory: { time: time(seconds), workingSetBytes: 3 * 1024 * 1024 },
    unknownToThisServer: true,
  };
}

/** A node with pod `web` of two containers; one second passes for it between two samples. */
async function summary(count: number): Promise<object> {
  const containers = [counters(10 + count, 0.25, 'main'), counters(10 + count, 0.002, 'side')];
  return {
    node: counters(10 + count, 1.5),
    pods: [{ podRef: { name: 'web', namespace: 'default' }, containers }],
  };
}

async function world(t: TestContext): Promise<World> {
  const made: Pick<World, 'asked' | 'answers'> = { asked: [], answers: { here: summary } };
  const server = await startTestApiServer({
    deps: {
      clock: hastyClock(50),
      nodes: {
        connect: () => Promise.reject(new Error('nobody asks')),
        relay: () => Promise.reject(new Error('nobody asks')),
        addressOf: () => assert.fail('nobody asks'),
        async read(node, path, signal) {
          assert.equal(path, '/stats/summary?only_cpu_and_memory=true');
          const count = made.asked.filter((one) => one === node).length;
          made.asked.push(node);
          const gone = new Promise<never>((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason as Error));
          });
          gone.catch(() => {});
          return JSON.stringify(await Promise.race([gone, made.answers[node]?.(count)]));
        },
      },
    },
  });
  const client = http1Client(server);
  t.after(async () => {
    client.close();
    await server.close();
  });
  const create = async (path: string, body: object): Promise<void> => {
    const { status, text } = await client.send(path, { method: 'POST', body });
    assert.equal(status, 201, text);
  };
  for (const name of ['here', 'away']) await create('/api/v1/nodes', { metadata: { name, labels: { role: name } } });
  for (const [name, nodeName] of [
    ['web', 'here'],
    ['other', 'away'],
    ['waits', undefined],
  ]) {
    const spec = { containers: [{ name: 'main', image: 'x' }], automountServiceAccountToken: false, nodeName };
    await create('/api/v1/namespaces/default/pods', { metadata: { name, labels: { app: name } }, spec });
  }
  return { client, ...made };
}

test('usage is the growth between two samples, and a node that does not answer in time is left out', async (t) => {
  const made = await world(t);
  made.answers['away'] = () => new Promise(() => {});
  const { status, json } = await made.client.send(`${root}/nodes`);
  assert.equal(status, 200);
  assert.equal(json.kind, 'NodeMetricsList');
  assert.equal(json.items.length, 1);
  const [node] = json.items;
  assert.deepEqual([node.kind, node.apiVersion, node.metadata.name], ['NodeMetrics', 'metrics.k8s.io/v1beta1', 'here']);
  assert.deepEqual(node.metadata.labels, { role: 'here' });
  assert.deepEqual([node.timestamp, node.window], ['2026-01-02T03:04:16Z', '1s']);
  assert.deepEqual(node.usage, { cpu: '1500m', memory: '3Mi' });
  assert.deepEqual(made.asked.toSorted(), ['away', 'here', 'here'], 'twice, and no more');
});

test('pods have their labels and the usage of each container; who asks for one node asks no other', async (t) => {
  const { client, asked } = await world(t);
  const { json } = await client.send(`${root}/namespaces/default/pods?labelSelector=app%3Dweb`);
  assert.equal(json.items.length, 1);
  const [pod] = json.items;
  assert.deepEqual(
    [pod.metadata.name, pod.metadata.namespace, pod.metadata.labels],
    ['web', 'default', { app: 'web' }],
  );
  assert.deepEqual(pod.containers, [
    { name: 'main', usage: { cpu: '250m', memory: '3Mi' } },
    { name: 'side', usage: { cpu: '2m', memory: '3Mi' } },
  ]);
  const one = await client.send(`${root}/namespaces/default/pods/web`);
  assert.equal(one.json.metadata.name, 'web');
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
  const table = await client.send(`${root}/namespaces/default/pods/web`, { headers: { accept } });
  assert.deepEqual(table.json.rows[0].cells.slice(0, 3), ['web', '252m', '6Mi']);
  assert.deepEqual(new Set(asked), new Set(['here']));
});

test('what cannot be known is refused in words', async (t) => {
  const made = await world(t);
  const told = async (path: string): Promise<unknown[]> => {
    const { status, json } = await made.client.send(`${root}${path}`);
    return [status, json.message];
  };
  made.answers['away'] = () => Promise.reject(new Error('connect ECONNREFUSED'));
  const refused = 'the usage of node "away" cannot be read: connect ECONNREFUSED';
  assert.deepEqual(await told('/nodes/away'), [503, refused]);
  assert.deepEqual(await told('/namespaces/default/pods/other'), [503, refused]);
  assert.deepEqual(await told('/nodes/none'), [404, 'nodes.metrics.k8s.io "none" not found']);
  assert.deepEqual(await told('/namespaces/default/pods/waits'), [404, 'pods.metrics.k8s.io "waits" not found']);
  made.answers['away'] = () => Promise.resolve({ node: { cpu: 'much' } });
  assert.deepEqual(await told('/nodes/away'), [
    503,
    'the usage of node "away" cannot be read: node.cpu: expected a map, got a string',
  ]);
  assert.equal((await made.client.send(`${root}/nodes?watch=true`)).status, 405);
  assert.equal((await made.client.send(`${root}/nodes`, { token: '' })).status, 403);
});
