/**
 * What the server serves, as clients ask for it: in the old form, a document for each group and version, or aggregated, all in
 * one. Both are made once from the table of resources.
 */
import { createHash } from 'node:crypto';
import type { Resource, ResourceTable, Subresource } from '../model/resource.ts';

export interface Document {
  readonly body: string;
  readonly etag: string;
}

export interface Discovery {
  /** By path: /api, /apis, /apis/<group>, /api/v1, /apis/<group>/<version>. */
  readonly documents: ReadonlyMap<string, Document>;
  /** By path and version of the aggregated form: `/apis v2`. */
  readonly aggregated: ReadonlyMap<string, Document>;
}

interface GroupVersions {
  readonly group: string;
  readonly versions: readonly { readonly version: string; readonly resources: readonly Resource[] }[];
}

export function buildDiscovery(table: ResourceTable): Discovery {
  const groups = groupsOf(table);
  const named = groups.filter(({ group }) => group !== '');
  const documents = new Map<string, Document>();
  const core = groups.filter(({ group }) => group === '');
  documents.set(
    '/api',
    documentOf({
      kind: 'APIVersions',
      versions: core.flatMap(({ versions }) => versions.map(({ version }) => version)),
      serverAddressByClientCIDRs: [],
    }),
  );
  documents.set('/apis', documentOf({ kind: 'APIGroupList', apiVersion: 'v1', groups: named.map(groupOf) }));
  for (const group of named) {
    documents.set(`/apis/${group.group}`, documentOf({ kind: 'APIGroup', apiVersion: 'v1', ...groupOf(group) }));
  }
  for (const { group, versions } of groups) {
    for (const { version, resources } of versions) {
      const groupVersion = group === '' ? version : `${group}/${version}`;
      const path = group === '' ? `/api/${version}` : `/apis/${groupVersion}`;
      documents.set(
        path,
        documentOf({
          kind: 'APIResourceList',
          ...(group !== '' && { apiVersion: 'v1' }),
          groupVersion,
          resources: resources.flatMap(entriesOf),
        }),
      );
    }
  }
  const aggregated = new Map<string, Document>();
  for (const version of ['v2', 'v2beta1']) {
    aggregated.set(`/api ${version}`, documentOf(aggregate(core, version)));
    aggregated.set(`/apis ${version}`, documentOf(aggregate(named, version)));
  }
  return { documents, aggregated };
}

function groupsOf(table: ResourceTable): GroupVersions[] {
  const groups = new Map<string, Map<string, Resource[]>>();
  for (const resource of table.all) {
    const versions = groups.get(resource.group) ?? new Map<string, Resource[]>();
    groups.set(resource.group, versions);
    versions.set(resource.version, [...(versions.get(resource.version) ?? []), resource]);
  }
  return [...groups].map(([group, versions]) => ({
    group,
    versions: [...versions].map(([version, resources]) => ({ version, resources })),
  }));
}

function groupOf({ group, versions }: GroupVersions): object {
  const list = versions.map(({ version }) => ({ groupVersion: `${group}/${version}`, version }));
  return { name: group, versions: list, preferredVersion: list[0] };
}

function entriesOf(resource: Resource): object[] {
  const { plural, singular, namespaced, kind, verbs, shortNames, categories } = resource;
  const own = {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs,
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
  };
  return [own, ...resource.subresources.map((subresource) => subresourceEntry(resource, subresource))];
}

function subresourceEntry({ plural, namespaced, kind }: Resource, subresource: Subresource): object {
  const other = subresource.kind;
  return {
    name: `${plural}/${subresource.name}`,
    singularName: '',
    namespaced,
    ...(other !== undefined && other.group !== '' && { group: other.group, version: other.version }),
    kind: other?.kind ?? kind,
    verbs: subresource.verbs,
  };
}

function aggregate(groups: readonly GroupVersions[], version: string): object {
  return {
    kind: 'APIGroupDiscoveryList',
    apiVersion: `apidiscovery.k8s.io/${version}`,
    metadata: {},
    items: groups.map(({ group, versions }) => ({
      metadata: group === '' ? {} : { name: group },
      versions: versions.map(({ version: name, resources }) => ({
        version: name,
        resources: resources.map(aggregatedResource),
        freshness: 'Current',
      })),
    })),
  };
}

function aggregatedResource(resource: Resource): object {
  const { group, version, plural, singular, kind, namespaced, verbs, shortNames, categories, subresources } = resource;
  return {
    resource: plural,
    responseKind: { group, version, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singular,
    verbs,
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
    ...(subresources.length > 0 && {
      subresources: subresources.map((subresource) => ({
        subresource: subresource.name,
        responseKind: {
          group: subresource.kind?.group ?? group,
          version: subresource.kind?.version ?? version,
          kind: subresource.kind?.kind ?? kind,
        },
        verbs: subresource.verbs,
      })),
    }),
  };
}

function documentOf(value: object): Document {
  const body = JSON.stringify(value);
  return { body, etag: `"${createHash('sha256').update(body).digest('hex').slice(0, 32).toUpperCase()}"` };
}
