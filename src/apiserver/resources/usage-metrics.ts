/** What nodes and pods use. Nothing of it is stored: `rest/usage-metrics.ts` asks the nodes. */
import { type NodeMetrics, type PodMetrics, nodeMetricsKind, podMetricsKind } from '../../kube/kinds/usage-metrics.ts';
import type { ResourceKind } from '../../kube/schema/kind.ts';
import { Quantity, type ResourceList } from '../../kube/values/quantity.ts';
import { nameColumn, text } from '../model/columns.ts';
import { type Resource, resource } from '../model/resource.ts';

function metrics<T extends NodeMetrics | PodMetrics>(
  kind: ResourceKind<T>,
  usagesOf: (object: T) => readonly ResourceList[],
): Resource<T> {
  const sum = (object: T, name: string): string =>
    String(usagesOf(object).reduce((total, usage) => total.plus(Quantity.parse(usage[name] ?? 0)), Quantity.zero()));
  return resource<T>(kind, {
    verbs: ['get', 'list'],
    isStored: false,
    columns: [
      nameColumn,
      text<T>('cpu', 'Processors in use.', (object) => sum(object, 'cpu')),
      text<T>('memory', 'Memory in use that cannot be dropped.', (object) => sum(object, 'memory')),
      text<T>('Window', 'The time over which the use of processors is the mean.', ({ window }) => window),
    ],
  });
}

export const nodeMetrics = metrics(nodeMetricsKind, ({ usage }) => [usage]);
export const podMetrics = metrics(podMetricsKind, ({ containers }) => containers.map(({ usage }) => usage));
