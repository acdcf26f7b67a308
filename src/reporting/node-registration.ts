/** Makes this machine known to the cluster, or makes the Node object that is there already fit. */
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../client/api-client.ts';
import { AlreadyExistsError, ForbiddenError } from '../client/api-errors.ts';
import { nodes, withShape } from '../client/resource-reference.ts';
import type { Node } from '../kube/objects/node.ts';
import { node as nodeShape } from '../kube/objects/node.ts';
import type { NodeFacts } from './node-facts.ts';
import { nodeStatus } from './node-status.ts';

export const nodeResource = withShape(nodes, nodeShape);

export interface NodeIdentity {
  readonly name: string;
  /** Beside the defaults. */
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: NonNullable<NonNullable<Node['spec']>['taints']>;
  /** Empty: none. */
  readonly providerId: string;
}

const attachAnnotation = 'volumes.kubernetes.io/controller-managed-attach-detach';
const firstDelayMs = 100;
const delayMsMax = 7000;

export interface RegistrationDeps {
  readonly client: Pick<ApiClient, 'get' | 'create' | 'patch'>;
  readonly clock: Clock;
  readonly facts: () => Promise<NodeFacts>;
  readonly failed: (error: unknown) => void;
}

export function initialNode(identity: NodeIdentity, facts: NodeFacts, now: number): Node {
  const { name, taints, providerId } = identity;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: nodeLabels(identity, facts), annotations: { [attachAnnotation]: 'true' } },
    spec: { ...(taints.length > 0 && { taints }), ...(providerId !== '' && { providerID: providerId }) },
    status: nodeStatus(undefined, facts, now),
  };
}

function nodeLabels({ name, labels }: NodeIdentity, { nodeInfo }: NodeFacts): Readonly<Record<string, string>> {
  const { operatingSystem: os, architecture: arch } = nodeInfo;
  return {
    'beta.kubernetes.io/arch': arch,
    'beta.kubernetes.io/os': os,
    'kubernetes.io/arch': arch,
    'kubernetes.io/hostname': name,
    'kubernetes.io/os': os,
    ...labels,
  };
}

/** Tries until it works, more slowly each time. Resolves to the Node as the server has it. */
export async function registerNode(deps: RegistrationDeps, identity: NodeIdentity, signal: AbortSignal): Promise<Node> {
  for (let delayMs = firstDelayMs; ; delayMs = Math.min(2 * delayMs, delayMsMax)) {
    await deps.clock.sleep(delayMs, signal);
    try {
      return await tryRegister(deps, identity, signal);
    } catch (error) {
      signal.throwIfAborted();
      deps.failed(error);
    }
  }
}

async function tryRegister(deps: RegistrationDeps, identity: NodeIdentity, signal: AbortSignal): Promise<Node> {
  const { client, clock } = deps;
  const wanted = initialNode(identity, await deps.facts(), clock.now());
  try {
    return await client.create(nodeResource, {}, wanted, signal);
  } catch (error) {
    // A server that lets a node not create itself may know it already.
    if (!(error instanceof AlreadyExistsError) && !(error instanceof ForbiddenError)) throw error;
  }
  const existing = await client.get(nodeResource, { name: identity.name }, signal);
  const patch = reconciliation(existing, wanted);
  if (patch === undefined) return existing;
  // Through the status: the labels of its own Node are all that a node may change, and this is how kubelets do it.
  return client.patch(nodeResource, { name: identity.name, subresource: 'status', type: 'strategic' }, patch, signal);
}

/** What of labels and annotations a node of an earlier life lacks; other labels are somebody else's. */
export function reconciliation(existing: Node, wanted: Node): object | undefined {
  const labels = missing(existing.metadata.labels, wanted.metadata.labels);
  const annotations = missing(existing.metadata.annotations, wanted.metadata.annotations);
  if (labels === undefined && annotations === undefined) return undefined;
  return { metadata: { ...(labels && { labels }), ...(annotations && { annotations }) } };
}

type Texts = Readonly<Record<string, string>> | undefined;

function missing(has: Texts, wants: Texts): Texts {
  const entries = Object.entries(wants ?? {}).filter(([key, value]) => has?.[key] !== value);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}
