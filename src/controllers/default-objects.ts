/**
 * The objects that every cluster has without anybody's asking: four namespaces, in every namespace a service account and the
 * certificate authority, and the Service by which pods find this server.
 */
import type { KubeObject, Resource } from '../apiserver/model/resource.ts';
import { objectKey, objectPrefix, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { createObject } from '../apiserver/rest/create.ts';
import { isSameJson, updateObject } from '../apiserver/rest/update.ts';
import { DiskFullError } from '../apiserver/store/store-errors.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Service } from '../kube/kinds/service.ts';
import {
  type ControllerDeps,
  controllerContext,
  coreResource,
  followObjects,
  readObjectAt,
  unlessRefused,
} from './cluster.ts';
import { WorkQueue } from './work-queue.ts';

export interface CompanionDeps extends ControllerDeps {
  readonly authorityPem: string;
  /** Where pods reach this server. */
  readonly endpoint: { readonly address: string; readonly port: number };
}

const controller = 'companions';
const namespaceNames = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
const authorityMap = 'kube-root-ca.crt';
const account = 'default';

/** What must be there before anybody is served. On a full disk what was there before must do: objects can still be deleted. */
export async function ensureCompanions(deps: CompanionDeps, signal: AbortSignal): Promise<void> {
  const isNew = deps.store.revision === 0;
  try {
    await ensureAll(deps, signal);
  } catch (error) {
    if (isNew || !(error instanceof DiskFullError)) throw error;
    deps.notify({ kind: 'ControllerFailed', controller, object: 'default', error });
  }
}

async function ensureAll(deps: CompanionDeps, signal: AbortSignal): Promise<void> {
  const namespaces = coreResource(deps.resources, 'namespaces');
  for (const name of namespaceNames) {
    await ensure(deps, namespaces, '', { metadata: { name } }, signal);
    await ensureInNamespace(deps, name, signal);
  }
  await ensureService(deps, signal);
}

export async function runCompanions(deps: CompanionDeps, signal: AbortSignal): Promise<void> {
  const { store, resources } = deps;
  const queue = new WorkQueue(controller, deps);
  const companions: readonly (readonly [plural: string, name: string])[] = [
    ['serviceaccounts', account],
    ['configmaps', authorityMap],
  ];
  const stops = [
    followObjects(store, objectPrefix(coreResource(resources, 'namespaces')), ({ type, object }) => {
      if (type === 'put') queue.touch(object.metadata.name);
    }),
    ...companions.map(([plural, name]) =>
      followObjects(store, objectPrefix(coreResource(resources, plural)), ({ key }) => {
        const place = placeOfKey(key);
        if (place.name === name) queue.touch(place.namespace);
      }),
    ),
  ];
  try {
    await queue.run(async (namespace) => {
      await ensureInNamespace(deps, namespace, signal);
      if (namespace === 'default') await ensureService(deps, signal);
    }, signal);
  } finally {
    for (const stop of stops) stop();
  }
}

async function ensureInNamespace(deps: CompanionDeps, namespace: string, signal: AbortSignal): Promise<void> {
  const { store, resources } = deps;
  const home = readObjectAt(store, objectKey(coreResource(resources, 'namespaces'), '', namespace));
  if (home === undefined || home.metadata.deletionTimestamp !== undefined) return;
  await ensure(deps, coreResource(resources, 'serviceaccounts'), namespace, { metadata: { name: account } }, signal);
  const data = { 'ca.crt': deps.authorityPem };
  const annotations = {
    'kubernetes.io/description': 'The certificate authority of this API server. It is kept up to date.',
  };
  const wanted: ConfigMap = { metadata: { name: authorityMap, annotations }, data };
  await ensure(deps, coreResource(resources, 'configmaps'), namespace, wanted, signal, (current) =>
    isSameJson((current as ConfigMap).data, data) ? current : { ...current, data },
  );
}

async function ensureService(deps: CompanionDeps, signal: AbortSignal): Promise<void> {
  const { address, port } = deps.endpoint;
  const labels = { component: 'apiserver', provider: 'kubernetes' };
  const ports = [{ name: 'https', protocol: 'TCP', port, targetPort: port }];
  const spec = { clusterIP: address, clusterIPs: [address], type: 'ClusterIP', sessionAffinity: 'None', ports };
  const wanted: Service = { metadata: { name: 'kubernetes', labels }, spec };
  const services = coreResource(deps.resources, 'services');
  const key = objectKey(services, 'default', 'kubernetes');
  const existing = readObjectAt(deps.store, key) as Service | undefined;
  if (existing?.spec.clusterIP === address && isSameJson(existing.spec.ports, ports)) return;
  // The address of a Service cannot change: when the server has moved it is another Service.
  if (existing !== undefined) {
    await deps.store.update(key, (current) =>
      current === undefined
        ? { kind: 'keep', result: undefined }
        : { kind: 'delete', value: current.value, result: undefined },
    );
  }
  await ensure(deps, services, 'default', wanted, signal);
}

async function ensure(
  deps: CompanionDeps,
  resource: Resource,
  namespace: string,
  object: KubeObject,
  signal: AbortSignal,
  repair?: (current: KubeObject) => KubeObject,
): Promise<void> {
  const { name } = object.metadata;
  const current = readObjectAt(deps.store, objectKey(resource, namespace, name));
  const context = controllerContext(controller, signal);
  if (current === undefined) {
    // Somebody else makes it, or the namespace has just begun to end.
    await unlessRefused(createObject(deps, { resource, namespace, object, context }), 409, 403, 404);
  } else if (repair !== undefined && repair(current) !== current) {
    await unlessRefused(
      updateObject(deps, { resource, namespace, name, subresource: '', context, change: repair }),
      404,
    );
  }
}
