/** `mountlet get`: what an API server has, as the server itself puts it into a table, or as JSON, YAML or names. */
import type { ApiClient } from '../client/api/api-client.ts';
import { collectionPath, objectPath } from '../client/api/resource-reference.ts';
import type { DiscoveredResource } from '../client/discovery.ts';
import { type PodStatus, idleCondition } from '../kube/kinds/pod/pod-status.ts';
import { type ClusterOptions, clusterClient, discover } from './cluster-client.ts';
import { showJson, showYaml } from './rendered-list.ts';
import { showTable, reportingErrors } from './terminal.ts';

export interface GetOptions extends ClusterOptions {
  readonly namespace?: string | undefined;
  readonly allNamespaces?: boolean;
  readonly selector?: string;
  readonly output?: 'wide' | 'json' | 'yaml' | 'name';
  /** Of the node, for volumes alone. */
  readonly rootDir?: string;
}

interface Table {
  readonly columnDefinitions: readonly { readonly name: string; readonly priority: number }[];
  readonly rows: readonly {
    readonly cells: readonly (string | number | boolean | null)[];
    readonly object: ListedObject;
  }[];
}

interface ListedObject {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly status?: Pick<PodStatus, 'conditions'>;
}

const tableType = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

export function getCommand(type: string, names: readonly string[], options: GetOptions): Promise<number> {
  return reportingErrors(async () => {
    const { signal } = new AbortController();
    const { client, namespace: ofContext } = await clusterClient(options);
    try {
      const resource = (await discover(client, signal)).named(type);
      const namespace = options.allNamespaces === true ? undefined : (options.namespace ?? ofContext);
      const paths =
        names.length === 0
          ? [collectionPath(resource, { namespace })]
          : names.map((name) => objectPath(resource, { name, namespace }));
      switch (options.output) {
        case 'json':
        case 'yaml':
          return await printObjects(client, paths, options, signal);
        case 'wide':
        case 'name':
        case undefined:
          return await printTable(client, resource, paths, { ...options, namespace }, signal);
      }
    } finally {
      await client.close();
    }
  });
}

interface Printed {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: { readonly managedFields?: unknown };
}

interface Answered extends Printed {
  readonly items?: readonly Printed[];
}

/** As kubectl prints them: who owns which field is left out, and an item of a list says what it is. */
function objectsOf({ items, ...object }: Answered): readonly object[] {
  const { apiVersion, kind } = object;
  const objects = items?.map((item) => ({ apiVersion, kind: kind?.replace(/List$/, ''), ...item })) ?? [object];
  return objects.map((one) => ({ ...one, metadata: { ...one.metadata, managedFields: undefined } }));
}

async function printObjects(
  client: ApiClient,
  paths: readonly string[],
  { output, selector }: GetOptions,
  signal: AbortSignal,
): Promise<void> {
  const read = (path: string): Promise<unknown> => client.read(path, { labelSelector: selector }, signal);
  const answers = (await Promise.all(paths.map(read))) as readonly Answered[];
  const items = answers.flatMap(objectsOf);
  const [only] = answers.length === 1 && answers[0]?.items === undefined ? items : [];
  const shown = only ?? { apiVersion: 'v1', kind: 'List', metadata: {}, items };
  process.stdout.write(output === 'json' ? `${showJson(shown)}\n` : showYaml(shown));
}

async function printTable(
  client: ApiClient,
  resource: DiscoveredResource,
  paths: readonly string[],
  { output, selector, allNamespaces, namespace }: GetOptions,
  signal: AbortSignal,
): Promise<void> {
  const includeObject = resource.plural === 'pods' && resource.group === '' ? 'Object' : undefined;
  const query = { accept: tableType, labelSelector: selector, includeObject } as const;
  const tables = (await Promise.all(paths.map((path) => client.read(path, query, signal)))) as unknown as Table[];
  const rows = tables.flatMap((table) => table.rows);
  if (output === 'name') {
    for (const { object } of rows) process.stdout.write(`${resource.singular}/${object.metadata.name}\n`);
    return;
  }
  if (rows.length === 0) {
    const where = namespace === undefined || !resource.isNamespaced ? '' : ` in namespace ${namespace}`;
    process.stderr.write(`No ${resource.plural} found${where}.\n`);
    return;
  }
  const columns = (tables[0]?.columnDefinitions ?? []).map(({ name, priority }, index) => ({ name, priority, index }));
  const shown = columns.filter(({ name, priority }) => (priority === 0 || output === 'wide') && name !== 'Idle');
  // Pods of which nothing is to be expected are not to be taken for working ones, whoever makes the table.
  const withIdle = rows.some(({ object }) => isIdle(object));
  const withNamespace = allNamespaces === true && resource.isNamespaced;
  process.stdout.write(
    showTable([
      [
        ...(withNamespace ? ['NAMESPACE'] : []),
        ...shown.map(({ name }) => name.toUpperCase()),
        ...(withIdle ? ['IDLE'] : []),
      ],
      ...rows.map(({ cells, object }) => [
        ...(withNamespace ? [object.metadata.namespace ?? ''] : []),
        ...shown.map(({ index }) => String(cells[index] ?? '')),
        ...(withIdle ? [isIdle(object) ? 'Idle' : '<none>'] : []),
      ]),
    ]),
  );
}

function isIdle({ status }: ListedObject): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === idleCondition && is === 'True') ?? false;
}
