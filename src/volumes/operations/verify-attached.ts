/**
 * Lists a volume as attached: once the controller has attached it, or at once when nothing has to be. Also the first step of
 * every ConfigMap.
 */
import { MountletError } from '../../base/errors.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { DesiredMount } from '../desired-state.ts';
import type { VerifyAction } from '../volume-actions.ts';
import { storageBytes } from '../volume-sizes.ts';
import { OperationError, step, subjectOfMount } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';

class ClaimNotFoundError extends MountletError {
  readonly reason = 'ClaimNotFound';
}

export function verifyAttached(deps: OperationDeps): OperationKind<VerifyAction> {
  const { actual, node } = deps;
  return {
    name: 'verify_controller_attached_volume',
    key: ({ mount }) => ({ volume: mount.volume, podUid: '', node: '' }),
    async run({ volume, mount }, signal) {
      const subject = subjectOfMount(mount);
      const { spec } = mount;
      const sizeBytes = await step('VerifyControllerAttachedVolume fetching pvc failed', subject, () =>
        claimSize(deps, mount, signal),
      );
      if (!volume.isAttachable) {
        const prefix = 'VerifyControllerAttachedVolume.MarkVolumeAsAttachedByUniqueVolumeName failed';
        await step(prefix, subject, () => actual.attached({ volume: mount.volume, spec, devicePath: '' }));
        return actual.initializeSize(mount.volume, sizeBytes);
      }
      if (!volume.isReportedInUse) {
        const prefix = "Volume has not been added to the list of VolumesInUse in the node's volume status";
        throw new OperationError(prefix, subject);
      }
      const { status } = await step(
        'VerifyControllerAttachedVolume failed fetching node from API server',
        subject,
        () => node.read(signal),
      );
      const listed = status?.volumesAttached?.find(({ name }) => name === mount.volume);
      if (listed === undefined) throw new OperationError('Volume not attached according to node status', subject);
      const prefix = 'VerifyControllerAttachedVolume.MarkVolumeAsAttached failed';
      const { devicePath } = listed;
      actual.initializeSize(await step(prefix, subject, () => actual.attached({ spec, devicePath })), sizeBytes);
    },
  };
}

/** Asked once: a size that is known on this node is better than what the claim says. */
async function claimSize({ actual, claims }: OperationDeps, mount: DesiredMount, signal: AbortSignal): Promise<bigint> {
  if (mount.spec.persistentVolume?.spec.claimRef === undefined || actual.sizeOf(mount.volume) > 0n) return 0n;
  return storageBytes((await claimOf({ claims }, mount, signal)).status?.capacity);
}

/** The claim that the volume is bound to, as it is now. */
export async function claimOf(
  { claims }: Pick<OperationDeps, 'claims'>,
  { spec }: DesiredMount,
  signal: AbortSignal,
): Promise<PersistentVolumeClaim> {
  const { namespace = '', name = '' } = spec.persistentVolume?.spec.claimRef ?? {};
  const claim = await claims.claim(namespace, name, signal);
  if (claim === undefined) throw new ClaimNotFoundError(`persistentvolumeclaims "${name}" not found`);
  return claim;
}
