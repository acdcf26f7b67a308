/** What no API server takes, over real HTTP: each is refused in the API's words, with the fields that are wrong. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { memoryStore } from '../testing/servers/stores.ts';
import { type TestApiServer, startTestApiServer } from '../testing/servers/test-api-server.ts';
import { type TestClient, http2Client } from '../testing/servers/test-client.ts';

let server: TestApiServer;
let client: TestClient;
before(async () => {
  server = await startTestApiServer({ store: memoryStore() });
  client = http2Client(server);
});
after(async () => {
  client.close();
  await server.close();
});

const home = '/api/v1/namespaces/default';
const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';
const long = 'a'.repeat(1_000);
const dns =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

function pod(spec: object = {}, name: string | undefined = 'p'): object {
  return { metadata: { name }, spec: { containers: [{ name: 'c', image: 'i' }], ...spec } };
}

function withLimit(cpu: unknown): object {
  return pod({ containers: [{ name: 'c', image: 'i', resources: { limits: { cpu } } }] });
}

const event = { metadata: { name: 'e' }, involvedObject: { namespace: 'default' } };
const wrongQuantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const wrongTime = 'expected a time (RFC 3339, such as 2006-01-02T15:04:05Z), got other text';

interface Refusal {
  readonly it: string;
  readonly path: string;
  readonly method?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly says: string;
  readonly fields?: readonly string[];
}

const refusals: readonly Refusal[] = [
  {
    it: 'a number that clients cannot keep',
    path: '/apis/apps/v1/namespaces/default/deployments',
    body: { metadata: { name: 'd' }, spec: { replicas: 10_000_000_000, selector: {}, template: pod() } },
    says: '400 Deployment in version "v1" cannot be handled as a Deployment: json: spec.replicas: expected a whole number, got one that is too large',
  },
  {
    it: 'an object without a name',
    path: `${home}/pods`,
    body: pod({}, ''),
    says: '422 Pod "" is invalid: metadata.name: Required value: name or generateName is required',
    fields: ['metadata.name'],
  },
  {
    it: 'an object without a name, of a kind that is kept without rules of its own',
    path: '/apis/storage.k8s.io/v1/volumeattributesclasses',
    body: { driverName: 'd' },
    says: '422 VolumeAttributesClass.storage.k8s.io "" is invalid: metadata.name: Required value: name or generateName is required',
    fields: ['metadata.name'],
  },
  {
    it: 'a name that is too long for any key',
    path: `${home}/configmaps`,
    body: { metadata: { name: long } },
    says: `422 ConfigMap "${long}" is invalid: metadata.name: Invalid value: "${long}": must be no more than 253 characters`,
    fields: ['metadata.name'],
  },
  {
    it: 'a name that is too long, of a kind that takes any',
    path: `${home}/events`,
    body: { ...event, metadata: { name: long } },
    says: `422 Event "${long}" is invalid: metadata.name: Too long: may not be more than 768 bytes`,
    fields: ['metadata.name'],
  },
  {
    it: 'a namespace that cannot be',
    path: `/api/v1/namespaces/${long}${long}/configmaps`,
    body: { metadata: { name: 'a' } },
    says: `404 namespaces "${long}${long}" not found`,
  },
  {
    it: 'the deletion of what cannot be',
    path: `${home}/configmaps/${long}`,
    method: 'DELETE',
    says: `404 configmaps "${long}" not found`,
  },
  {
    it: 'a quantity that is a word',
    path: `${home}/pods`,
    body: withLimit('abc'),
    says: `400 Pod in version "v1" cannot be handled as a Pod: json: spec.containers[0].resources.limits[cpu]: ${wrongQuantity}`,
  },
  {
    it: 'a quantity from a template that was not filled in',
    path: `${home}/pods`,
    body: withLimit('${X}'),
    says: `400 Pod in version "v1" cannot be handled as a Pod: json: spec.containers[0].resources.limits[cpu]: ${wrongQuantity}`,
  },
  {
    it: 'a time that is none',
    path: `${home}/events`,
    body: { ...event, lastTimestamp: 'yesterday' },
    says: `400 Event in version "v1" cannot be handled as a Event: json: lastTimestamp: ${wrongTime}`,
  },
  {
    it: 'a time among the owners of fields',
    path: `${home}/configmaps`,
    body: { metadata: { name: 'a', managedFields: [{ time: 'x' }] } },
    says: `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: json: metadata.managedFields[0].time: ${wrongTime}`,
  },
  {
    it: 'a timeout that is no duration',
    path: `${home}/pods?timeout=x`,
    says: '400 invalid timeout specified in the request URL - time: invalid duration "x"',
  },
  {
    it: 'a timeout without a unit',
    path: `${home}/pods?timeout=10`,
    says: '400 invalid timeout specified in the request URL - time: missing unit in duration "10"',
  },
  {
    it: 'a timeout that is no duration, of a path that is no resource',
    path: '/version?timeout=x',
    says: '400 invalid timeout specified in the request URL - time: invalid duration "x"',
  },
  {
    it: 'a review as a table',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: { spec: { nonResourceAttributes: { path: '/', verb: 'get' } } },
    headers: { accept: table, 'content-type': 'application/json' },
    says: '406 only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf',
  },
  {
    it: 'a review of no token',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: { spec: {} },
    says: '400 token is required for TokenReview in authentication',
  },
  {
    it: 'a token as a table',
    path: `${home}/serviceaccounts/default/token`,
    body: { spec: {} },
    headers: { accept: table, 'content-type': 'application/json' },
    says: '406 only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf',
  },
  {
    it: 'a class of priority that is not there',
    path: `${home}/pods`,
    body: pod({ priorityClassName: 'high' }),
    says: '403 pods "p" is forbidden: no PriorityClass with name high was found',
  },
  {
    it: 'a priority of the user’s own',
    path: `${home}/pods`,
    body: pod({ priority: 7 }),
    says: '403 pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name',
  },
  {
    it: 'a policy of the user’s own',
    path: `${home}/pods`,
    body: pod({ priorityClassName: 'system-node-critical', preemptionPolicy: 'Never' }),
    says: '403 pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name',
  },
  {
    it: 'a field that a driver’s volume does not have',
    path: `${home}/pods?fieldValidation=Strict`,
    body: pod({ volumes: [{ name: 'v', rbd: { monitors: ['m'], image: 'i', size: 1 } }] }),
    says: '400 Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.volumes[0].rbd.size"',
  },
  {
    it: 'a name with letters that names do not have',
    path: `${home}/configmaps`,
    body: { metadata: { name: 'A' } },
    says: `422 ConfigMap "A" is invalid: metadata.name: Invalid value: "A": ${dns}`,
    fields: ['metadata.name'],
  },
];
for (const { it, path, method, body, headers, says, fields } of refusals) {
  test(`the server refuses ${it}, and says why`, async () => {
    const answer = await client.send(path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      ...(body && { body }),
      ...(headers && { headers }),
    });
    assert.equal(`${answer.status} ${answer.json.message}`, says);
    assert.equal(answer.json.code, answer.status);
    const causes: readonly { readonly field: string }[] = answer.json.details?.causes ?? [];
    if (fields !== undefined)
      assert.deepEqual(
        causes.map(({ field }) => field),
        fields,
      );
    const failures = server.notices.filter(({ kind }) => kind !== 'RequestServed');
    assert.deepEqual(failures, []);
  });
}

const priorities = [
  { class: 'system-node-critical', priority: 2_000_001_000 },
  { class: 'system-cluster-critical', priority: 2_000_000_000 },
  { class: undefined, priority: 0 },
];
for (const { class: priorityClassName, priority } of priorities) {
  test(`a pod of the class ${priorityClassName} has priority ${priority}`, async () => {
    const body = pod({ priorityClassName });
    const { status, json } = await client.send(`${home}/pods?dryRun=All`, { method: 'POST', body });
    assert.equal(status, 201);
    const { spec } = json;
    const expected = [priorityClassName, priority, 'PreemptLowerPriority'];
    assert.deepEqual([spec.priorityClassName, spec.priority, spec.preemptionPolicy], expected);
  });
}

test('classes that are stored are found by their name, and one of them may be the default', async () => {
  const own = await startTestApiServer({ store: memoryStore() });
  const other = http2Client(own);
  const put = (name: string, fields: object): Promise<unknown> =>
    own.store.update(`/registry/scheduling.k8s.io/priorityclasses/${name}`, () => {
      const value = JSON.stringify({ metadata: { name }, ...fields });
      return { kind: 'put', value, result: undefined };
    });
  await put('high', { value: 10, preemptionPolicy: 'Never' });
  await put('usual', { value: 5, globalDefault: true });
  const created = async (spec: object): Promise<unknown> => {
    const { json } = await other.send(`${home}/pods?dryRun=All`, { method: 'POST', body: pod(spec) });
    const { priorityClassName, priority, preemptionPolicy } = json.spec;
    return { priorityClassName, priority, preemptionPolicy };
  };
  const high = { priorityClassName: 'high', priority: 10, preemptionPolicy: 'Never' };
  const usual = { priorityClassName: 'usual', priority: 5, preemptionPolicy: 'PreemptLowerPriority' };
  assert.deepEqual(await created({ priorityClassName: 'high' }), high);
  assert.deepEqual(await created({}), usual);
  other.close();
  await own.close();
});

test('times come back in the API’s own form', async () => {
  const lease = { metadata: { name: 'l' }, spec: { renewTime: '2026-01-01T01:00:00.5+01:00' } };
  const path = '/apis/coordination.k8s.io/v1/namespaces/default/leases';
  const { json } = await client.send(path, { method: 'POST', body: lease });
  assert.equal(json.spec.renewTime, '2026-01-01T00:00:00.500000Z');
});

test('what admission adds to a pod belongs to no manager', async () => {
  const path = `${home}/pods/mine`;
  const headers = { 'content-type': 'application/apply-patch+yaml' };
  const applied = { apiVersion: 'v1', kind: 'Pod', ...pod({}, 'mine') };
  const created = await client.send(`${home}/pods?fieldManager=first`, { method: 'POST', body: applied });
  const [{ manager, fieldsV1 }] = created.json.metadata.managedFields;
  assert.equal(manager, 'first');
  const { 'f:spec': spec } = fieldsV1;
  const container = spec['f:containers']['k:{"name":"c"}'];
  for (const field of [
    'volumes',
    'tolerations',
    'serviceAccount',
    'serviceAccountName',
    'priority',
    'preemptionPolicy',
  ]) {
    assert.equal(spec[`f:${field}`], undefined, field);
  }
  assert.equal(container['f:volumeMounts'], undefined);
  // Defaults, on the other hand, came with the object.
  assert.deepEqual(spec['f:dnsPolicy'], {});
  // As kubectl does it: what it had set on its own becomes an apply of its own, and then it applies less than that.
  const [entry] = created.json.metadata.managedFields;
  const migrated = [{ ...entry, manager: 'kubectl', operation: 'Apply' }];
  const patch = [{ op: 'replace', path: '/metadata/managedFields', value: migrated }];
  const asJson = { 'content-type': 'application/json-patch+json' };
  const moved = await client.send(path, { method: 'PATCH', headers: asJson, body: JSON.stringify(patch) });
  assert.equal(moved.status, 200);
  const forced = `${path}?fieldManager=kubectl&force=true`;
  const outcome = await client.send(forced, { method: 'PATCH', headers, body: JSON.stringify(applied) });
  assert.equal(outcome.status, 200, outcome.text);
  assert.deepEqual(outcome.json.spec, created.json.spec);
});

test('the label of a namespace belongs to its creator, its finalizer to no manager', async () => {
  const body = { metadata: { name: 'labelled' } };
  const { json } = await client.send('/api/v1/namespaces?fieldManager=me', { method: 'POST', body });
  const [{ fieldsV1 }] = json.metadata.managedFields;
  assert.deepEqual(fieldsV1, { 'f:metadata': { 'f:labels': { '.': {}, 'f:kubernetes.io/metadata.name': {} } } });
});
