import type { KubeObject, Resource } from './resource.ts';

export type IncludeObject = 'None' | 'Metadata' | 'Object';

export interface TableOptions {
  readonly includeObject: IncludeObject;
  readonly noHeaders: boolean;
  readonly version: string;
  readonly metadata: object;
  readonly now: number;
}

export function tableOf(resource: Resource, objects: readonly KubeObject[], options: TableOptions): object {
  const { includeObject, noHeaders, version, metadata, now } = options;
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${version}`,
    metadata,
    columnDefinitions: noHeaders
      ? []
      : resource.columns.map(({ name, type, format = '', description, priority }) => ({ name, type, format, description, priority })),
    rows: objects.map((object) => ({
      cells: resource.columns.map((column) => column.cell(object, now)),
      ...(includeObject === 'Object' && { object }),
      ...(includeObject === 'Metadata' && {
        object: { kind: 'PartialObjectMetadata', apiVersion: `meta.k8s.io/${version}`, metadata: object.metadata },
      }),
    })),
  };
}
