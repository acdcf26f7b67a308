/** Takes a raw block device away from the node, once no pod has it any more. */
import { goQuote } from '../../kube/values/go-text.ts';
import type { UnmountDeviceAction } from '../volume-actions.ts';
import type { BlockMapper } from './block-mapper.ts';
import { OperationError, step, subjectOfDevice } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';
import { DeviceBusyError, requireClosed } from './unmount-device.ts';

export function unmapDevice(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountDeviceAction> {
  const { plugins, actual, node } = deps;
  return {
    name: 'unmap_device',
    key: ({ volume: { volume } }) => ({ volume, podUid: '', node: '' }),
    async run({ volume: attached }, signal) {
      const { volume, devicePath, deviceMountPath, spec, pluginName } = attached;
      const subject = subjectOfDevice(attached, node.name);
      const plugin = await step('UnmapDevice.FindMapperPluginByName failed', subject, () =>
        plugins.findByName(pluginName),
      );
      const { block } = plugin;
      if (block === undefined) {
        const prefix =
          'UnmapDevice.FindMapperPluginByName failed to find BlockVolumeMapper plugin. Volume plugin is nil.';
        throw new OperationError(prefix, subject);
      }
      // Where it was mapped, and not where it would be now: the plugin's settings may have changed.
      const mapPath = await step('UnmapDevice.NewUnmapper failed', subject, () =>
        deviceMountPath === '' ? block.globalMapPathOf(plugin.sourceOf(spec), spec) : deviceMountPath,
      );
      const references = await step('UnmapDevice.GetDeviceBindMountRefs check failed', subject, () =>
        mapper.referencesBelow(mapPath, signal),
      );
      if (references.length > 0) {
        const why = `the device ${goQuote(mapPath)} is still referenced from other Pods [${references.join(' ')}]`;
        throw new OperationError('UnmapDevice failed', subject, new DeviceBusyError(why));
      }
      await step('UnmapDevice.MarkDeviceAsUncertain failed', subject, () =>
        actual.deviceUncertain(volume, devicePath, mapPath),
      );
      await step('UnmapDevice.TearDownDevice failed', subject, () =>
        block.tearDownDevice?.(mapPath, devicePath, signal),
      );
      await step('UnmapDevice.RemoveMapPath failed', subject, () => mapper.remove(mapPath, signal));
      await requireClosed(deps, attached, mapPath, 'UnmapDevice failed', signal);
      await step('MarkDeviceAsUnmounted failed', subject, () => actual.deviceUnmounted(volume));
    },
  };
}
