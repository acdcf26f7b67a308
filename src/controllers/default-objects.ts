/**
 * The objects that every cluster has from the start. An API server makes four namespaces itself, two PriorityClasses, roles, and the
 * Service by which pods find it; two controllers keep a service account and the certificate authority in every namespace.
 */
import { isDeepStrictEqual } from 'node:util';
import { MountletError } from '../base/errors.ts';
import { type EndpointSlice, serviceNameLabel } from '../kube/kinds/endpoint-slice.ts';
import type { Endpoints } from '../kube/kinds/endpoints.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import { systemPriorityClasses } from '../kube/kinds/policy/priority-class.ts';
import { type Service, apiServerAnnotation } from '../kube/kinds/service.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import {
  type Cluster,
  type ControllerDeps,
  coreKind,
  ensureObject,
  kindNamed,
  unlessRefused,
} from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';
import { ensureDefaultAccess } from './default-access.ts';

export interface DefaultObjectDeps extends ControllerDeps {
  readonly authorityPem: string;
  /** Where this server listens, and the address of its Service. */
  readonly endpoint: { readonly address: string; readonly port: number; readonly serviceAddress: string };
}

/** An object that every namespace has. */
interface Companion {
  readonly controller: string;
  readonly kind: string;
  readonly name: string;
  ensure(cluster: Cluster, namespace: string): Promise<void>;
}

const controller = 'companions';
const namespaceNames = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];

export const serviceAccounts: Companion = {
  controller: 'serviceaccount-controller',
  kind: 'ServiceAccount',
  name: 'default',
  ensure: (cluster, namespace) => ensure(cluster, 'ServiceAccount', namespace, { metadata: { name: 'default' } }),
};

export function rootCertificates(authorityPem: string): Companion {
  const [kind, name] = ['ConfigMap', 'kube-root-ca.crt'];
  const data = { 'ca.crt': authorityPem };
  const annotations = {
    'kubernetes.io/description': 'The certificate authority of this API server. It is kept up to date.',
  };
  const wanted: ConfigMap = { metadata: { name, annotations }, data };
  const repair = withData(data);
  return {
    controller: 'root-ca-certificate-publisher',
    kind,
    name,
    ensure: (cluster, namespace) => ensure(cluster, kind, namespace, wanted, repair),
  };
}

function withData(data: ConfigMap['data']): (current: KubeObject) => KubeObject {
  return (current) =>
    isDeepStrictEqual((current as ConfigMap).data, data) ? current : ({ ...current, data } as KubeObject);
}

/** By which programs with APIs of their own know the clients of this server: schedulers, controller managers, metrics servers. */
function ensureClientAuthority({ authorityPem }: DefaultObjectDeps, cluster: Cluster): Promise<void> {
  const data = { 'client-ca-file': authorityPem };
  const wanted: ConfigMap = { metadata: { name: 'extension-apiserver-authentication' }, data };
  return ensure(cluster, 'ConfigMap', 'kube-system', wanted, withData(data));
}

/** What must be there before anything is served. On a full disk the old ones must do: objects can still be deleted. */
export async function ensureDefaultObjects(
  deps: DefaultObjectDeps,
  signal: AbortSignal,
  companions: readonly Companion[] = [serviceAccounts, rootCertificates(deps.authorityPem)],
): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const namespaces = coreKind(cluster, 'Namespace');
  const isNew = (await cluster.get(cluster.keyOf(namespaces, '', 'default'))) === undefined;
  try {
    for (const name of namespaceNames) {
      await ensure(cluster, 'Namespace', '', { metadata: { name } });
      for (const companion of companions) await ensureIn(name, companion, cluster);
    }
    const classes = kindNamed(cluster, 'scheduling.k8s.io/v1', 'PriorityClass');
    for (const priorityClass of systemPriorityClasses) await ensureObject(cluster, classes, '', priorityClass);
    await ensureDefaultAccess(cluster);
    await ensureClientAuthority(deps, cluster);
    // Its address may be another Service's, of a store from before this server gave addresses: no reason not to start.
    await unlessRefused(ensureService(deps, cluster), 422);
  } catch (error) {
    if (isNew || !(error instanceof MountletError) || error.reason !== 'DiskFull') throw error;
    deps.notify({ kind: 'ControllerFailed', controller, object: 'default', error });
  }
}

/** Keeps the Service of the API server. */
export async function runServerService(deps: DefaultObjectDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const stops = [
    cluster.watch(coreKind(cluster, 'Namespace'), ({ type, key }) => {
      if (type === 'put' && cluster.placeOf(key).name === 'default') queue.touch(controller);
    }),
    ...[
      coreKind(cluster, 'Service'),
      coreKind(cluster, 'Endpoints'),
      kindNamed(cluster, 'discovery.k8s.io/v1', 'EndpointSlice'),
    ].map((kind) =>
      cluster.watch(kind, ({ key }) => {
        const { namespace, name } = cluster.placeOf(key);
        if (namespace === 'default' && name === 'kubernetes') queue.touch(controller);
      }),
    ),
  ];
  try {
    await queue.run(() => ensureService(deps, cluster), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Keeps an object in every namespace. */
export async function runCompanion(companion: Companion, deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(companion.controller, signal);
  const queue = new WorkQueue(companion.controller, deps);
  const stops = [
    cluster.watch(coreKind(cluster, 'Namespace'), ({ type, key }) => {
      if (type === 'put') queue.touch(cluster.placeOf(key).name);
    }),
    cluster.watch(coreKind(cluster, companion.kind), ({ key }) => {
      const place = cluster.placeOf(key);
      if (place.name === companion.name) queue.touch(place.namespace);
    }),
  ];
  try {
    await queue.run((namespace) => ensureIn(namespace, companion, cluster), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

async function ensureIn(namespace: string, companion: Companion, cluster: Cluster): Promise<void> {
  const home = await cluster.get(cluster.keyOf(coreKind(cluster, 'Namespace'), '', namespace));
  if (home === undefined || home.metadata.deletionTimestamp !== undefined) return;
  await companion.ensure(cluster, namespace);
}

async function ensureService(deps: DefaultObjectDeps, cluster: Cluster): Promise<void> {
  const { address, port, serviceAddress } = deps.endpoint;
  const name = 'kubernetes';
  const labels = { component: 'apiserver', provider: 'kubernetes' };
  const place = `${address.includes(':') ? `[${address}]` : address}:${port}`;
  const annotations = { [apiServerAnnotation]: place };
  const ports = [{ name: 'https', protocol: 'TCP', port: 443, targetPort: port }];
  const spec = { clusterIP: serviceAddress, clusterIPs: [serviceAddress], type: 'ClusterIP', ports };
  const key = cluster.keyOf(coreKind(cluster, 'Service'), 'default', name);
  const existing = (await cluster.get(key)) as Service | undefined;
  // The address of a Service cannot change: with another one it is another Service.
  if (existing !== undefined && existing.spec.clusterIP !== serviceAddress) {
    await unlessRefused(cluster.delete(key), 404);
  }
  await ensure(
    cluster,
    'Service',
    'default',
    { metadata: { name, labels, annotations }, spec } as Service,
    (current) => {
      const { metadata, spec: now } = current as Service;
      const isSame = metadata.annotations?.[apiServerAnnotation] === place && isDeepStrictEqual(now.ports, ports);
      if (isSame) return current;
      const kept = { ...metadata, annotations: { ...metadata.annotations, ...annotations } };
      return { ...current, metadata: kept, spec: { ...now, ports } } as KubeObject;
    },
  );
  await ensureEndpoints(deps, cluster);
}

/**
 * The server's own loopback address means nothing to others: a pod on its machine finds what listens there at the address of
 * the Service.
 */
async function ensureEndpoints({ endpoint }: DefaultObjectDeps, cluster: Cluster): Promise<void> {
  const { address, port, serviceAddress } = endpoint;
  const ip = address.startsWith('127.') || address === '::1' ? serviceAddress : address;
  const ports = [{ name: 'https', port, protocol: 'TCP' }];
  const subsets = [{ addresses: [{ ip }], ports }];
  const labels = { 'endpointslice.kubernetes.io/skip-mirror': 'true' };
  const endpoints: Endpoints = { metadata: { name: 'kubernetes', labels }, subsets };
  await ensure(cluster, 'Endpoints', 'default', endpoints, (current) =>
    isDeepStrictEqual((current as Endpoints).subsets, subsets) ? current : ({ ...current, subsets } as KubeObject),
  );
  const kind = kindNamed(cluster, 'discovery.k8s.io/v1', 'EndpointSlice');
  const addressType = ip.includes(':') ? 'IPv6' : 'IPv4';
  const content = { addressType, ports, endpoints: [{ addresses: [ip], conditions: { ready: true } }] };
  const slice = { metadata: { name: 'kubernetes', labels: { [serviceNameLabel]: 'kubernetes' } }, ...content };
  const key = cluster.keyOf(kind, 'default', 'kubernetes');
  const now: EndpointSlice | undefined = await cluster.get(key);
  if (now !== undefined && now.addressType !== addressType) await unlessRefused(cluster.delete(key), 404);
  await ensureObject(cluster, kind, 'default', slice, (current) => {
    const { ports: sent, endpoints: there } = current as EndpointSlice;
    const isSame = isDeepStrictEqual([sent, there], [ports, content.endpoints]);
    return isSame ? current : { ...current, ...content };
  });
}

async function ensure(
  cluster: Cluster,
  kindName: string,
  namespace: string,
  object: KubeObject,
  repair?: (current: KubeObject) => KubeObject,
): Promise<void> {
  await ensureObject(cluster, coreKind(cluster, kindName), namespace, object, repair);
}
