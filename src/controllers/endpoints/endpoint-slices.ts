/**
 * Keeps the EndpointSlices: of Services that select pods, from those pods; of others from the Endpoints that somebody wrote for
 * them, for those who read slices alone. Slices that bear another manager's name are left alone.
 */
import { type EndpointSlice, managedByLabel, serviceNameLabel } from '../../kube/kinds/endpoint-slice.ts';
import type { Endpoints } from '../../kube/kinds/endpoints.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { type ObjectMeta, controllerReference } from '../../kube/schema/meta.ts';
import { parseIpAddress } from '../../kube/values/network-names.ts';
import {
  type Cluster,
  type ControllerDeps,
  deleteSame,
  kindNamed,
  refusalCauses,
  updateSame,
} from '../cluster/cluster.ts';
import type { ObjectTable, WorkloadView } from '../workloads/object-table.ts';
import { familiesOf, hasClusterAddress, selects, sliceGroups } from './endpoint-plan.ts';
import { ServiceQueue } from './service-queue.ts';
import { type SliceGroup, planSlices } from './slice-plan.ts';

export const headlessLabel = 'service.kubernetes.io/headless';
const reserved = new Set([serviceNameLabel, managedByLabel, headlessLabel]);
const zoneLabel = 'topology.kubernetes.io/zone';

export async function runEndpointSlices(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('endpointslice-controller', signal);
  const services = view.table<Service>(kindNamed(cluster, 'v1', 'Service'));
  const pods = view.table<Pod>(kindNamed(cluster, 'v1', 'Pod'));
  const nodes = view.table<Node>(kindNamed(cluster, 'v1', 'Node'));
  const queue = new ServiceQueue('endpointslice-controller', deps, services);
  const slices = new OwnSlices(cluster, view, 'endpointslice-controller.k8s.io', queue);
  queue.followPods(pods);
  nodes.follow((_, now, before) => {
    const isSame = (now === undefined) === (before === undefined);
    if (!isSame || now?.metadata.labels?.[zoneLabel] !== before?.metadata.labels?.[zoneLabel]) queue.touchAll();
  });
  await queue.run(async (key) => {
    const service = services.get(key);
    const { namespace, name } = cluster.placeOf(key);
    if (service === undefined) return slices.keep(namespace, name, undefined, []);
    if (!selects(service)) return;
    const own = Object.entries(service.metadata.labels ?? {}).filter(([label]) => !reserved.has(label));
    const labels = { ...Object.fromEntries(own), ...(!hasClusterAddress(service) && { [headlessLabel]: '' }) };
    const owner = { apiVersion: 'v1', kind: 'Service', object: service, labels };
    const groups = sliceGroups(service, pods.inNamespace(namespace), (node) => nodes.get(nodes.keyAt('', node)));
    const empty = familiesOf(service).filter((family) => !groups.some(({ addressType }) => addressType === family));
    const all = [...groups, ...empty.map((addressType) => ({ addressType, ports: [], endpoints: [] }))];
    await slices.keep(namespace, name, owner, all);
  }, signal);
}

const skipLabel = 'endpointslice.kubernetes.io/skip-mirror';
const leaderAnnotation = 'control-plane.alpha.kubernetes.io/leader';
const notMirrored = new Set([
  'endpoints.kubernetes.io/last-change-trigger-time',
  'kubectl.kubernetes.io/last-applied-configuration',
]);
/** Of one subset, as kube-controller-manager has it by default. */
const mirroredMax = 1_000;

export async function runEndpointSliceMirroring(
  deps: ControllerDeps,
  view: WorkloadView,
  signal: AbortSignal,
): Promise<void> {
  const cluster = deps.clusterFor('endpointslice-mirroring-controller', signal);
  const services = view.table<Service>(kindNamed(cluster, 'v1', 'Service'));
  const written = view.table<Endpoints>(kindNamed(cluster, 'v1', 'Endpoints'));
  const queue = new ServiceQueue('endpointslice-mirroring-controller', deps, services);
  const slices = new OwnSlices(cluster, view, 'endpointslicemirroring-controller.k8s.io', queue);
  written.follow((_, now, before) => {
    const { namespace = '', name = '' } = (now ?? before)?.metadata ?? {};
    queue.touchNamed(namespace, name);
  });
  await queue.run(async (key) => {
    const { namespace, name } = cluster.placeOf(key);
    const service = services.get(key);
    const endpoints = written.get(written.keyAt(namespace, name));
    const isMirrored = service !== undefined && Object.keys(service.spec.selector ?? {}).length === 0;
    if (endpoints === undefined || !isMirrored || !wantsMirror(endpoints)) {
      return slices.keep(namespace, name, undefined, []);
    }
    const { labels = {}, annotations = {} } = endpoints.metadata;
    const kept = Object.entries(annotations).filter(([annotation]) => !notMirrored.has(annotation));
    const owner = { apiVersion: 'v1', kind: 'Endpoints', object: endpoints, labels };
    await slices.keep(namespace, name, { ...owner, annotations: Object.fromEntries(kept) }, groupsOf(endpoints));
  }, signal);
}

function wantsMirror({ metadata: { labels, annotations } }: Endpoints): boolean {
  return labels?.[skipLabel] !== 'true' && annotations?.[leaderAnnotation] === undefined;
}

function groupsOf({ subsets = [] }: Endpoints): readonly SliceGroup[] {
  return subsets.flatMap(({ addresses = [], notReadyAddresses = [], ports: given = [] }) => {
    const ports = given.map(({ name = '', protocol = 'TCP', ...rest }) => ({ name, protocol, ...rest }));
    const all = [
      ...addresses.map((address) => ({ address, ready: true })),
      ...notReadyAddresses.map((address) => ({ address, ready: false })),
    ].slice(0, mirroredMax);
    return ['IPv4', 'IPv6'].flatMap((addressType) => {
      const endpoints = all.flatMap(({ address: { ip, hostname = '', nodeName, targetRef }, ready }) => {
        const parsed = parseIpAddress(ip);
        if (parsed?.family !== addressType) return [];
        return {
          addresses: [parsed.text],
          conditions: { ready },
          ...(hostname !== '' && { hostname }),
          ...(targetRef && { targetRef }),
          ...(nodeName !== undefined && { nodeName }),
        };
      });
      return endpoints.length === 0 ? [] : [{ addressType, ports, endpoints }];
    });
  });
}

interface SliceOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly object: KubeObject;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The slices that one loop keeps: those that bear its name. */
class OwnSlices {
  readonly #cluster: Cluster;
  readonly #manager: string;
  readonly #slices: ObjectTable<EndpointSlice>;

  constructor(cluster: Cluster, view: WorkloadView, manager: string, queue: ServiceQueue) {
    this.#cluster = cluster;
    this.#manager = manager;
    this.#slices = view.table(kindNamed(cluster, 'discovery.k8s.io/v1', 'EndpointSlice'));
    this.#slices.follow((_, now, before) => {
      for (const { namespace = '', labels } of [now, before].flatMap((slice) => slice?.metadata ?? [])) {
        if (labels?.[managedByLabel] === manager) queue.touchNamed(namespace, labels[serviceNameLabel] ?? '');
      }
    });
  }

  /** Without an owner there are to be none. */
  async keep(
    namespace: string,
    name: string,
    owner: SliceOwner | undefined,
    groups: readonly SliceGroup[],
  ): Promise<void> {
    const own = this.#slices.inNamespace(namespace).filter(({ metadata: { labels, deletionTimestamp } }) => {
      const isOurs = labels?.[managedByLabel] === this.#manager && labels[serviceNameLabel] === name;
      return isOurs && deletionTimestamp === undefined;
    });
    const uid = owner?.object.metadata.uid;
    // Those of an earlier Service of the name must not be taken along with it.
    const isOwned = ({ metadata: { ownerReferences = [] } }: EndpointSlice): boolean =>
      uid !== undefined && ownerReferences.some((reference) => reference.uid === uid && reference.kind === owner?.kind);
    await Promise.all(own.filter((slice) => !isOwned(slice)).map((slice) => this.#remove(slice)));
    if (owner === undefined) return;
    const labels = { ...owner.labels, [serviceNameLabel]: name, [managedByLabel]: this.#manager };
    const said = canonicalJson([labels, owner.annotations ?? {}]);
    const plan = planSlices(
      groups,
      own.filter(isOwned),
      ({ metadata }) =>
        canonicalJson([metadata.labels, owner.annotations === undefined ? {} : (metadata.annotations ?? {})]) === said,
    );
    const metadata = { labels, ...(owner.annotations && { annotations: owner.annotations }) };
    await Promise.all([
      ...plan.update.map(({ slice, group }) => this.#update(slice, metadata, group)),
      ...plan.remove.map((slice) => this.#remove(slice)),
      ...(owner.object.metadata.deletionTimestamp === undefined ? plan.create : []).map((group) =>
        this.#create(namespace, owner, metadata, group),
      ),
    ]);
  }

  async #create(
    namespace: string,
    { apiVersion, kind, object }: SliceOwner,
    labelled: Partial<ObjectMeta>,
    { addressType, ports, endpoints }: SliceGroup,
  ): Promise<void> {
    const { name } = object.metadata;
    const ownerReferences = [controllerReference(apiVersion, kind, object.metadata)];
    const metadata = { name: '', generateName: `${name}-`, namespace, ...labelled, ownerReferences };
    const slice: EndpointSlice = { metadata, addressType, ports, endpoints };
    try {
      this.#slices.created(await this.#cluster.create(this.#slices.kind, namespace, slice));
    } catch (error) {
      if (!refusalCauses(error).includes('NamespaceTerminating')) throw error;
    }
  }

  async #update(slice: EndpointSlice, labelled: Partial<ObjectMeta>, { ports, endpoints }: SliceGroup): Promise<void> {
    let written: EndpointSlice | undefined;
    await updateSame<EndpointSlice>(this.#cluster, this.#slices.keyOf(slice), slice, (current) => {
      written = { ...current, metadata: { ...current.metadata, ...labelled }, ports, endpoints };
      return written;
    });
    if (written !== undefined) this.#slices.changed(written);
  }

  async #remove(slice: EndpointSlice): Promise<void> {
    await deleteSame(this.#cluster, this.#slices.keyOf(slice), slice);
    this.#slices.deleted(slice);
  }
}
