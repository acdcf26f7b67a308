/** Connects storage to the node and disconnects it, where no controller does that. */
import { MountletError } from '../base/errors.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import { type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { splitUniqueVolumeName } from '../kube/values/node-layout.ts';
import { type DesiredMount, storageBytes } from './desired-state.ts';
import { podRef } from './notices.ts';
import {
  type OperationDeps,
  OperationError,
  type OperationKind,
  step,
  subjectOfAttach,
  subjectOfDevice,
  subjectOfMount,
} from './operation.ts';
import type { AttachAction, DetachAction, VerifyAction } from './plan.ts';

class NotAttachableError extends MountletError {
  readonly reason = 'NotAttachable';
}

export function attachVolume({ actual, node, notify }: OperationDeps): OperationKind<AttachAction> {
  return {
    name: 'volume_attach',
    key: ({ mount }) => ({ volume: mount.volume, podUid: '', node: allowsMultiAttach(mount.spec) ? node.name : '' }),
    failureEvent: { reason: 'FailedAttachVolume', podsOf: ({ mount }) => [mount.pod] },
    async run({ mount }, signal) {
      const { plugin, source, spec, pod, volume } = mount;
      const subject = subjectOfAttach(mount, node.name);
      const attacher = plugin.attach;
      if (attacher === undefined) {
        const why = new NotAttachableError(`${plugin.name} attaches nothing`);
        throw new OperationError('AttachVolume.FindAttachablePluginBySpec failed', subject, why);
      }
      const devicePath = await step('AttachVolume.Attach failed', subject, () =>
        attacher.attach({ spec, source, pod, devicePath: '' }, signal),
      );
      await step('AttachVolume.MarkVolumeAsAttached failed', subject, () =>
        actual.attached({ volume, spec, devicePath }),
      );
      const message = `AttachVolume.Attach succeeded for volume ${goQuote(specName(spec))} `;
      notify({ kind: 'PodEvent', type: 'Normal', pod: podRef(pod), reason: 'SuccessfulAttachVolume', message });
    },
  };
}

export function detachVolume({ plugins, actual, node, notify }: OperationDeps): OperationKind<DetachAction> {
  return {
    name: 'volume_detach',
    key: ({ volume }) => ({ volume: volume.volume, podUid: '', node: allowsMultiAttach(volume.spec) ? node.name : '' }),
    async run({ volume: { volume, spec, pluginName, devicePath }, volume: attached }, signal) {
      const subject = subjectOfDevice(attached, node.name);
      const attacher = await step('DetachVolume.FindAttachablePluginByName failed', subject, () => {
        const found = plugins.findByName(pluginName).attach;
        if (found === undefined) throw new NotAttachableError(`${pluginName} detaches nothing`);
        return found;
      });
      const { volumeName } = await step('DetachVolume.SplitUniqueName failed', subject, () =>
        splitUniqueVolumeName(volume),
      );
      await step('DetachVolume.Detach failed', subject, () => attacher.detach(volumeName, signal));
      actual.remove(volume);
      notify({ kind: 'VolumeDetached', volume, message: detachedMessage({ volume, spec, devicePath }, node.name) });
    },
  };
}

export function detachedMessage(
  { volume, spec, devicePath }: { readonly volume: string; readonly spec: VolumeSpec; readonly devicePath: string },
  node: string,
): string {
  return (
    `Volume detached for volume ${goQuote(specName(spec))} (UniqueName: ${goQuote(volume)}) on node ${goQuote(node)} ` +
    `DevicePath ${goQuote(devicePath)}`
  );
}

/** Storage that several nodes may have at once is attached by each on its own. */
function allowsMultiAttach({ volume, persistentVolume }: VolumeSpec): boolean {
  if (persistentVolume === undefined) return volume.azureDisk === undefined && volume.cinder === undefined;
  const modes = persistentVolume.spec.accessModes ?? [];
  return modes.length === 0 || modes.some((mode) => mode === 'ReadWriteMany' || mode === 'ReadOnlyMany');
}

/**
 * Lists a volume as attached: once the controller has attached it, or at once when nothing has to be. Also the first step of
 * every ConfigMap.
 */
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
