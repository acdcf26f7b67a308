/** Where a request for a pod goes on its node: address, path and query. Pure. */
import type { Node } from '../../kube/kinds/node.ts';
import { isYes, podLogQuery } from '../../kube/kinds/pod/pod-requests.ts';
import type { NodeRequest } from '../rest/subresources/connect.ts';
import { internalError } from '../status.ts';

interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

const kubeletPort = 10250;
const preferred = ['InternalIP', 'ExternalIP', 'Hostname'];

export function nodeAddress({ status }: Node): NodeAddress {
  const addresses = status?.addresses ?? [];
  const [found] = preferred.flatMap((type) => addresses.filter((address) => address.type === type));
  if (found === undefined) {
    const known = addresses.map(({ type, address }) => `{${type} ${address}}`).join(' ');
    throw internalError(`no preferred addresses found; known addresses: [${known}]`);
  }
  return { host: found.address, port: status?.daemonEndpoints?.kubeletEndpoint?.Port || kubeletPort };
}

/** Path and query in the node's own words, which differ from the API's. */
export function nodePath({ subresource, pod, container, logOptions }: NodeRequest, query: URLSearchParams): string {
  const { namespace = '', name } = pod.metadata;
  const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join('/')}`;
  if (logOptions !== undefined)
    return withQuery(path('containerLogs', namespace, name, container), podLogQuery(logOptions));
  if (subresource === 'portforward') {
    const ports = query.getAll('ports').join(',');
    return withQuery(path('portForward', namespace, name), new URLSearchParams(ports === '' ? {} : { port: ports }));
  }
  const asked = new URLSearchParams();
  for (const [ours, theirs] of streamNames) if (isYes(query, ours)) asked.set(theirs, '1');
  if (subresource === 'exec') for (const word of query.getAll('command')) asked.append('command', word);
  return withQuery(path(subresource, namespace, name, container), asked);
}

const streamNames = [
  ['stdin', 'input'],
  ['stdout', 'output'],
  ['stderr', 'error'],
  ['tty', 'tty'],
] as const;

function withQuery(path: string, query: URLSearchParams): string {
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}
