/** `mountlet get`: what an API server has, as the server itself puts it into a table, or as JSON, YAML or names. */
import { applyManifests } from '../agent/embedded/apply-manifests.ts';
import { readSources } from '../agent/machine/manifests-folder-reader.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { collectionPath, objectPath } from '../client/api/resource-reference.ts';
import { type DiscoveredResource, DiscoveredResources } from '../client/discovery.ts';
import { type PodStatus, idleCondition } from '../kube/kinds/pod/pod-status.ts';
import { type ClusterOptions, clusterClient } from './cluster-client.ts';
import { showJson, showYaml } from './rendered-list.ts';
import { openStandardInput, showTable, reportingErrors } from './terminal.ts';

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
      const resource = (await DiscoveredResources.ask(client, signal)).named(type);
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

async function printObjects(
  client: ApiClient,
  paths: readonly string[],
  { output, selector }: GetOptions,
  signal: AbortSignal,
): Promise<void> {
  const answers = await Promise.all(paths.map((path) => client.read(path, { labelSelector: selector }, signal)));
  const [only] = answers;
  const shown =
    answers.length === 1 && only !== undefined
      ? only
      : { apiVersion: 'v1', kind: 'List', metadata: {}, items: answers };
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

/** `mountlet apply`: manifests to the API server, for machines without kubectl. */
export interface ApplyOptions extends ClusterOptions {
  readonly filename: readonly string[];
  readonly namespace?: string;
}

export function applyCommand(options: ApplyOptions): Promise<number> {
  return reportingErrors(async () => {
    const { signal } = new AbortController();
    const files = await readSources(options.filename, () => openStandardInput(signal));
    const { client, namespace } = await clusterClient(options);
    try {
      const kinds = await DiscoveredResources.ask(client, signal);
      for await (const applied of applyManifests(files, options.namespace ?? namespace, client, kinds, signal)) {
        process.stdout.write(`${applied.name} ${applied.outcome}\n`);
      }
    } finally {
      await client.close();
    }
  });
}
