/** What must hold before a volume is mounted or mapped for a pod, whatever its kind. */
import { MountletError, messageOf } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { requireNodeAffinity } from '../../kube/references/node-affinity.ts';
import type { DesiredMount } from '../desired-state.ts';
import type { NodeReader } from '../node-reader.ts';
import { OperationError, step, subjectOfMount } from './operation-error.ts';
import type { OperationDeps } from './operation-kind.ts';

export class MountRefusedError extends MountletError {
  readonly reason = 'MountRefused';
}

/** The volume's storage may be reachable from some nodes alone. */
export async function requireAffinity(
  { node }: Pick<OperationDeps, 'node'>,
  mount: DesiredMount,
  prefix: string,
  signal: AbortSignal,
  eventReason?: string,
): Promise<void> {
  const { persistentVolume } = mount.spec;
  if (persistentVolume?.spec.nodeAffinity?.required === undefined) return;
  const check = async (): Promise<void> => {
    const { metadata } = node.current() ?? (await readNode(node, signal));
    requireNodeAffinity(persistentVolume, { name: metadata.name, labels: metadata.labels ?? {} });
  };
  await step(prefix, subjectOfMount(mount), check, eventReason);
}

async function readNode(node: NodeReader, signal: AbortSignal): Promise<Node> {
  try {
    return await node.read(signal);
  } catch (cause) {
    throw new MountRefusedError(`error retrieving node: ${messageOf(cause)}`, { cause });
  }
}

/** Storage that one pod at a time may use is not given to a second one. */
export function requireOnlyPod({ actual }: Pick<OperationDeps, 'actual'>, mount: DesiredMount, prefix: string): void {
  const modes = mount.spec.persistentVolume?.spec.accessModes ?? [];
  const isForOne = modes.length === 1 && modes[0] === 'ReadWriteOncePod';
  if (!isForOne || !actual.isMountedElsewhere(mount)) return;
  const why = 'volume uses the ReadWriteOncePod access mode and is already in use by another pod';
  throw new OperationError(prefix, subjectOfMount(mount), new MountRefusedError(why));
}
