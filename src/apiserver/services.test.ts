/** What Services are given, over real HTTP: addresses, node ports and families, to each its own, whatever happens at once. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { memoryStore } from '../testing/servers/stores.ts';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, type TestJson, type TestResponse, http2Client } from '../testing/servers/test-client.ts';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer({ store: memoryStore(), settings: { serviceRange: '10.7.0.0/26' } });
  client = http2Client(server);
  await make('held', { clusterIP: '10.7.0.5', type: 'NodePort', ports: [{ port: 80, nodePort: 30005 }] });
});
after(async () => {
  client.close();
  await server.close();
});

const home = '/api/v1/namespaces/default/services';
const ports = [{ port: 80 }];

function make(name: string, spec: object, query = ''): Promise<TestResponse> {
  return client.send(`${home}${query}`, { method: 'POST', body: { metadata: { name }, spec: { ports, ...spec } } });
}

async function made(name: string, spec: object): Promise<TestJson> {
  const { status, json } = await make(name, spec);
  assert.equal(status, 201, json.message);
  return json;
}

/** Reads, changes and replaces. */
async function replace(name: string, change: (spec: TestJson) => object): Promise<TestResponse> {
  const { json } = await client.send(`${home}/${name}`);
  return client.send(`${home}/${name}`, { method: 'PUT', body: { ...json, spec: change(json.spec) } });
}

async function replaced(name: string, change: (spec: TestJson) => object): Promise<TestJson> {
  const { status, json } = await replace(name, change);
  assert.equal(status, 200, json.message);
  return json.spec;
}

const remove = (name: string): Promise<TestResponse> => client.send(`${home}/${name}`, { method: 'DELETE' });
const nodePortsOf = (spec: TestJson): number[] => spec.ports.map(({ nodePort }: TestJson) => nodePort);

const refusals = [
  {
    it: 'an address that another one has',
    spec: { clusterIP: '10.7.0.5' },
    message:
      'spec.clusterIPs: Invalid value: ["10.7.0.5"]: failed to allocate IP 10.7.0.5: provided IP is already allocated',
  },
  {
    it: 'an address of elsewhere',
    spec: { clusterIP: '10.8.0.1' },
    message:
      'spec.clusterIPs: Invalid value: ["10.8.0.1"]: failed to allocate IP 10.8.0.1: the provided IP (10.8.0.1) is not in the valid range. The range of valid IPs is 10.7.0.0/26',
  },
  {
    it: 'a node port that another one has',
    spec: {
      type: 'NodePort',
      ports: [{ port: 1 }, { name: 'b', port: 2, nodePort: 30005 }].map((one) => ({ name: 'a', ...one })),
    },
    message: 'spec.ports[1].nodePort: Invalid value: 30005: provided port is already allocated',
  },
  {
    it: 'a node port of elsewhere',
    spec: { type: 'NodePort', ports: [{ port: 80, nodePort: 80 }] },
    message:
      'spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767',
  },
  {
    it: 'a port for health checks that another one has',
    spec: { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30005 },
    message: 'spec.healthCheckNodePort: Invalid value: 30005: provided port is already allocated',
  },
  {
    it: 'a second family',
    spec: { ipFamilyPolicy: 'RequireDualStack' },
    message:
      'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services',
  },
  {
    it: 'another family',
    spec: { ipFamilies: ['IPv6'] },
    message: 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
  },
  {
    it: 'an address of another family',
    spec: { clusterIP: 'fd00::1' },
    message: 'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
  },
  {
    it: 'several families and one at most',
    spec: { ipFamilies: ['IPv4', 'IPv6'] },
    message:
      "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
  },
];
for (const { it, spec, message } of refusals) {
  test(`a new service that asks for ${it} is refused`, async () => {
    const { status, json } = await make('refused', spec);
    assert.equal(json.message, `Service "refused" is invalid: ${message}`);
    assert.equal(status, 422);
  });
}

test('each kind of service gets what it needs and no more', async () => {
  const plain = await made('plain', {});
  assert.deepEqual(
    [plain.spec.clusterIPs, plain.spec.ipFamilies, plain.spec.ipFamilyPolicy],
    [[plain.spec.clusterIP], ['IPv4'], 'SingleStack'],
  );
  assert.match(plain.spec.clusterIP, /^10\.7\.0\.\d+$/);
  assert.ok(Number(plain.spec.clusterIP.split('.')[3]) > 16, 'low addresses are left to those who name them');
  const headless = await made('headless', { clusterIP: 'None', selector: { app: 'x' } });
  assert.deepEqual([headless.spec.clusterIPs, headless.spec.ipFamilies], [['None'], ['IPv4']]);
  const open = await made('open', { clusterIP: 'None' });
  assert.deepEqual([open.spec.ipFamilyPolicy, open.spec.ipFamilies], ['RequireDualStack', ['IPv4', 'IPv6']]);
  const named = await made('named', { type: 'ExternalName', externalName: 'example.com' });
  assert.deepEqual([named.spec.clusterIP, named.spec.ipFamilies], [undefined, undefined]);
  const both = [53, 53, 54].map((port, index) => ({ name: `p${index}`, port, protocol: index === 1 ? 'UDP' : 'TCP' }));
  const { spec } = await made('ports', { type: 'NodePort', ports: both });
  const [first, second, third] = nodePortsOf(spec);
  assert.ok(first === second && first !== third && (first ?? 0) >= 30086, String(nodePortsOf(spec)));
  const balanced = await made('balanced', { type: 'LoadBalancer', externalTrafficPolicy: 'Local' });
  const given = [...nodePortsOf(balanced.spec), balanced.spec.healthCheckNodePort];
  assert.ok(new Set(given).size === 2 && given.every((port) => port >= 30000), String(given));
  const direct = await made('direct', { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false });
  assert.deepEqual(nodePortsOf(direct.spec), [undefined]);
});

test('an update keeps what was given, and a file that was applied can be applied again', async () => {
  const first = (await made('kept', { type: 'NodePort' })).spec;
  const body = { metadata: { name: 'kept' }, spec: { type: 'NodePort', ports: [{ port: 81 }] } };
  const { status, json } = await client.send(`${home}/kept`, { method: 'PUT', body });
  assert.equal(status, 200, json.message);
  assert.deepEqual([json.spec.clusterIP, nodePortsOf(json.spec)], [first.clusterIP, nodePortsOf(first)]);
  const changed = await replace('kept', (spec) => ({ ...spec, clusterIP: '10.7.0.6', clusterIPs: ['10.7.0.6'] }));
  assert.match(changed.json.message, /spec\.clusterIPs\[0\]: .*may not change once set/);
  assert.equal((await remove('kept')).status, 200);
});

test('what a change of type or a deletion gives back is free for others', async () => {
  const ask = { clusterIP: '10.7.0.9', type: 'NodePort', ports: [{ port: 80, nodePort: 30009 }] };
  await made('first', ask);
  assert.equal((await make('second', ask)).status, 422);
  const inside = await replaced('first', (spec) => ({ ...spec, type: 'ClusterIP' }));
  assert.deepEqual(nodePortsOf(inside), [undefined]);
  await made('second', { ...ask, clusterIP: '' });
  const named = await replaced('first', (spec) => ({ ...spec, type: 'ExternalName', externalName: 'example.com' }));
  assert.deepEqual([named.clusterIP, named.clusterIPs, named.ipFamilies], [undefined, undefined, undefined]);
  await made('third', { clusterIP: '10.7.0.9' });
  const back = await replaced('first', (spec) => ({ ...spec, type: 'ClusterIP', externalName: undefined }));
  assert.notEqual(back.clusterIP, '10.7.0.9');
  await remove('second');
  await remove('third');
  await made('again', ask);
  for (const name of ['first', 'again']) await remove(name);
});

test('a dry run shows what it would be given, and takes nothing', async () => {
  const ask = { clusterIP: '10.7.0.10', type: 'NodePort', ports: [{ port: 80, nodePort: 30010 }] };
  const { status, json } = await make('tried', ask, '?dryRun=All');
  assert.deepEqual([status, json.spec.clusterIP], [201, '10.7.0.10']);
  assert.match((await make('tried', {}, '?dryRun=All')).json.spec.clusterIP, /^10\.7\.0\./);
  await made('real', ask);
  await remove('real');
});

test('a service too large to be decided beside other work is given its own all the same', async () => {
  const large = (name: string, spec: object): Promise<TestResponse> => {
    const metadata = { name, annotations: { text: 'x'.repeat(40_000) } };
    return client.send(home, { method: 'POST', body: { metadata, spec: { ports, type: 'NodePort', ...spec } } });
  };
  const answers = await Promise.all([large('large-1', {}), large('large-2', {}), make('small', { type: 'NodePort' })]);
  for (const { status, json } of answers) assert.equal(status, 201, json.message);
  assert.equal(new Set(answers.map(({ json }) => json.spec.clusterIP)).size, 3);
  assert.equal(new Set(answers.flatMap(({ json }) => nodePortsOf(json.spec))).size, 3);
  const taken = await large('large-3', { clusterIP: answers[2]?.json.spec.clusterIP });
  assert.match(taken.json.message, /provided IP is already allocated/);
  for (const { json } of answers) await remove(json.metadata.name);
});

test('of many that ask at once none gets what another has, and a range that is full says so', async () => {
  const asking = Array.from({ length: 70 }, (_, index) => make(`many-${index}`, { type: 'NodePort' }));
  const answers = await Promise.all(asking);
  const given = answers.filter(({ status }) => status === 201).map(({ json }) => json.spec);
  assert.equal(new Set(given.map(({ clusterIP }) => clusterIP)).size, given.length);
  assert.equal(new Set(given.flatMap(nodePortsOf)).size, given.length);
  const refused = answers.filter(({ status }) => status !== 201);
  assert.ok(refused.length > 0 && refused.every(({ json }) => /range is full/.test(json.message)));
  const all = (await client.send(home)).json.items.map(({ spec }: TestJson) => spec.clusterIP);
  const addresses = all.filter((address: string | undefined) => address !== undefined && address !== 'None');
  assert.deepEqual([addresses.length, new Set(addresses).size], [62, 62]);
  for (const { json } of answers.filter(({ status }) => status === 201)) await remove(json.metadata.name);
});

test('the service of the API server is made again when it is deleted', async () => {
  const current = await client.send(`${home}/kubernetes`);
  const watch = await client.watch(
    `${home}?watch=true&fieldSelector=metadata.name%3Dkubernetes&resourceVersion=${current.json.metadata.resourceVersion}`,
  );
  await remove('kubernetes');
  assert.equal((await watch.next()).type, 'DELETED');
  const { type, object } = await watch.next();
  assert.deepEqual([type, object.spec.clusterIP], ['ADDED', '10.7.0.1']);
  watch.close();
});
