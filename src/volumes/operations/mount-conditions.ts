/** What must hold before a volume is mounted or mapped for a pod, whatever its kind. */
import { MountletError, messageOf } from '../../base/errors.ts';
import { NodeAffinityError, nodeSelectorMatches } from '../../kube/node-affinity.ts';
import type { DesiredMount } from '../desired-state.ts';
import { OperationError, subjectOfMount } from './operation-error.ts';
import type { OperationDeps } from './operation-kind.ts';

export class MountRefusedError extends MountletError {
  readonly reason = 'MountRefused';
}

/** The volume's storage may be reachable from some nodes alone. */
export async function requireAffinity(
  { node }: Pick<OperationDeps, 'node'>,
  mount: DesiredMount,
  signal: AbortSignal,
  prefix = 'MountVolume.NodeAffinity check failed',
): Promise<void> {
  const required = mount.spec.persistentVolume?.spec.nodeAffinity?.required;
  if (required === undefined) return;
  const subject = subjectOfMount(mount);
  let metadata;
  try {
    ({ metadata } = node.current() ?? (await node.read(signal)));
  } catch (cause) {
    throw new OperationError(
      prefix,
      subject,
      new MountRefusedError(`error retrieving node: ${messageOf(cause)}`, { cause }),
    );
  }
  if (nodeSelectorMatches(required, { name: metadata.name, labels: metadata.labels ?? {} })) return;
  throw new OperationError(prefix, subject, new NodeAffinityError());
}

/** Storage that one pod at a time may use is not given to a second one. */
export function requireOnlyPod({ actual }: Pick<OperationDeps, 'actual'>, mount: DesiredMount, prefix: string): void {
  const modes = mount.spec.persistentVolume?.spec.accessModes ?? [];
  const isForOne = modes.length === 1 && modes[0] === 'ReadWriteOncePod';
  if (!isForOne || !actual.isMountedElsewhere(mount)) return;
  const why = 'volume uses the ReadWriteOncePod access mode and is already in use by another pod';
  throw new OperationError(prefix, subjectOfMount(mount), new MountRefusedError(why));
}
