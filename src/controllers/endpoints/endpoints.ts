/**
 * Keeps the Endpoints of Services that select pods, for those who read no slices. Those that somebody wrote, for a Service
 * without a selector, go with the Service.
 */
import type { Endpoints } from '../../kube/kinds/endpoints.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import {
  type Cluster,
  type ControllerDeps,
  deleteSame,
  kindNamed,
  refusalCauses,
  updateSame,
} from '../cluster/cluster.ts';
import type { ObjectTable, WorkloadView } from '../workloads/object-table.ts';
import { endpointSubsets, hasClusterAddress, selects } from './endpoint-plan.ts';
import { headlessLabel } from './endpoint-slices.ts';
import { ServiceQueue } from './service-queue.ts';

const managerLabel = 'endpoints.kubernetes.io/managed-by';
const manager = 'endpoint-controller';
const truncatedAnnotation = 'endpoints.kubernetes.io/over-capacity';

export async function runEndpoints(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('endpoints-controller', signal);
  const services = view.table<Service>(kindNamed(cluster, 'v1', 'Service'));
  const pods = view.table<Pod>(kindNamed(cluster, 'v1', 'Pod'));
  const table = view.table<Endpoints>(kindNamed(cluster, 'v1', 'Endpoints'));
  const queue = new ServiceQueue('endpoints-controller', deps, services);
  /** Services that went while this loop ran: with them goes what was written by hand. */
  const gone = new Set<string>();
  services.follow((key, now) => void (now === undefined ? gone.add(key) : gone.delete(key)));
  queue.followPods(pods);
  table.follow((_, now, before) => {
    const { namespace = '', name = '' } = (now ?? before)?.metadata ?? {};
    queue.touchNamed(namespace, name);
  });
  await queue.run(async (key) => {
    const service = services.get(key);
    const { namespace, name } = cluster.placeOf(key);
    const current = table.get(table.keyAt(namespace, name));
    if (service === undefined) {
      const isOurs = gone.delete(key) || current?.metadata.labels?.[managerLabel] === manager;
      if (current === undefined || !isOurs) return;
      await deleteSame(cluster, table.keyOf(current), current);
      table.deleted(current);
    } else if (selects(service) && service.metadata.deletionTimestamp === undefined) {
      await keep(cluster, table, current, wantedFor(service, pods.inNamespace(namespace)));
    }
  }, signal);
}

function wantedFor(service: Service, pods: readonly Pod[]): Endpoints {
  const { name, namespace, labels: { [headlessLabel]: _, ...own } = {} } = service.metadata;
  const { subsets, isTruncated } = endpointSubsets(service, pods);
  const labels = { ...own, ...(!hasClusterAddress(service) && { [headlessLabel]: '' }), [managerLabel]: manager };
  const annotations = isTruncated ? { [truncatedAnnotation]: 'truncated' } : {};
  return { metadata: { name, ...(namespace && { namespace }), labels, annotations }, subsets };
}

async function keep(
  cluster: Cluster,
  table: ObjectTable<Endpoints>,
  current: Endpoints | undefined,
  wanted: Endpoints,
): Promise<void> {
  if (current === undefined || current.metadata.deletionTimestamp !== undefined) {
    try {
      table.created(await cluster.create(table.kind, wanted.metadata.namespace ?? '', wanted));
    } catch (error) {
      if (!refusalCauses(error).includes('NamespaceTerminating')) throw error;
    }
    return;
  }
  if (said(current) === said(wanted)) return;
  let written: Endpoints | undefined;
  await updateSame<Endpoints>(cluster, table.keyOf(current), current, (now) => {
    const { labels, annotations } = wanted.metadata;
    const { [truncatedAnnotation]: _, ...kept } = now.metadata.annotations ?? {};
    const metadata = { ...now.metadata, labels, annotations: { ...kept, ...annotations } };
    written = { ...now, metadata, subsets: wanted.subsets } as Endpoints;
    return written;
  });
  if (written !== undefined) table.changed(written);
}

function said({ metadata: { labels = {}, annotations }, subsets = [] }: Endpoints): string {
  return canonicalJson([labels, annotations?.[truncatedAnnotation], subsets]);
}
