/** What the server makes of the pods that it is given, over real HTTP: amounts, RuntimeClasses, kernel settings. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestJson, type TestResponse, http2Client } from '../testing/servers/test-client.ts';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer();
  client = http2Client(server);
});
after(async () => {
  client.close();
  await server.close();
});

async function create(path: string, body: unknown): Promise<TestResponse> {
  return await client.send(path, { method: 'POST', body });
}

async function podWith(spec: object, container: object = {}): Promise<TestResponse> {
  return await create('/api/v1/namespaces/default/pods', {
    metadata: { generateName: 'p-' },
    spec: { containers: [{ name: 'main', image: 'i', ...container }], automountServiceAccountToken: false, ...spec },
  });
}

const amounts: readonly (readonly [given: string | number, kept: string])[] = [
  [1, '1'],
  [0.1, '100m'],
  ['0.1', '100m'],
  ['100m', '100m'],
  ['1000m', '1'],
  ['.5', '500m'],
  ['1.0001', '1001m'],
  ['1024Mi', '1Gi'],
  ['1536Mi', '1536Mi'],
  ['1.5Gi', '1536Mi'],
  ['1000', '1k'],
  [1024, '1024'],
  ['2e3', '2e3'],
  ['0Mi', '0'],
];
for (const [given, kept] of amounts) {
  test(`an amount of ${JSON.stringify(given)} is kept and shown as ${kept}`, async () => {
    const { status, json, text } = await podWith({}, { resources: { requests: { memory: given } } });
    assert.equal(status, 201, text);
    const memory = ({ spec }: TestJson): string => spec.containers[0].resources.requests.memory;
    assert.equal(memory(json), kept);
    const path = `/api/v1/namespaces/default/pods/${json.metadata.name}`;
    assert.equal(memory((await client.send(path)).json), kept);
  });
}

test('the amounts of volumes, quotas and nodes are kept as those of pods are', async () => {
  const claim = {
    metadata: { name: 'c' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1024Mi' } } },
  };
  const { json: claimed } = await create('/api/v1/namespaces/default/persistentvolumeclaims', claim);
  assert.equal(claimed.spec.resources.requests.storage, '1Gi');
  const { json: node } = await create('/api/v1/nodes', {
    metadata: { name: 'n' },
    status: { capacity: { cpu: 2, memory: '2048Ki' } },
  });
  assert.deepEqual(node.status.capacity, { cpu: '2', memory: '2Mi' });
});

test('a RuntimeClass gives its pods its overhead and its nodes, and what contradicts them is refused', async () => {
  const sandboxed = { key: 'sandbox', operator: 'Exists', effect: 'NoSchedule' };
  await create('/apis/node.k8s.io/v1/runtimeclasses', {
    metadata: { name: 'sandboxed' },
    handler: 'sandbox',
    overhead: { podFixed: { cpu: '0.25', memory: '1024Ki' } },
    scheduling: {
      nodeSelector: { sandbox: 'yes' },
      tolerations: [sandboxed],
    },
  });
  const runtimeClassName = 'sandboxed';
  const own = { key: 'own', operator: 'Exists' };
  const { status, json, text } = await podWith({ runtimeClassName, nodeSelector: { disk: 'ssd' }, tolerations: [own] });
  assert.equal(status, 201, text);
  assert.deepEqual(json.spec.overhead, { cpu: '250m', memory: '1Mi' });
  assert.deepEqual(json.spec.nodeSelector, { disk: 'ssd', sandbox: 'yes' });
  assert.deepEqual([json.spec.tolerations[0], json.spec.tolerations.at(-1)], [own, sandboxed]);
  const said = async (spec: object): Promise<string> => (await podWith(spec)).json.message;
  assert.match(await said({ runtimeClassName: 'none' }), /pod rejected: RuntimeClass "none" not found$/);
  assert.match(
    await said({ runtimeClassName, nodeSelector: { sandbox: 'no' } }),
    /conflict: runtimeClass\.scheduling\.nodeSelector\[sandbox\] = yes; pod\.spec\.nodeSelector\[sandbox\] = no$/,
  );
  assert.match(
    await said({ runtimeClassName, overhead: { cpu: '1' } }),
    /pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead$/,
  );
  assert.match(
    await said({ overhead: { cpu: '1' } }),
    /pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead$/,
  );
  assert.equal((await podWith({ runtimeClassName, overhead: { cpu: '250m', memory: '1Mi' } })).status, 201);
});

test('what a pod says and its author hardly means is warned of, in templates too', async () => {
  const container = {
    name: 'main',
    image: 'i',
    env: [
      { name: 'A', value: '1' },
      { name: 'B', value: '1' },
      { name: 'A', value: '$(A)2' },
      { name: 'B', value: '2' },
    ],
    resources: { requests: { memory: '100m', cpu: '100m' }, limits: { memory: '1Mi', 'ephemeral-storage': '1500m' } },
  };
  const warnings = [
    'resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
    'resources.limits[ephemeral-storage]: fractional byte value "1500m" is invalid, must be an integer',
    'env[3]: hides previous definition of "B", which may be dropped when using apply',
  ];
  const shown = ({ headers }: TestResponse): string => [headers['warning']].flat().join(', ');
  const expected = (path: string): string =>
    warnings.map((text) => `299 - ${JSON.stringify(`${path}.containers[0].${text}`)}`).join(', ');
  const pod = await podWith({}, container);
  assert.equal(shown(pod), expected('spec'), pod.text);
  const labels = { app: 'web' };
  const template = { metadata: { labels }, spec: { containers: [container] } };
  const spec = { selector: { matchLabels: labels }, template };
  const made = await create('/apis/apps/v1/namespaces/default/deployments', { metadata: { name: 'web' }, spec });
  assert.equal(shown(made), expected('spec.template.spec'), made.text);
});

test('names of kernel settings may have slashes for dots', async () => {
  const sysctls = [
    { name: 'net/ipv4/ip_unprivileged_port_start', value: '0' },
    { name: 'net/ipv4/conf/eth0.1/forwarding', value: '1' },
    { name: 'kernel.shm_rmid_forced', value: '1' },
  ];
  const { status, json, text } = await podWith({ securityContext: { sysctls } });
  assert.equal(status, 201, text);
  assert.deepEqual(json.spec.securityContext.sysctls, sysctls);
  const wrong = await podWith({ securityContext: { sysctls: [{ name: 'net/ipv4/', value: '1' }] } });
  assert.equal(wrong.status, 422);
});
