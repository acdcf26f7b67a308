import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Shape } from '../../kube/schema/schema.ts';
import { ResourceTable, apiVersionOf } from '../model/resource.ts';
import { resources } from '../resources/resources.ts';
import { OpenApiDocuments, openApiV2Type } from './openapi.ts';

type Json = Readonly<Record<string, unknown>>;

const documents = new OpenApiDocuments(new ResourceTable(resources), '1.2.3');

interface Schema extends Json {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly description?: string;
}
interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Json };
  readonly 'x-kubernetes-group-version-kind'?: Json;
}

function read(name: string): Document {
  const document = documents.document(name);
  assert.ok(document, name);
  return JSON.parse(document.json) as Document;
}

function nameOf(apiVersion: string): string {
  return apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`;
}

/** What kubectl explain does: follows a path through references, lists and maps. */
function explain(document: Document, kind: string, path: string): Schema {
  const resolve = (schema: Schema): Schema => {
    if (schema.$ref !== undefined)
      return resolve(document.components.schemas[schema.$ref.replace(/^.*\//, '')] ?? assert.fail(schema.$ref));
    if (schema.items) return resolve(schema.items);
    if (schema.additionalProperties) return resolve(schema.additionalProperties);
    return schema.allOf?.[0] ? resolve(schema.allOf[0]) : schema;
  };
  const gvk = (schema: Schema): boolean =>
    ((schema['x-kubernetes-group-version-kind'] ?? []) as Json[]).some((entry) => entry['kind'] === kind);
  let schema: Schema = Object.values(document.components.schemas).find(gvk) ?? assert.fail(kind);
  for (const field of path.split('.')) schema = resolve(schema).properties?.[field] ?? assert.fail(`${kind} ${path}`);
  return schema;
}

test('the index leads to a document for each group and version, with its hash', () => {
  const { paths } = documents.index() as { paths: Readonly<Record<string, { serverRelativeURL: string }>> };
  const expected = [...new Set(resources.map((entry) => nameOf(apiVersionOf(entry))))];
  assert.deepEqual(Object.keys(paths), expected);
  for (const [name, { serverRelativeURL }] of Object.entries(paths)) {
    assert.equal(serverRelativeURL, `/openapi/v3/${name}?hash=${documents.document(name)?.hash}`);
  }
  assert.equal(documents.document('apis/example.com/v1'), undefined);
});

test('the hash is of the content: the same for the same server, another for another', () => {
  const hashOf = (version: string) =>
    new OpenApiDocuments(new ResourceTable(resources), version).document('api/v1')?.hash;
  assert.equal(hashOf('1.2.3'), documents.document('api/v1')?.hash);
  assert.notEqual(hashOf('1.2.4'), documents.document('api/v1')?.hash);
});

for (const entry of resources) {
  const { group, version, kind } = entry;
  const name = nameOf(apiVersionOf(entry));
  test(`${name} describes ${kind}`, () => {
    const document = read(name);
    const gvk = { group, version, kind };
    const schemas = Object.values(document.components.schemas);
    const own = schemas.filter((schema) =>
      ((schema['x-kubernetes-group-version-kind'] ?? []) as Json[]).some(
        (known) => JSON.stringify(known) === JSON.stringify(gvk),
      ),
    );
    assert.equal(own.length, 1);
    assert.ok(own[0]?.description);
    for (const [field, { description }] of Object.entries(own[0]?.properties ?? {})) {
      assert.ok(description, `${kind} ${field} has a text`);
    }
    const operations = Object.values(document.paths)
      .flatMap((item) => Object.entries(item))
      .filter(
        ([method, operation]) =>
          method === 'patch' && JSON.stringify(operation['x-kubernetes-group-version-kind']) === JSON.stringify(gvk),
      );
    assert.equal(operations.length, entry.verbs.includes('patch') ? 1 : 0);
    for (const [, { parameters = [], requestBody }] of operations) {
      assert.ok(parameters.some((parameter) => parameter.name === 'fieldValidation' && parameter.in === 'query'));
      assert.ok(requestBody && 'application/strategic-merge-patch+json' in requestBody.content);
    }
  });
}

test('every reference of every document leads somewhere', () => {
  for (const entry of resources) {
    const name = nameOf(apiVersionOf(entry));
    const document = read(name);
    for (const [, reference = ''] of (documents.document(name)?.json ?? '').matchAll(
      /"\$ref":"#\/components\/schemas\/([^"]+)"/g,
    )) {
      assert.ok(Object.hasOwn(document.components.schemas, reference), `${name}: ${reference}`);
    }
  }
});

test('explain finds fields of pods through lists and references, with texts', () => {
  const core = read('api/v1');
  for (const path of [
    'spec.volumes.configMap',
    'spec.volumes.configMap.items.path',
    'spec.volumes.projected.sources.serviceAccountToken.expirationSeconds',
    'spec.containers.env.valueFrom.secretKeyRef',
    'spec.containers.volumeMounts.subPath',
    'spec.containers.livenessProbe.httpGet',
    'spec.initContainers.image',
    'spec.securityContext.fsGroup',
    'spec.tolerations.effect',
    'status.containerStatuses.lastState.terminated',
    'metadata.ownerReferences.uid',
  ]) {
    assert.ok(explain(core, 'Pod', path).description, path);
  }
  assert.equal(
    explain(core, 'Pod', 'spec.containers.resources.limits').additionalProperties?.$ref,
    '#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity',
  );
});

const listCases: readonly (readonly [string, string, Json])[] = [
  ['Pod', 'spec.volumes', { type: 'map', keys: ['name'], merge: 'name', strategy: 'merge' }],
  [
    'Pod',
    'spec.containers.ports',
    { type: 'map', keys: ['containerPort', 'protocol'], merge: 'containerPort', strategy: 'merge' },
  ],
  ['Pod', 'spec.containers.volumeMounts', { type: 'map', keys: ['mountPath'], merge: 'mountPath', strategy: 'merge' }],
  ['Pod', 'spec.containers.command', { type: 'atomic' }],
  ['Pod', 'spec.tolerations', { type: 'atomic' }],
  ['Pod', 'status.conditions', { type: 'map', keys: ['type'], merge: 'type', strategy: 'merge' }],
  ['Pod', 'metadata.ownerReferences', { type: 'map', keys: ['uid'], merge: 'uid', strategy: 'merge' }],
  ['Pod', 'metadata.finalizers', { type: 'set', strategy: 'merge' }],
  ['Node', 'status.addresses', { type: 'map', keys: ['type'], merge: 'type', strategy: 'merge' }],
  ['Service', 'spec.ports', { type: 'map', keys: ['port', 'protocol'], merge: 'port', strategy: 'merge' }],
];
for (const [kind, path, expected] of listCases) {
  test(`${kind} ${path} says how it is merged`, () => {
    const schema = explain(read('api/v1'), kind, path);
    const said = {
      type: schema['x-kubernetes-list-type'],
      keys: schema['x-kubernetes-list-map-keys'],
      merge: schema['x-kubernetes-patch-merge-key'],
      strategy: schema['x-kubernetes-patch-strategy'],
    };
    assert.deepEqual(JSON.parse(JSON.stringify(said)), expected);
  });
}

/** Every shape with a text, each once however it is marked: by its fields. */
function describedShapes(): readonly Shape<unknown>[] {
  const found = new Map<unknown, Shape<unknown>>();
  const collect = (shape: Shape<unknown>): void => {
    if (shape.item !== undefined) collect(shape.item);
    if (shape.fields === undefined || found.has(shape.fields)) return;
    found.set(shape.fields, shape);
    Object.values(shape.fields).forEach(collect);
  };
  for (const { shape, subresources } of resources)
    [shape, ...subresources.flatMap(({ kind }) => kind?.shape ?? [])].forEach(collect);
  return [...found.values()].filter(({ documentation }) => documentation !== undefined);
}

test('a text is about a field that there is', () => {
  assert.ok(describedShapes().length > 70);
  for (const { documentation, fields } of describedShapes()) {
    const { name, text = '', fields: texts = {} } = documentation ?? {};
    assert.ok(text.endsWith('.') || text.endsWith('?'), text);
    const strangers = Object.keys(texts).filter((field) => !Object.hasOwn(fields ?? {}, field));
    assert.deepEqual(strangers, [], name ?? text);
  }
});

test('no two shapes share a name', () => {
  const names = describedShapes().flatMap(({ documentation }) => documentation?.name ?? []);
  assert.equal(new Set(names).size, names.length);
});

/** Numbers and contents of the fields of a message that has nothing but texts and messages in it. */
function fieldsOf(bytes: Buffer): readonly (readonly [field: number, content: Buffer])[] {
  const fields: [number, Buffer][] = [];
  for (let at = 0; at < bytes.length;) {
    const tag = bytes[at++] ?? 0;
    assert.equal(tag & 7, 2, 'a field with a length');
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0;
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    fields.push([tag >> 3, bytes.subarray(at, at + length)]);
    at += length;
  }
  return fields;
}

function below(bytes: Buffer, ...path: number[]): readonly Buffer[] {
  return path.reduce<readonly Buffer[]>(
    (all, wanted) =>
      all.flatMap((one) => fieldsOf(one).flatMap(([field, content]) => (field === wanted ? [content] : []))),
    [bytes],
  );
}

test('the document of version 2 says what patches of each kind can be asked for, and no more', () => {
  const version = 'v'.repeat(200);
  const table = new ResourceTable(resources);
  const bytes = Buffer.from(new OpenApiDocuments(table, version).version2());
  assert.deepEqual(
    below(bytes, 2).map((info) => fieldsOf(info).map(([, text]) => String(text))),
    [['mountlet', version]],
  );
  assert.deepEqual(
    fieldsOf(bytes).map(([field]) => field),
    [1, 2, 8],
  );
  const patches = below(bytes, 8, 2).map((item) => ({
    path: below(item, 1).join(''),
    parameters: below(item, 2, 8, 8, 1, 2, 3, 4).map(String),
    kind: JSON.parse(below(item, 2, 8, 13, 2, 2).join('')) as Json,
  }));
  for (const { parameters } of patches) assert.deepEqual(parameters, ['dryRun', 'fieldValidation']);
  assert.deepEqual(
    patches.find(({ path }) => path.endsWith('/deployments/{name}')),
    {
      path: '/apis/apps/v1/namespaces/{namespace}/deployments/{name}',
      parameters: ['dryRun', 'fieldValidation'],
      kind: { group: 'apps', version: 'v1', kind: 'Deployment' },
    },
  );
  assert.ok(patches.some(({ path }) => path === '/api/v1/nodes/{name}'));
  assert.ok(!openApiV2Type.includes('@'));
});
