/** What the node has for pods, for those who size a tmpfs by it or put it into a file. */
import { MountletError, messageOf } from '../base/errors.ts';
import type { ResourceList } from '../kube/references/pod-resources.ts';
import { Quantity } from '../kube/values/quantity.ts';
import type { NodeReader } from './object-readers.ts';

class NodeUnavailableError extends MountletError {
  readonly reason = 'NodeUnavailable';
  constructor(problem: string, options?: ErrorOptions) {
    super(`error retrieving node: ${problem}`, options);
  }
}

export async function nodeAllocatable(nodes: NodeReader, signal: AbortSignal): Promise<ResourceList> {
  const node = await nodes.get(signal).catch((error: unknown) => {
    if (!(error instanceof MountletError)) throw error; // an abort or a bug, not an answer
    throw new NodeUnavailableError(messageOf(error), { cause: error });
  });
  if (node === undefined) throw new NodeUnavailableError('node not found');
  return node.status?.allocatable ?? {};
}

export async function allocatableMemory(nodes: NodeReader, signal: AbortSignal): Promise<Quantity> {
  const { memory } = await nodeAllocatable(nodes, signal);
  return memory === undefined ? Quantity.zero('BinarySI') : Quantity.parse(memory);
}
