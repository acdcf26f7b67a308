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
import type { PodDisruptionBudget } from '../../kube/kinds/policy/pod-disruption-budget.ts';
import {
  allowsUnhealthy,
  disruptionRefusal,
  isBeyondBudgets,
  isReady,
  podMatcher,
  withDisruption,
} from '../../kube/references/disruptions.ts';
import { timestamp } from '../../kube/values/times.ts';
import { admitAll } from '../admission/admission.ts';
import {
  type KubeObject,
  type Resource,
  type ResourceTable,
  type Subresource,
  apiVersionOf,
} from '../model/resource.ts';
import {
  StatusError,
  badRequest,
  conflict,
  forbidden,
  invalid,
  methodNotAllowed,
  notFound,
  resourceName,
  tooManyRequests,
} from '../model/status.ts';
import { StoredObjects, objectPrefix, parseStored } from '../model/stored-objects.ts';
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

interface EvictionDeps extends WriteDeps {
  readonly resources: ResourceTable;
}

/** As often as the API server tries again when a pod changes while it is looked at. */
const evictionTriesMax = 5;

export async function evict(deps: EvictionDeps, request: ApiRequest, subresource: Subresource): Promise<Reply> {
  const { resource, info, user } = request;
  const { namespace, name } = info;
  const { object, options } = await readExchanged(request, subresource, ['policy/v1beta1']);
  const { metadata, deleteOptions = {} } = object as Eviction;
  if (metadata.name !== '' && metadata.name !== name) {
    throw badRequest('name in URL does not match name in Eviction object');
  }
  const admission = { operation: 'CREATE', user, resource, subresource: 'eviction', namespace, name } as const;
  admitAll(deps.admission, { ...admission, object, old: undefined });
  const dryRun = options.dryRun || (deleteOptions.dryRun ?? []).includes('All');
  const context = { ...contextOf(request, options), user, dryRun };
  const alongside = (pod: KubeObject): KubeObject => disrupted(pod as Pod, deps.clock.now());
  for (let tries = 1; ; tries += 1) {
    const pod = new StoredObjects(deps.store).pod(namespace, name);
    if (pod === undefined) throw notFound(resourceName(resource), name);
    const isUnchanged = await passBudgets(deps, pod, context);
    const { preconditions } = deleteOptions;
    const isGuarded = isUnchanged && preconditions?.resourceVersion === undefined;
    const guard = { ...preconditions, ...(isGuarded && { resourceVersion: pod.metadata.resourceVersion ?? '' }) };
    try {
      const given = { ...deleteOptions, preconditions: guard };
      await deleteObject(deps, { resource, namespace, name, options: given, context, alongside });
      return success(201);
    } catch (error) {
      const isOvertaken = isGuarded && error instanceof StatusError && error.code === 409;
      if (!isOvertaken || tries === evictionTriesMax) throw error;
    }
  }
}

/** Takes one disruption from the pod's budget, or refuses. True where that was not needed for the pod as it is now, and only then. */
async function passBudgets(deps: EvictionDeps, pod: Pod, context: WriteContext): Promise<boolean> {
  if (isBeyondBudgets(pod)) return pod.status?.phase === 'Pending' && pod.metadata.deletionTimestamp === undefined;
  const resource = deps.resources.byPlural({ group: 'policy', version: 'v1' }, 'poddisruptionbudgets');
  if (resource === undefined) return false;
  const { namespace = '', name } = pod.metadata;
  const { items } = deps.store.list({ prefix: objectPrefix(resource, namespace), leavesOutDamaged: true });
  const budgets = items
    .map(({ value }) => parseStored(value) as PodDisruptionBudget)
    .filter((one) => podMatcher(one)(pod));
  const [budget] = budgets;
  if (budget === undefined) return false;
  if (budgets.length > 1) {
    const text = 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.';
    throw new StatusError(500, '', text);
  }
  if (!isReady(pod) && allowsUnhealthy(budget)) return true;
  await updateObject(deps, {
    resource,
    namespace,
    name: budget.metadata.name,
    subresource: 'status',
    context,
    change(current) {
      refuseDisruption(current, resource);
      return withDisruption(current, name, deps.clock.now());
    },
  });
  return false;
}

function refuseDisruption(budget: PodDisruptionBudget, resource: Resource): void {
  const refusal = disruptionRefusal(budget);
  if (refusal === undefined) return;
  const { name } = budget.metadata;
  if (refusal.kind === 'tooMany') {
    const text = 'DisruptedPods map too big - too many evictions not confirmed by PDB controller';
    throw forbidden(resourceName(resource), name, text);
  }
  const isCounted = refusal.kind === 'violated';
  const message = isCounted ? refusal.why : `The disruption budget ${name} is still being processed by the server.`;
  throw tooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", isCounted ? 0 : 10, [
    { reason: 'DisruptionBudget', message },
  ]);
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
  /** Where a node's own server is. */
  addressOf(nodeName: string): { readonly host: string; readonly port: number };
  /** Answers the request with what a node's own server answers. */
  relay(nodeName: string, path: string, request: ApiRequest): Promise<void>;
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
