/**
 * The OpenAPI documents: an index, one document for each group and version made from the table of resources, and the small
 * document of version 2 that old clients insist on. Documents are made when first asked for and kept; their hash is in their
 * address, so that clients keep them too.
 */
import { createHash } from 'node:crypto';
import { deleteOptions, listMeta, status } from '../../kube/schema/meta.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import type { ExchangedKind, GroupVersion, Resource, ResourceTable } from '../model/resource.ts';
import { pathsOf } from './openapi-paths.ts';
import { type Json, SchemaWriter } from './openapi-schema.ts';

interface OpenApiDocument {
  readonly json: string;
  readonly hash: string;
}

/** The version of OpenAPI that the documents are written in. */
const openApiVersion = '3.0.0';
const title = 'mountlet';

export class OpenApiDocuments {
  readonly #table: ResourceTable;
  readonly #version: string;
  readonly #made = new Map<string, OpenApiDocument>();
  #version2: Uint8Array | undefined;

  /** `version` is the server's own. */
  constructor(table: ResourceTable, version: string) {
    this.#table = table;
    this.#version = version;
  }

  /** `/openapi/v2` */
  version2(): Uint8Array {
    this.#version2 ??= openApiV2(this.#version, [...this.#table.groupVersions().values()].flat());
    return this.#version2;
  }

  /** `/openapi/v3` */
  index(): Json {
    const names = [...this.#table.groupVersions().keys()].map(pathOf);
    const entries = names.map((name) => {
      const hash = this.document(name)?.hash ?? '';
      return [name, { serverRelativeURL: `/openapi/v3/${name}?hash=${hash}` }] as const;
    });
    return { paths: Object.fromEntries(entries) };
  }

  /** `/openapi/v3/<name>`; the name is `api/v1` or `apis/<group>/<version>`. */
  document(name: string): OpenApiDocument | undefined {
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const found = [...this.#table.groupVersions()].find(([groupVersion]) => pathOf(groupVersion) === name);
    if (found === undefined) return undefined;
    const json = JSON.stringify(documentOf(found[1], this.#version));
    const document = { json, hash: createHash('sha256').update(json).digest('hex').slice(0, 32).toUpperCase() };
    this.#made.set(name, document);
    return document;
  }
}

/** What `Content-Type` says of version 2. With an `@`, as in what clients ask for, Go clients would refuse it. */
export const openApiV2Type = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';

/**
 * `/openapi/v2` as protobuf: a document without definitions, from which old clients conclude that they cannot check anything
 * themselves, and with what patches of each kind can be asked for: without it kubectl before 1.27 refuses to try (`diff`,
 * `--dry-run=server`). Fields: 1 the version of OpenAPI, 2 info with 1 title and 2 version, 8 paths.
 */
function openApiV2(version: string, resources: readonly Resource[]): Uint8Array {
  const info = Buffer.concat([textField(1, title), textField(2, version)]);
  const paths = resources.filter(({ verbs }) => verbs.includes('patch')).map((one) => bytesField(2, patchPath(one)));
  return Buffer.concat([textField(1, '2.0'), bytesField(2, info), bytesField(8, Buffer.concat(paths))]);
}

/** 1 the path, 2 what is there: 8 its patch with 8 parameters and 13 the kind. */
function patchPath(resource: Resource): Buffer {
  const scope = resource.namespaced ? 'namespaces/{namespace}/' : '';
  const path = `/${pathOf(apiVersionOf(resource))}/${scope}${resource.plural}/{name}`;
  const inQuery = (name: string): Buffer =>
    [3, 2, 1, 8].reduce((inner, field) => bytesField(field, inner), textField(4, name));
  const kind = textField(2, JSON.stringify(gvkOf(resource, resource.kind)));
  const extension = Buffer.concat([textField(1, 'x-kubernetes-group-version-kind'), bytesField(2, kind)]);
  const patch = Buffer.concat([inQuery('dryRun'), inQuery('fieldValidation'), bytesField(13, extension)]);
  return Buffer.concat([textField(1, path), bytesField(2, bytesField(8, patch))]);
}

function pathOf(apiVersion: string): string {
  return apiVersion.includes('/') ? `apis/${apiVersion}` : `api/${apiVersion}`;
}

function documentOf(resources: readonly Resource[], version: string): Json {
  const writer = new SchemaWriter();
  const deleteOptionsName = nameIn(writer.reference(deleteOptions));
  const statusName = nameIn(writer.reference(status));
  const paths: Record<string, unknown> = {};
  for (const resource of resources) {
    const object = componentName(resource);
    const names = { object, list: `${object}List`, deleteOptions: deleteOptionsName, status: statusName };
    addKind(writer, resource);
    if (resource.verbs.includes('list')) addList(writer, resource);
    for (const { kind } of resource.subresources) if (kind?.shape !== undefined) addKind(writer, kind);
    Object.assign(paths, pathsOf(resource, names));
  }
  const schemas = [...writer.components].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return {
    openapi: openApiVersion,
    info: { title, version },
    paths,
    components: { schemas: Object.fromEntries(schemas) },
  };
}

function addKind(writer: SchemaWriter, kind: Resource | ExchangedKind): void {
  if (kind.shape === undefined) return;
  const schema = { ...writer.whole(kind.shape), 'x-kubernetes-group-version-kind': [gvkOf(kind, kind.kind)] };
  writer.components.set(componentName(kind), schema);
}

function addList(writer: SchemaWriter, resource: Resource): void {
  const item = { $ref: `#/components/schemas/${componentName(resource)}` };
  writer.components.set(`${componentName(resource)}List`, {
    type: 'object',
    description: `Objects of the kind ${resource.kind}.`,
    properties: {
      apiVersion: { type: 'string', description: 'The version of the API that the list is written in.' },
      items: { type: 'array', items: item, description: 'The objects.' },
      kind: { type: 'string', description: 'The kind of the list.' },
      metadata: { allOf: [writer.reference(listMeta)], description: 'What every list has.' },
    },
    required: ['items'],
    'x-kubernetes-group-version-kind': [gvkOf(resource, `${resource.kind}List`)],
  });
}

function gvkOf({ group, version }: GroupVersion, kind: string): Json {
  return { group, version, kind };
}

/** As other servers name their kinds: `io.k8s.api.core.v1.Pod`; a group that is not of Kubernetes is written backwards. */
function componentName({ group, version, kind }: Resource | ExchangedKind): string {
  const name = group === '' ? 'core' : group;
  const isForeign = name.includes('.') && !name.endsWith('.k8s.io');
  const base = isForeign ? name.split('.').toReversed().join('.') : `io.k8s.api.${name.replace(/\..*$/, '')}`;
  return `${base}.${version}.${kind}`;
}

function nameIn(schema: Json): string {
  return String(schema['$ref']).replace(/^.*\//, '');
}

function textField(field: number, text: string): Buffer {
  return bytesField(field, Buffer.from(text));
}

/** A field with a length: its number and wire type 2 in one byte, the length as a varint, the bytes. */
function bytesField(field: number, bytes: Buffer): Buffer {
  const length: number[] = [];
  let rest = bytes.length;
  do {
    length.push((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    rest >>= 7;
  } while (rest > 0);
  return Buffer.concat([Buffer.from([(field << 3) | 2, ...length]), bytes]);
}
