/**
 * The objects that every cluster has from the start: four namespaces, in every namespace a service account and the certificate
 * authority, and the Service by which pods find the server.
 */
import { isDeepStrictEqual } from 'node:util';
import { MountletError } from '../base/errors.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Service } from '../kube/kinds/service.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { type Cluster, type ControllerDeps, coreKind, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

export interface DefaultObjectDeps extends ControllerDeps {
  readonly authorityPem: string;
  /** Where pods reach this server. */
  readonly endpoint: { readonly address: string; readonly port: number };
}

const controller = 'companions';
const namespaceNames = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
const authorityMap = 'kube-root-ca.crt';
const account = 'default';

/** What must be there before anything is served. On a full disk the old ones must do: objects can still be deleted. */
export async function ensureDefaultObjects(deps: DefaultObjectDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const namespaces = coreKind(cluster, 'Namespace');
  const isNew = (await cluster.get(cluster.keyOf(namespaces, '', 'default'))) === undefined;
  try {
    for (const name of namespaceNames) {
      await ensure(cluster, 'Namespace', '', { metadata: { name } });
      await ensureInNamespace(deps, cluster, name);
    }
    await ensureService(deps, cluster);
  } catch (error) {
    if (isNew || !(error instanceof MountletError) || error.reason !== 'DiskFull') throw error;
    deps.notify({ kind: 'ControllerFailed', controller, object: 'default', error });
  }
}

export async function runDefaultObjects(deps: DefaultObjectDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const followed: readonly (readonly [kind: string, name: string])[] = [
    ['ServiceAccount', account],
    ['ConfigMap', authorityMap],
  ];
  const stops = [
    cluster.watch(coreKind(cluster, 'Namespace'), ({ type, key }) => {
      if (type === 'put') queue.touch(cluster.placeOf(key).name);
    }),
    ...followed.map(([kind, name]) =>
      cluster.watch(coreKind(cluster, kind), ({ key }) => {
        const place = cluster.placeOf(key);
        if (place.name === name) queue.touch(place.namespace);
      }),
    ),
  ];
  try {
    await queue.run(async (namespace) => {
      await ensureInNamespace(deps, cluster, namespace);
      if (namespace === 'default') await ensureService(deps, cluster);
    }, signal);
  } finally {
    for (const stop of stops) stop();
  }
}

async function ensureInNamespace(deps: DefaultObjectDeps, cluster: Cluster, namespace: string): Promise<void> {
  const home = await cluster.get(cluster.keyOf(coreKind(cluster, 'Namespace'), '', namespace));
  if (home === undefined || home.metadata.deletionTimestamp !== undefined) return;
  await ensure(cluster, 'ServiceAccount', namespace, { metadata: { name: account } });
  const data = { 'ca.crt': deps.authorityPem };
  const annotations = {
    'kubernetes.io/description': 'The certificate authority of this API server. It is kept up to date.',
  };
  const wanted: ConfigMap = { metadata: { name: authorityMap, annotations }, data };
  await ensure(cluster, 'ConfigMap', namespace, wanted, (current) =>
    isDeepStrictEqual((current as ConfigMap).data, data) ? current : { ...current, data },
  );
}

async function ensureService(deps: DefaultObjectDeps, cluster: Cluster): Promise<void> {
  const { address, port } = deps.endpoint;
  const labels = { component: 'apiserver', provider: 'kubernetes' };
  const ports = [{ name: 'https', protocol: 'TCP', port, targetPort: port }];
  const spec = { clusterIP: address, clusterIPs: [address], type: 'ClusterIP', sessionAffinity: 'None', ports };
  const wanted: Service = { metadata: { name: 'kubernetes', labels }, spec };
  const key = cluster.keyOf(coreKind(cluster, 'Service'), 'default', 'kubernetes');
  const existing = (await cluster.get(key)) as Service | undefined;
  if (existing?.spec.clusterIP === address && isDeepStrictEqual(existing.spec.ports, ports)) return;
  // The address of a Service cannot change: when the server has moved it is another Service.
  if (existing !== undefined) await unlessRefused(cluster.delete(key), 404);
  await ensure(cluster, 'Service', 'default', wanted);
}

async function ensure(
  cluster: Cluster,
  kindName: string,
  namespace: string,
  object: KubeObject,
  repair?: (current: KubeObject) => KubeObject,
): Promise<void> {
  const kind = coreKind(cluster, kindName);
  const key = cluster.keyOf(kind, namespace, object.metadata.name);
  const current = await cluster.get(key);
  if (current === undefined) {
    // Another client makes it, or the namespace has just begun to end.
    await unlessRefused(cluster.create(kind, namespace, object), 409, 403, 404);
  } else if (repair !== undefined && repair(current) !== current) {
    await unlessRefused(cluster.update(key, repair), 404);
  }
}
