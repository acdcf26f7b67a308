/**
 * Requests with one thing wrong, for everything a table of resources serves: from the shapes alone come an object that the
 * server accepts, every place of it, and every way to send it. A kind that is added to the table is covered with it.
 */
import assert from 'node:assert/strict';
import type { KubeObject, Resource } from '../../apiserver/model/resource.ts';
import { StatusError } from '../../apiserver/model/status.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { type FieldPath, type Shape, decode } from '../../kube/schema/schema.ts';
import type { TestApiServer } from './test-api-server.ts';
import type { TestClient, TestResponse } from './test-client.ts';

/** JSON as text: some of it no serializer would write. */
const fixedValues: readonly string[] = [
  ['null', 'true', '""', '"x"', '"NaN"', '"1"', '"-1"', '" "', '"/"', '"../.."', '"$(x)"', '"${X}"', '"1e999999"'],
  ['0', '-1', '1.5', '1e999', '1e-400', '-0', '2147483648', '9007199254740993', '-9223372036854775809', '65536'],
  ['[]', '[null]', '[[]]', '[{}]', '["",""]', '[{},{}]', '{}', '{"a":null}', '{"":""}', '{"a":{"a":[]}}'],
  ['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{}}}', '"__proto__"', '"hasOwnProperty"'],
  ['"\\u0000"', '"\\ud800"', '"\\u202e\u{1f600}"', '"\\n\\r\\t\\u001b[31m"', '"<script>&"', '"%00%2f"'],
  ['"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59Z"', '"not-a-date"', '"0"', '"in (a"', '"a,b=c"'],
].flat();
const largeValues: readonly string[] = [
  `"${'x'.repeat(20_000)}"`,
  `{"${'k'.repeat(20_000)}":"v"}`,
  `${'['.repeat(400)}${']'.repeat(400)}`,
  `${'{"a":'.repeat(400)}1${'}'.repeat(400)}`,
  `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
  `[${'{},'.repeat(2_000)}{}]`,
];
export const garbageValues: readonly string[] = [...fixedValues, ...largeValues];

const queryNames =
  'labelSelector fieldSelector limit continue resourceVersion resourceVersionMatch timeoutSeconds timeout dryRun fieldManager fieldValidation force pretty includeObject gracePeriodSeconds propagationPolicy orphanDependents sendInitialEvents allowWatchBookmarks container tailLines sinceSeconds sinceTime limitBytes timestamps previous follow stream command ports path'.split(
    ' ',
  );
const queryValues =
  '|x|0|-1|1|99999999999999999999|1e9|true|NaN|All|a%3Db|metadata.name%3Dx|a%20in%20(b|!|%00|%F0%9F%98%80|__proto__|1h|1|%22|a%2Cb|%2e%2e|null|%5B%5D|%7B'.split(
    '|',
  );
const headerNames = 'accept content-type authorization if-none-match impersonate-group range x-y'.split(' ');
const headerValues =
  'x|*/*|;q=|application/json;as=Table;v=v1;g=meta.k8s.io|application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io|application/yaml|application/vnd.kubernetes.protobuf|text/plain|bytes=0-|Bearer|Basic x|"'.split(
    '|',
  );

/** Places of a shape, with the first item of a list and one key of a map. */
export function placesOf(shape: Shape<unknown>, path: FieldPath = []): FieldPath[] {
  // A shape may contain itself.
  if (path.length > 24) return [path];
  switch (shape.type) {
    case 'list':
      return [path, ...placesOf(shape.item ?? shape, [...path, 0])];
    case 'map':
      return [path, ...placesOf(shape.item ?? shape, [...path, 'a'])];
    case 'object': {
      const inner = Object.entries(shape.fields ?? {}).flatMap(([name, field]) => placesOf(field, [...path, name]));
      return path.length === 0 ? inner : [path, ...inner];
    }
    default:
      return [path];
  }
}

type Json = { [key: string]: unknown };

/** A copy with the value at the path; what is missing on the way there is made. */
export function withValue(object: unknown, path: FieldPath, value: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  if (typeof step === 'number') {
    const items = Array.isArray(object) ? [...(object as unknown[])] : [];
    items[step] = withValue(items[step], rest, value);
    return items;
  }
  const copy: Json = typeof object === 'object' && !Array.isArray(object) ? { ...object } : {};
  copy[step] = withValue(copy[step], rest, value);
  return copy;
}

/** A schedule, of which no time comes during a test: its Jobs would appear among what is listed. */
const everyLeapDay = '0 0 29 2 *';
const texts = ['x', 'example.com/x', 'example.com', '/x', '10.0.0.1', 'x:1', 'Always', everyLeapDay, '{}'];
const numbers = [1, 80, 600, 0, 4000];

/** Something a field might take; with each try something else. */
function plausible(shape: Shape<unknown>, attempt: number): unknown {
  switch (shape.type) {
    case 'string':
      return texts[attempt % texts.length];
    case 'integer':
    case 'number':
    case 'intOrString':
      return numbers[attempt % numbers.length];
    case 'boolean':
      return attempt % 2 === 0;
    case 'quantity':
      return '1Gi';
    case 'time':
      return '2026-01-01T00:00:00Z';
    case 'microTime':
      return '2026-01-01T00:00:00.000000Z';
    case 'bytes':
      return 'eA==';
    case 'list':
      return [plausible(shape.item ?? shape, attempt)];
    case 'map':
      return { a: plausible(shape.item ?? shape, attempt) };
    case 'object': {
      const fields = Object.entries(shape.fields ?? {});
      const needed = fields.filter(([, field]) => field.required);
      // An object of choices, such as the source of a volume, takes one of them.
      const chosen = needed.length > 0 ? needed : fields.slice(attempt % fields.length, (attempt % fields.length) + 1);
      return Object.fromEntries(chosen.map(([name, field]) => [name, plausible(field, attempt)]));
    }
    case 'any':
      return {};
  }
}

function shapeAt(shape: Shape<unknown> | undefined, [step, ...rest]: FieldPath): Shape<unknown> | undefined {
  if (shape === undefined || step === undefined) return shape;
  return shapeAt(typeof step === 'number' || shape.type === 'map' ? shape.item : shape.fields?.[step], rest);
}

/** `spec.ports[0].name` and `data[tls.crt]`, as errors name fields. */
function pathOf(field: string): FieldPath {
  const steps = field.match(/\[[^\]]*\]|[^.[\]]+/g) ?? [];
  return steps.map((step) => {
    if (!step.startsWith('[')) return step;
    const inner = step.slice(1, -1);
    return /^\d+$/.test(inner) ? Number(inner) : inner;
  });
}

interface Cause {
  readonly field?: string;
  readonly message?: string;
}

/** Does what the errors ask for, as far as they say. */
function repaired(resource: Resource, object: unknown, causes: readonly Cause[], attempt: number): unknown {
  let result = object;
  for (const { field = '', message = '' } of causes) {
    const path = pathOf(field);
    const shape = shapeAt(resource.shape, path);
    if (shape === undefined || path.length === 0) continue;
    const [, first] = /supported values: "([^"]*)"/.exec(message) ?? [];
    if (message.startsWith('Forbidden')) result = withValue(result, path, undefined);
    else result = withValue(result, path, first ?? plausible(shape, attempt));
  }
  return result;
}

const attemptsMax = 24;

const spec = { accessModes: ['ReadWriteOnce'], storageClassName: 'x' };
const capacity = { storage: '1Gi' };

/** Of kinds whose errors do not lead to an object. */
const knownSeeds: Readonly<Record<string, object>> = {
  // In both of its versions.
  events: {
    involvedObject: { namespace: 'default' },
    regarding: { namespace: 'default' },
    eventTime: '2026-01-01T00:00:00.000000Z',
    reportingComponent: 'x',
    reportingController: 'x',
    reportingInstance: 'x',
    action: 'x',
    reason: 'x',
    type: 'Normal',
  },
  persistentvolumeclaims: { spec: { ...spec, resources: { requests: capacity } } },
  persistentvolumes: { spec: { ...spec, capacity, hostPath: { path: '/x' } } },
};

interface Creator {
  send(
    path: string,
    request: { readonly method: string; readonly body: string; readonly headers: Readonly<Record<string, string>> },
  ): Promise<Pick<TestResponse, 'status' | 'json'>>;
}

/** An object that the server takes; undefined where its errors do not lead to one. */
export async function accepted(client: Creator, resource: Resource): Promise<Json | undefined> {
  const head = { apiVersion: apiVersionOf(resource), kind: resource.kind };
  const name = `seed-${resource.plural}`;
  let object: unknown = knownSeeds[resource.plural] ?? plausible(resource.shape, 0);
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    object = { ...(object as object), ...head, metadata: { ...((object as Json)['metadata'] as object), name } };
    const answer = await client.send(collectionOf(resource), { method: 'POST', body: JSON.stringify(object), headers });
    if (answer.status === 201) return object as Json;
    object = repaired(resource, object, answer.json.details?.causes ?? [], attempt);
  }
  return undefined;
}

const headers = { 'content-type': 'application/json' };

export function collectionOf({ group, version, plural, namespaced }: Resource): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespaced ? `${root}/namespaces/default/${plural}` : `${root}/${plural}`;
}

interface GarbageRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Numbers that choose; each is taken modulo what there is. */
export type Choice = readonly [resource: number, place: number, value: number, way: number];

const mark = '\u0001garbage';

export class Garbage {
  readonly #client: TestClient;
  readonly #server: TestApiServer;
  readonly #resources: readonly Resource[];
  readonly #places: ReadonlyMap<Resource, readonly FieldPath[]>;
  readonly #seeds = new Map<Resource, Json>();

  constructor(client: TestClient, server: TestApiServer, resources: readonly Resource[]) {
    this.#client = client;
    this.#server = server;
    this.#resources = resources;
    this.#places = new Map(resources.map((resource) => [resource, placesOf(resource.shape)]));
  }

  /** Kinds without an object that was accepted; the ways that need one meet a 404 there. */
  async prepare(): Promise<readonly string[]> {
    for (const resource of this.#resources) {
      if (!resource.isStored || !resource.verbs.includes('create')) continue;
      const object = await accepted(this.#client, resource);
      if (object !== undefined) this.#seeds.set(resource, object);
    }
    return this.#resources
      .filter((one) => one.isStored && one.verbs.includes('create') && !this.#seeds.has(one))
      .map(({ plural }) => plural);
  }

  /** How many choices of places and values there are for a resource. */
  get size(): number {
    return [...this.#places.values()].reduce((sum, places) => sum + places.length, 0) * garbageValues.length;
  }

  requestOf([resourceChoice, placeChoice, valueChoice, way]: Choice): GarbageRequest {
    const resource = pick(this.#resources, resourceChoice);
    const place = pick(this.#places.get(resource) ?? [[]], placeChoice);
    return requestFor(resource, this.#seeds.get(resource), { place, value: pick(garbageValues, valueChoice), way });
  }

  /** Sends it and judges the answer: never a 5xx, never nothing, and what is accepted is of its shape. */
  async send(choice: Choice): Promise<void> {
    const { path, ...request } = this.requestOf(choice);
    const answer = await answered(this.#client.send(path, request), path);
    const what = `${request.method} ${path} ${(request.body ?? '').slice(0, 400)}: ${answer.text.slice(0, 400)}`;
    assert.ok(answer.status >= 200 && (answer.status < 500 || isAllowed(answer.status, path)), what);
    assert.deepEqual(this.failures(), [], what);
    if (answer.status >= 300) return;
    const resource = pick(this.#resources, choice[0]);
    if (/json/.test(String(answer.headers['content-type'])) && answer.json.kind === resource.kind) {
      assertReadable(resource, answer.json, what);
    }
  }

  failures(): readonly unknown[] {
    return this.#server.notices.filter(
      // What a controller is refused is about the one object that is wrong.
      (notice) =>
        notice.kind !== 'RequestServed' &&
        !(notice.kind === 'ControllerFailed' && notice.error instanceof StatusError && notice.error.code < 500),
    );
  }

  /** Everything that was accepted can be listed in every form, by clients that are strict about types. */
  async assertListable(): Promise<void> {
    for (const resource of this.#resources) {
      if (!resource.isStored || !resource.verbs.includes('list')) continue;
      const path = collectionOf(resource).replace('/namespaces/default', '');
      const list = await answered(this.#client.send(path), path);
      assert.equal(list.status, 200, `${path}: ${list.text.slice(0, 400)}`);
      for (const item of list.json.items as readonly KubeObject[]) assertReadable(resource, item, path);
      // Controllers may write meanwhile.
      const same = `includeObject=Object&resourceVersionMatch=Exact&resourceVersion=${list.json.metadata.resourceVersion}`;
      for (const as of ['Table', 'PartialObjectMetadataList']) {
        const accept = `application/json;as=${as};v=v1;g=meta.k8s.io`;
        const shown = await answered(this.#client.send(`${path}?${same}`, { headers: { accept } }), path);
        assert.equal(shown.status, 200, `${path}: ${shown.text.slice(0, 400)}`);
        assert.equal((shown.json.rows ?? shown.json.items).length, list.json.items.length, path);
      }
      const watch = await this.#client.watch(`${path}?watch=true`);
      for (const _ of list.json.items) assert.equal((await watch.next()).type, 'ADDED', path);
      watch.close();
    }
    assert.equal((await this.#client.send('/readyz')).text, 'ok');
    assert.equal(({} as Json)['polluted'], undefined);
  }
}

/** The API's own answers to a version that has not come yet, to the usage of nodes that do not exist, and for Services without pods. */
function isAllowed(status: number, path: string): boolean {
  const needsOthers = path.startsWith('/apis/metrics.k8s.io/') || /\/services\/[^/]+\/proxy\b/.test(path);
  return status === 504 || (status === 503 && needsOthers);
}

const patienceMs = 120_000;

/** Also a server that hangs must fail the test. */
async function answered(sent: Promise<TestResponse>, path: string): Promise<TestResponse> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${path} was never answered`)), patienceMs);
  });
  try {
    return await Promise.race([sent, late]);
  } finally {
    clearTimeout(timer);
  }
}

function assertReadable(resource: Resource, object: unknown, what: string): void {
  const problems = decode(resource.shape, object).problems.filter(({ path }) => path[0] !== 'items');
  assert.deepEqual(problems, [], what);
}

function pick<T>(list: readonly T[], choice: number): T {
  const one = list[choice % list.length];
  assert.ok(one !== undefined, 'there is nothing to choose from');
  return one;
}

interface Flaw {
  readonly place: FieldPath;
  readonly value: string;
  readonly way: number;
}

function requestFor(resource: Resource, seed: Json | undefined, flaw: Flaw): GarbageRequest {
  const ways = waysOf(resource, seed);
  return pick(ways, flaw.way)(flaw);
}

type Way = (flaw: Flaw) => GarbageRequest;

function waysOf(resource: Resource, seed: Json | undefined): readonly Way[] {
  const collection = collectionOf(resource);
  const head = { apiVersion: apiVersionOf(resource), kind: resource.kind };
  const item = `${collection}/seed-${resource.plural}`;
  const base: Json = seed ?? { ...head, metadata: { name: 'x' } };
  const whole = ({ place, value }: Flaw, object: unknown = base): string =>
    // A function, as the value may have signs that mean something in a replacement.
    JSON.stringify(withValue(object, place, mark)).replace(JSON.stringify(mark), () => value);
  const part = (flaw: Flaw): string => whole(flaw, {});
  const named = (flaw: Flaw): string => whole(flaw, { ...head, metadata: { name: `seed-${resource.plural}` } });
  const pointer = (path: FieldPath): string =>
    path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  const patch = (path: string, type: string, body: string): GarbageRequest => ({
    method: 'PATCH',
    path,
    headers: { 'content-type': `application/${type}` },
    body,
  });
  const fresh = (object: Json): Json => ({ ...object, metadata: { generateName: 'g-' } });
  const bodies: Way[] = [
    (flaw) => ({ method: 'POST', path: collection, headers, body: whole(flaw, fresh(base)) }),
    (flaw) => ({ method: 'POST', path: collection, headers, body: whole(flaw) }),
    (flaw) => ({ method: 'PUT', path: item, headers, body: whole(flaw) }),
    (flaw) => patch(item, 'merge-patch+json', part(flaw)),
    (flaw) => patch(item, 'strategic-merge-patch+json', part(flaw)),
    (flaw) => patch(`${item}?fieldManager=g&force=true`, 'apply-patch+yaml', named(flaw)),
    ({ place: [top = 'spec', ...rest], value }) => {
      const inside = whole({ place: rest, value, way: 0 }, base[top] ?? {});
      return patch(
        item,
        'json-patch+json',
        `[{"op":"add","path":${JSON.stringify(pointer([top]))},"value":${inside}}]`,
      );
    },
    ({ place, value }) =>
      patch(item, 'json-patch+json', `[{"op":"replace","path":${JSON.stringify(pointer(place))},"value":${value}}]`),
    ({ value }) => patch(item, 'json-patch+json', value),
    ({ value }) => patch(item, 'strategic-merge-patch+json', `{"metadata":{"$patch":${value},"labels":${value}}}`),
    ({ value }) => ({ method: 'POST', path: collection, headers, body: value }),
  ];
  const parts: Way[] = resource.subresources.flatMap(({ name, kind }): Way[] => {
    const path = `${item}/${name}`;
    const own = (flaw: Flaw): string => (kind === undefined ? whole(flaw) : flaw.value);
    return [
      (flaw) => ({ method: 'PUT', path, headers, body: own(flaw) }),
      (flaw) => ({ method: 'POST', path, headers, body: own(flaw) }),
      (flaw) => patch(path, 'merge-patch+json', part(flaw)),
      (flaw) => patch(`${path}?fieldManager=g&force=true`, 'apply-patch+yaml', named(flaw)),
      ({ way }) => ({ method: 'GET', path: `${path}?${queryOf(way)}` }),
    ];
  });
  const asked: Way[] = [
    ({ way }) => ({ method: 'GET', path: `${collection}?${queryOf(way)}` }),
    ({ way }) => ({ method: 'GET', path: `${item}?${queryOf(way)}` }),
    ({ way }) => ({
      method: 'POST',
      path: `${collection}?${queryOf(way)}`,
      headers,
      body: JSON.stringify(fresh(base)),
    }),
    ({ way }) => ({ method: 'PUT', path: `${item}?${queryOf(way)}`, headers, body: JSON.stringify(base) }),
    ({ way }) => ({ method: 'DELETE', path: `${collection}/none?${queryOf(way)}`, headers, body: '{}' }),
    ({ value }) => ({ method: 'DELETE', path: `${collection}/none`, headers, body: value }),
    ({ way }) => ({ method: 'GET', path: collection, headers: headerOf(way) }),
    ({ way }) => ({ method: 'POST', path: collection, headers: headerOf(way), body: JSON.stringify(fresh(base)) }),
    ({ value }) => ({ method: 'GET', path: `${collection}/${encodeURIComponent(value.slice(0, 3_000))}` }),
    ({ value }) => ({ method: 'DELETE', path: `${collection}/${encodeURIComponent(value.slice(0, 3_000))}` }),
  ];
  return [...bodies, ...bodies, ...parts, ...asked];
}

/** Two parameters: some are only looked at along with another. */
function queryOf(way: number): string {
  const [a, b, c, d] = [way, way >> 5, way >> 10, way >> 15];
  return `${pick(queryNames, a)}=${pick(queryValues, b)}&${pick(queryNames, c)}=${pick(queryValues, d)}`;
}

function headerOf(way: number): Readonly<Record<string, string>> {
  return { ...headers, [pick(headerNames, way)]: pick(headerValues, way >> 5) };
}
