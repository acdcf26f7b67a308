/** Makes this machine a node of the cluster, or takes up the Node that is there from before; again and again until it works. */
import { type Pausing, pauseOf } from '../base/clock.ts';
import type { ApiClient } from '../client/api-client.ts';
import { AlreadyExistsError, ForbiddenError } from '../client/api-errors.ts';
import type { Node } from '../kube/kinds/node.ts';
import { reconciledNode } from './initial-node.ts';
import type { NodeNotice } from './node-notices.ts';
import { nodePatch } from './node-patch.ts';
import { nodeResource } from './own-node.ts';

interface RegisterDeps extends Pausing {
  readonly client: Pick<ApiClient, 'create' | 'get' | 'patch'>;
  readonly notify: (notice: NodeNotice) => void;
}

const retryMsMin = 100;
const retryMsMax = 7_000;

/** `initial` is asked before every attempt: minutes may lie between two. */
export async function registerNode(
  deps: RegisterDeps,
  initial: () => Node,
  signal: AbortSignal,
): Promise<{ readonly node: Node; readonly isNew: boolean }> {
  for (let retryMs = retryMsMin; ; retryMs = Math.min(2 * retryMs, retryMsMax)) {
    const wanted = initial();
    const { name } = wanted.metadata;
    try {
      const registered = await attempt(deps.client, wanted, signal);
      deps.notify({ kind: 'NodeRegistered', name, isNew: registered.isNew });
      return registered;
    } catch (error) {
      signal.throwIfAborted();
      deps.notify({ kind: 'NodeRegistrationFailed', name, error, retryMs });
    }
    await pauseOf(deps)(retryMs, signal);
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
    // Who may not create nodes may still have been given one.
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
