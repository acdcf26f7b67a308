/**
 * `pods/NAME/proxy`, `services/NAME/proxy` and `nodes/NAME/proxy`: where a request that is passed on goes. To a pod at its own
 * address, to a Service's pod that is ready, to a node's own server, and to nothing else: no object can lead a request to the
 * addresses of this machine that are nobody else's, whoever wrote them.
 */
import type { EndpointSlice } from '../../kube/kinds/endpoint-slice.ts';
import { serviceNameLabel } from '../../kube/kinds/endpoint-slice.ts';
import { reachErrors } from '../../kube/kinds/endpoints.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Service } from '../../kube/kinds/service.ts';
import { parseIpAddress } from '../../kube/values/network-names.ts';
import { StatusError, badRequest, notFound, resourceName } from '../model/status.ts';
import { StoredObjects, objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { ListRequest, ListResult, StoredObject } from '../store/store.ts';
import type { ApiRequest, Reply } from './api-request.ts';
import type { NodeConnector } from './pod-subresources.ts';

export interface ProxyTarget {
  readonly scheme: 'http' | 'https';
  readonly host: string;
  readonly port: number;
  /** With the query. */
  readonly path: string;
}

export interface ProxyDeps {
  readonly store: { get(key: string): StoredObject | undefined; list(request: ListRequest): ListResult };
  readonly nodes: NodeConnector | undefined;
  /** Answers the request with what the target answers. */
  readonly relay: (target: ProxyTarget, request: ApiRequest) => Promise<void>;
  /** 0 to 1. */
  readonly chance: () => number;
}

export async function proxy(deps: ProxyDeps, request: ApiRequest): Promise<Reply> {
  const { info, exchange } = request;
  const behind = pathBehind(exchange.target, info.rest);
  const path = behind.startsWith('/') ? behind : `/${behind}`;
  if (path !== behind && info.verb === 'get') {
    // Relative links of a page work only below a directory. Two slashes at the start would name a host.
    const [own = ''] = exchange.target.replace(/^\/+/, '/').split('?');
    return { kind: 'raw', code: 301, headers: { location: `${own}${path}` }, body: '' };
  }
  if (exchange.upgrade !== undefined) throw badRequest('upgraded connections are not passed on');
  if (info.resource === 'nodes') await proxyToNode(deps, path, request);
  else {
    const place = info.resource === 'services' ? servicePlace(deps, request) : podPlace(deps, request);
    await deps.relay({ ...place, path }, request);
  }
  return { kind: 'streamed' };
}

/** To the node's own server, which this server has credentials for; another port is a stranger's. */
async function proxyToNode({ nodes, relay }: ProxyDeps, path: string, request: ApiRequest): Promise<void> {
  const { name: asks } = request.info;
  const id = asked(asks);
  if (id === undefined) throw badRequest(`invalid node request "${asks}"`);
  const { scheme, name } = id;
  if (nodes === undefined) throw badRequest(`the agent of node "${name}" cannot be reached through this server`);
  const own = nodes.addressOf(name);
  const port = id.port === '' ? own.port : portOf(id.port);
  if (port === own.port) return await nodes.relay(name, path, request);
  if (!isAllowed(own.host)) throw badRequest('address not allowed');
  await relay({ scheme, host: own.host, port, path }, request);
}

/** As it was sent, so that what the client escaped stays escaped. */
function pathBehind(target: string, rest: string): string {
  const [, path = '', query = ''] =
    /^\/+api\/v1\/(?:namespaces\/[^/?]+\/)?[a-z]+\/[^/?]+\/proxy((?:\/[^?]*)?)(\?.*)?$/.exec(target) ?? [];
  if (path !== '' || rest === '') return `${path}${query}`;
  return `/${rest.split('/').map(encodeURIComponent).join('/')}`;
}

interface Asked {
  readonly scheme: 'http' | 'https';
  readonly name: string;
  readonly port: string;
}

/** `name`, `name:port` or `scheme:name:port`. */
function asked(id: string): Asked | undefined {
  const parts = id.split(':');
  const [scheme = '', name = '', port = ''] = parts.length < 3 ? ['', ...parts] : parts;
  if (parts.length > 3 || name === '' || !['', 'http', 'https'].includes(scheme)) return undefined;
  return { scheme: scheme === 'https' ? 'https' : 'http', name, port };
}

function portOf(text: string): number {
  const port = Number(text);
  if (!(Number.isInteger(port) && port > 0 && port < 65_536)) throw badRequest(`invalid port "${text}"`);
  return port;
}

type Place = Omit<ProxyTarget, 'path'>;

function podPlace({ store }: ProxyDeps, { info, resource }: ApiRequest): Place {
  const id = asked(info.name);
  if (id === undefined) throw badRequest(`invalid pod request "${info.name}"`);
  const pod = new StoredObjects(store).pod(info.namespace, id.name);
  if (pod === undefined) throw notFound(resourceName(resource), id.name);
  const named = pod.spec.containers.flatMap(({ ports = [] }) => ports)[0]?.containerPort ?? 80;
  const port = id.port === '' ? named : portOf(id.port);
  const host = pod.status?.podIP ?? '';
  if (!isAllowed(host)) throw badRequest('address not allowed');
  return { scheme: id.scheme, host, port };
}

const slices = { group: 'discovery.k8s.io', plural: 'endpointslices', namespaced: true };

function servicePlace(deps: ProxyDeps, { info, resource }: ApiRequest): Place {
  const { store, chance } = deps;
  const id = asked(info.name);
  if (id === undefined) throw badRequest(`invalid service request "${info.name}"`);
  const stored = store.get(objectKey(resource, info.namespace, id.name));
  if (stored === undefined) throw notFound(resourceName(resource), id.name);
  const { ports = [] } = (parseStored(stored.value) as Service).spec;
  let portName = id.port;
  if (/^\d+$/.test(id.port)) {
    const found = ports.find(({ port }) => port === Number(id.port));
    if (found === undefined) throw notAvailable(`no service port ${id.port} found for service "${id.name}"`);
    portName = found.name ?? '';
  }
  const objects = new StoredObjects(store);
  const places = store.list({ prefix: objectPrefix(slices, info.namespace) }).items.flatMap(({ value }) => {
    // Most slices of a namespace are another Service's, which need not be parsed.
    if (!value.includes(`"${id.name}"`)) return [];
    const { metadata, endpoints = [], ports: own = [] } = parseStored(value) as EndpointSlice;
    const port = own.find(({ name = '' }) => name === portName)?.port;
    if (metadata.labels?.[serviceNameLabel] !== id.name || port === undefined) return [];
    return endpoints.flatMap(({ addresses: [host = ''] = [], conditions, targetRef }) => {
      const isReady = conditions?.ready !== false;
      const pod = isReady ? objects.pod(info.namespace, targetRef?.name ?? '') : undefined;
      return pod !== undefined && isAllowed(host) && hasAddress(pod, host) ? [{ host, port }] : [];
    });
  });
  const place = places[Math.floor(chance() * places.length)];
  if (place === undefined) throw notAvailable(`no endpoints available for service "${id.name}"`);
  return { scheme: id.scheme, ...place };
}

function hasAddress({ status }: Pod, address: string): boolean {
  return status?.podIP === address || (status?.podIPs ?? []).some(({ ip }) => ip === address);
}

/** One that means the same machine to all. */
function isAllowed(address: string): boolean {
  const parsed = parseIpAddress(address);
  if (parsed === undefined || reachErrors(address, []).length > 0) return false;
  return parsed.family === 'IPv4' ? Number(parsed.text.split('.')[0]) < 224 : !parsed.text.startsWith('ff');
}

function notAvailable(text: string): StatusError {
  return new StatusError(503, 'ServiceUnavailable', text);
}
