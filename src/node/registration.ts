/** Makes this machine a node of the cluster, or takes up the Node that is there from before; again and again until it works. */
import { isDeepStrictEqual } from 'node:util';
import { BackOff } from '../base/back-off.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { AlreadyExistsError, ForbiddenError } from '../client/api/api-errors.ts';
import { type Node, ownNodeLabels } from '../kube/kinds/node.ts';
import { isRecord, keysOf, valueAt } from '../kube/schema/equality.ts';
import { type ResourceList, isHugePages } from '../kube/values/quantity.ts';
import { type NodeCondition, type NodeSettings, type Observed, observedStatus } from './node-status.ts';
import { type NodeNotice, nodeResource } from './own-node.ts';

interface RegisterDeps extends Pausing {
  readonly client: Pick<ApiClient, 'create' | 'get' | 'patch'>;
  readonly notify: (notice: NodeNotice) => void;
}

const retries = { firstMs: 100, msMax: 7_000 };

/** `initial` is asked before every attempt: minutes may lie between two. */
export async function registerNode(
  deps: RegisterDeps,
  initial: () => Node,
  signal: AbortSignal,
): Promise<{ readonly node: Node; readonly isNew: boolean }> {
  const backOff = new BackOff(retries);
  for (;;) {
    const wanted = initial();
    const { name } = wanted.metadata;
    try {
      const registered = await attempt(deps.client, wanted, signal);
      deps.notify({ kind: 'NodeRegistered', name, isNew: registered.isNew });
      return registered;
    } catch (error) {
      signal.throwIfAborted();
      const retryMs = backOff.next();
      deps.notify({ kind: 'NodeRegistrationFailed', name, error, retryMs });
      await pauseOf(deps)(retryMs, signal);
    }
  }
}

async function attempt(
  client: RegisterDeps['client'],
  wanted: Node,
  signal: AbortSignal,
): Promise<{ readonly node: Node; readonly isNew: boolean }> {
  try {
    return { node: await client.create(nodeResource, {}, wanted, signal), isNew: true };
  } catch (error) {
    // Without the right to create nodes, one may have been created for us.
    if (!(error instanceof AlreadyExistsError || error instanceof ForbiddenError)) throw error;
    return { node: await takeUp(client, wanted, error, signal), isNew: false };
  }
}

async function takeUp(
  client: RegisterDeps['client'],
  wanted: Node,
  refusal: unknown,
  signal: AbortSignal,
): Promise<Node> {
  const { name } = wanted.metadata;
  const existing = await client.get(nodeResource, { name }, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    // That it is not there is known; why it could not be made is what an operator needs.
    throw refusal instanceof ForbiddenError ? refusal : error;
  });
  const patch = nodePatch(existing, reconciledNode(existing, wanted));
  if (Object.keys(patch).length === 0) return existing;
  return client.patch(nodeResource, { name, subresource: 'status', type: 'strategic' }, patch, signal);
}

/** The Node object with which a machine joins a cluster, and what becomes of one that is there already. Pure. */
const attachAnnotation = 'volumes.kubernetes.io/controller-managed-attach-detach';

export function initialNode(
  settings: NodeSettings,
  observed: Observed,
): { readonly node: Node; readonly changes: readonly string[] } {
  const { nodeName, nodeLabels, taints, controllerAttaches, providerId } = settings;
  const { status, changes } = observedStatus({}, observed, settings);
  const spec = { ...(taints.length > 0 && { taints }), ...(providerId !== '' && { providerID: providerId }) };
  const node: Node = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: nodeName,
      labels: {
        'kubernetes.io/hostname': nodeName,
        ...machineLabels(observed),
        ...betaLabels(observed),
        ...nodeLabels,
      },
      ...(controllerAttaches && { annotations: { [attachAnnotation]: 'true' } }),
    },
    ...(Object.keys(spec).length > 0 && { spec }),
    status,
  };
  return { node, changes };
}

/** The two that a node corrects whenever they are wrong: programs for another machine do not run here. */
export function machineLabels({ machine }: Observed): Readonly<Record<string, string>> {
  if (machine === undefined) return {};
  return { 'kubernetes.io/os': machine.operatingSystem, 'kubernetes.io/arch': machine.architecture };
}

function betaLabels({ machine }: Observed): Readonly<Record<string, string>> {
  if (machine === undefined) return {};
  return { 'beta.kubernetes.io/os': machine.operatingSystem, 'beta.kubernetes.io/arch': machine.architecture };
}

/** The Node that was there, with what this node has to say: the status follows in its own time. */
export function reconciledNode(existing: Node, initial: Node): Node {
  const { metadata, status = {} } = existing;
  const labels: Record<string, string> = { ...metadata.labels };
  // Others that an operator configured are only for a new Node.
  for (const name of ownNodeLabels) {
    const value = initial.metadata.labels?.[name];
    if (value === '') delete labels[name];
    else if (value !== undefined) labels[name] = value;
  }
  const { [attachAnnotation]: _before, ...annotations } = metadata.annotations ?? {};
  const attach = initial.metadata.annotations?.[attachAnnotation];
  const { capacity = {}, allocatable = {} } = initial.status ?? {};
  return {
    ...existing,
    metadata: {
      ...metadata,
      labels,
      annotations: attach === undefined ? annotations : { ...annotations, [attachAnnotation]: attach },
    },
    status: {
      ...status,
      capacity: withPagesOf(status.capacity ?? capacity, capacity),
      allocatable: withPagesOf(status.allocatable ?? allocatable, allocatable),
    },
  };
}

/** Sizes of huge pages that the machine no longer has are taken away; those it has are as it says. */
function withPagesOf(existing: ResourceList, initial: ResourceList): ResourceList {
  const isPages = ([name]: readonly [string, unknown]): boolean => isHugePages(name);
  return Object.fromEntries([
    ...Object.entries(existing).filter((entry) => !isPages(entry)),
    ...Object.entries(initial).filter(isPages),
  ]);
}

/** The strategic merge patch from one Node to another: labels, annotations and status, which is all a node may change. Pure. */
type Patch = Readonly<Record<string, unknown>>;

/** For the status of the Node; empty when there is nothing to say. */
export function nodePatch(before: Node, after: Node): Patch {
  const { labels, annotations } = before.metadata;
  const metadata = recordPatch(
    { labels: labels ?? {}, annotations: annotations ?? {} },
    { labels: after.metadata.labels ?? {}, annotations: after.metadata.annotations ?? {} },
  );
  const { addresses: known, conditions: old = [], ...restBefore } = before.status ?? {};
  const { addresses = [], conditions = [], ...rest } = after.status ?? {};
  const status = {
    ...recordPatch(restBefore, rest),
    ...conditionsPatch(old, conditions),
    // Merged by type, two addresses of one type would become one. Servers before 1.28 take the directive for an address where
    // there were none.
    ...(!isDeepStrictEqual(known ?? [], addresses) && {
      addresses: known === undefined ? addresses : [...addresses, { $patch: 'replace' }],
    }),
  };
  return { ...(hasFields(metadata) && { metadata }), ...(hasFields(status) && { status }) };
}

function conditionsPatch(before: readonly NodeCondition[], after: readonly NodeCondition[]): Patch {
  const find = (list: readonly NodeCondition[], wanted: string): NodeCondition | undefined =>
    list.find(({ type }) => type === wanted);
  const changed = after.filter((condition) => !isDeepStrictEqual(find(before, condition.type), condition));
  const gone = before.filter(({ type }) => find(after, type) === undefined);
  const order = after.map(({ type }) => ({ type }));
  const said = [...changed, ...gone.map(({ type }) => ({ $patch: 'delete', type }))];
  const isInOrder = isDeepStrictEqual(
    order,
    before.map(({ type }) => ({ type })),
  );
  if (said.length === 0 && isInOrder) return {};
  return { '$setElementOrder/conditions': order, ...(said.length > 0 && { conditions: said }) };
}

function recordPatch(before: Patch, after: Patch): Patch {
  const patch: Record<string, unknown> = {};
  for (const key of keysOf(before, after)) {
    const [old, next] = [valueAt(before, key), valueAt(after, key)];
    if (isDeepStrictEqual(old, next)) continue;
    patch[key] = isRecord(old) && isRecord(next) ? recordPatch(old, next) : (next ?? null);
  }
  return patch;
}

function hasFields(patch: Patch): boolean {
  return Object.keys(patch).length > 0;
}
