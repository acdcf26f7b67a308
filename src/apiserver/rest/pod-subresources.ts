/**
 * Subresources of a pod: a Binding puts it on a node, an Eviction takes it away; logs, exec, attach and port-forward go to the
 * connector that reaches the node, after what can be checked here was checked.
 */
import {
  type Binding,
  type Eviction,
  type PodLogOptions,
  parsePodLogOptions,
  podLogOptionErrors,
} from '../../kube/kinds/pod/pod-requests.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../kube/values/times.ts';
import { admitAll } from '../admission/admission.ts';
import { type KubeObject, type Resource, type Subresource, apiVersionOf } from '../model/resource.ts';
import { badRequest, conflict, invalid, methodNotAllowed, notFound, resourceName } from '../model/status.ts';
import { StoredObjects } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type ApiRequest, type Handler, type Reply, optionsBytesMax, success } from './api-request.ts';
import { deleteObject } from './delete.ts';
import { readObject } from './request-body.ts';
import { updateObject } from './update.ts';
import { type WriteContext, type WriteDeps, type WriteOptions, contextOf, writeOptions } from './write-context.ts';

/** Serves both `pods/x/binding` and, with the name in the body alone, `bindings`. */
export function bindingHandler(deps: WriteDeps, pods: Resource): Handler {
  return async (request) => {
    const { info } = request;
    const subresource = pods.subresources.find(({ name }) => name === 'binding');
    if (subresource === undefined) throw badRequest('this server has no bindings');
    const { object, options } = await readExchanged(request, subresource);
    const binding = object as Binding;
    const name = info.subresource === 'binding' ? info.name : binding.metadata.name;
    if (binding.metadata.name !== '' && binding.metadata.name !== name) {
      throw badRequest('name in URL does not match name in Binding object');
    }
    const context = contextOf(request, options);
    await bindPod(deps, pods, info.namespace, name, binding, context);
    return success(201);
  };
}

export async function bindPod(
  deps: WriteDeps,
  pods: Resource,
  namespace: string,
  name: string,
  binding: Binding,
  context: WriteContext,
): Promise<void> {
  await updateObject(deps, {
    resource: pods,
    namespace,
    name,
    subresource: 'binding',
    context,
    change: (current) => bound(current as Pod, binding, deps.clock.now()),
    // All checks are in `bound`; the rules of an update forbid exactly this change.
    rules: { prepare: (object: KubeObject) => object, validate: () => [] },
  });
}

function bound(pod: Pod, { metadata, target }: Binding, now: number): Pod {
  const { name } = pod.metadata;
  const refuse = (text: string): Error => conflict({ group: '', name: 'pods/binding' }, name, text);
  const { uid = '', resourceVersion = '' } = metadata;
  if (uid !== '' && uid !== pod.metadata.uid) {
    throw refuse(`Precondition failed: UID in precondition: ${uid}, UID in object meta: ${pod.metadata.uid}`);
  }
  if (pod.metadata.deletionTimestamp !== undefined) {
    throw refuse(`pod ${name} is being deleted, cannot be assigned to a host`);
  }
  if ((pod.spec.nodeName ?? '') !== '') {
    throw refuse(`pod ${name} is already assigned to node ${JSON.stringify(pod.spec.nodeName)}`);
  }
  if ((pod.spec.schedulingGates ?? []).length > 0) throw refuse(`pod ${name} has non-empty .spec.schedulingGates`);
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
  const { nominatedNodeName: _nominated, ...status } = pod.status ?? {};
  const merged = (
    own: Readonly<Record<string, string>> | undefined,
    added: Readonly<Record<string, string>> | undefined,
  ): Record<string, string> => ({ ...own, ...added });
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      ...(metadata.annotations && { annotations: merged(pod.metadata.annotations, metadata.annotations) }),
      ...(metadata.labels && { labels: merged(pod.metadata.labels, metadata.labels) }),
      ...(resourceVersion !== '' && { resourceVersion }),
    },
    spec: { ...pod.spec, nodeName: target.name ?? '' },
    status: {
      ...status,
      conditions: [...others, { type: 'PodScheduled', status: 'True', lastTransitionTime: timestamp(now) }],
    },
  };
}

/** No disruption budget is enforced here, so nothing forbids an eviction. */
export async function evict(deps: WriteDeps, request: ApiRequest, subresource: Subresource): Promise<Reply> {
  const { resource, info, user } = request;
  const { namespace, name } = info;
  const { object, options } = await readExchanged(request, subresource, ['policy/v1beta1']);
  const { metadata, deleteOptions = {} } = object as Eviction;
  if (metadata.name !== '' && metadata.name !== name) {
    throw badRequest('name in URL does not match name in Eviction object');
  }
  if (new StoredObjects(deps.store).pod(namespace, name) === undefined) throw notFound(resourceName(resource), name);
  const admission = { operation: 'CREATE', user, resource, subresource: 'eviction', namespace, name } as const;
  admitAll(deps.admission, { ...admission, object, old: undefined });
  const dryRun = options.dryRun || (deleteOptions.dryRun ?? []).includes('All');
  const alongside = (pod: KubeObject): KubeObject => disrupted(pod as Pod, deps.clock.now());
  await deleteObject(deps, { resource, namespace, name, options: deleteOptions, context: { user, dryRun }, alongside });
  return success(201);
}

function disrupted(pod: Pod, now: number): Pod {
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget');
  const condition = {
    type: 'DisruptionTarget',
    status: 'True',
    lastTransitionTime: timestamp(now),
    reason: 'EvictionByEvictionAPI',
    message: 'Eviction API: evicting',
  };
  return { ...pod, status: { ...pod.status, conditions: [...others, condition] } };
}

/** The body of a subresource that exchanges a kind of its own, such as a TokenRequest: read, completed, checked. */
interface Exchanged {
  readonly object: KubeObject;
  readonly options: WriteOptions;
}

export async function readExchanged(
  request: ApiRequest,
  { kind }: Subresource,
  alsoVersions: readonly string[] = [],
): Promise<Exchanged> {
  if (kind?.shape === undefined) throw methodNotAllowed();
  const options = writeOptions('CreateOptions', request.query, request.exchange.header('user-agent') ?? '');
  const expected = { apiVersion: apiVersionOf(kind), kind: kind.kind, shape: kind.shape, alsoVersions };
  const given = await readObject(request, expected, options.fieldValidation, optionsBytesMax);
  const object = kind.complete?.(given) ?? given;
  const errors = kind.validate?.(object) ?? [];
  if (errors.length > 0) throw invalid({ group: kind.group, name: kind.kind }, request.info.name, errors);
  return { object, options };
}

export interface NodeRequest {
  readonly subresource: string;
  readonly pod: Pod;
  /** Empty for port-forward and proxies. */
  readonly container: string;
  /** Of a request for a log. */
  readonly logOptions: PodLogOptions | undefined;
}

/** Reaches the agents of nodes. */
export interface NodeConnector {
  /** Answers the request by itself. */
  connect(nodeRequest: NodeRequest, request: ApiRequest): Promise<void>;
  /** What a node's own server has at a path. */
  read(nodeName: string, path: string, signal: AbortSignal): Promise<string>;
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
