/**
 * Objects as clients ask for them when they do not want the objects: as rows of a table, or as metadata alone. Works on single
 * objects and on lists; which columns there are is said by the resource.
 */
import type { ListMeta } from '../../kube/schema/meta.ts';
import type { Column, KubeObject, Resource, RowCondition } from '../model/resource.ts';

interface TableRow {
  readonly cells: readonly (string | number | boolean)[];
  readonly conditions?: readonly RowCondition[];
  readonly object?: KubeObject;
}

interface Table {
  readonly kind: 'Table';
  readonly apiVersion: string;
  readonly metadata: ListMeta;
  readonly columnDefinitions: readonly Omit<Column, 'cell'>[];
  readonly rows: readonly TableRow[];
}

export interface TableOptions {
  /** `v1` or `v1beta1` of meta.k8s.io, as the client asked. */
  readonly version: string;
  /** What a row carries besides its cells. */
  readonly includeObject: 'None' | 'Metadata' | 'Object';
  /** Not again in each event of a watch. */
  readonly withColumns: boolean;
  readonly now: number;
}

/** `metadata` is the list's, or of a single object what a list would say: its resourceVersion. */
export function tableOf(
  resource: Resource,
  objects: readonly KubeObject[],
  metadata: ListMeta,
  options: TableOptions,
): Table {
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${options.version}`,
    metadata,
    columnDefinitions: options.withColumns ? resource.columns.map(definitionOf) : [],
    rows: objects.map((object) => rowOf(resource, object, options)),
  };
}

export function partialObjectMetadata({ metadata }: KubeObject, version: string): KubeObject {
  return { kind: 'PartialObjectMetadata', apiVersion: `meta.k8s.io/${version}`, metadata };
}

function definitionOf({ name, type, format = '', description, priority }: Column): Omit<Column, 'cell'> {
  return { name, type, format, description, priority };
}

function rowOf(resource: Resource, object: KubeObject, { includeObject, version, now }: TableOptions): TableRow {
  const conditions = resource.rowConditions?.(object) ?? [];
  return {
    cells: resource.columns.map((column) => column.cell(object, now)),
    ...(conditions.length > 0 && { conditions }),
    ...(includeObject === 'Metadata' && { object: partialObjectMetadata(object, version) }),
    ...(includeObject === 'Object' && { object }),
  };
}
