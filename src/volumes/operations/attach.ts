/** Connects storage to the node and disconnects it, where no controller does that. */
import { MountletError } from '../../base/errors.ts';
import { type VolumeSpec, specName } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { splitUniqueVolumeName } from '../../kube/values/node-layout.ts';
import type { AttachAction, DetachAction } from '../volume-actions.ts';
import { podRef } from '../volume-notices.ts';
import { OperationError, step, subjectOfAttach, subjectOfDevice } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';

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
