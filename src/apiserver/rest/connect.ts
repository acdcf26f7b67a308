/**
 * Logs, exec, attach and port-forward of a pod: what can be checked here is checked, the rest is handed to whoever can reach
 * the node. This server itself runs nothing.
 */
import { type PodLogOptions, parsePodLogOptions, podLogOptionErrors } from '../../kube/kinds/pod/pod-requests.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { badRequest, invalid, notFound, resourceName } from '../model/status.ts';
import { StoredObjects } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import type { ApiRequest, Reply } from './api-request.ts';

export interface NodeRequest {
  readonly subresource: string;
  readonly pod: Pod;
  /** Empty for port-forward and proxies. */
  readonly container: string;
  /** Of a request for a log. */
  readonly logOptions: PodLogOptions | undefined;
}

/** Reaches the agents of nodes. It answers the request by itself. */
export interface NodeConnector {
  connect(nodeRequest: NodeRequest, request: ApiRequest): Promise<void>;
}

export interface ConnectDeps {
  readonly store: Store;
  readonly nodes: NodeConnector | undefined;
}

const withContainer = new Set(['log', 'exec', 'attach']);

export async function connect(deps: ConnectDeps, request: ApiRequest): Promise<Reply> {
  const { info, resource, query, exchange } = request;
  const { namespace, name, subresource } = info;
  const logOptions = subresource === 'log' ? checkedLogOptions(name, query) : undefined;
  const pod = new StoredObjects(deps.store).pod(namespace, name);
  if (pod === undefined) throw notFound(resourceName(resource), name);
  const container = withContainer.has(subresource) ? chooseContainer(pod, query.get('container') ?? '') : '';
  if ((pod.spec.nodeName ?? '') === '') {
    // Nothing runs yet, so nothing has been written: an empty log is the truth.
    if (subresource === 'log') return { kind: 'raw', code: 200, headers: { 'content-type': 'text/plain' }, body: '' };
    throw badRequest(`pod ${name} does not have a host assigned`);
  }
  if (subresource !== 'log' && exchange.upgrade === undefined) throw badRequest('Upgrade request required');
  if (deps.nodes === undefined) {
    throw badRequest(`the agent of node ${JSON.stringify(pod.spec.nodeName)} cannot be reached through this server`);
  }
  await deps.nodes.connect({ subresource, pod, container, logOptions }, request);
  return { kind: 'streamed' };
}

function checkedLogOptions(pod: string, query: URLSearchParams): PodLogOptions {
  const options = parsePodLogOptions(query);
  if (typeof options === 'string') throw badRequest(options);
  const errors = podLogOptionErrors(options);
  if (errors.length > 0) throw invalid({ group: '', name: 'PodLogOptions' }, pod, errors);
  return options;
}

function chooseContainer({ metadata, spec }: Pod, asked: string): string {
  const names = [spec.initContainers, spec.containers, spec.ephemeralContainers].flatMap((list) =>
    (list ?? []).map(({ name }) => name),
  );
  if (asked !== '') {
    if (names.includes(asked)) return asked;
    throw badRequest(`container ${asked} is not valid for pod ${metadata.name}`);
  }
  const [only] = spec.containers;
  if (spec.containers.length === 1 && only !== undefined) return only.name;
  throw badRequest(`a container name must be specified for pod ${metadata.name}, choose one of: [${names.join(' ')}]`);
}
