/** Takes a raw block device away from a pod. The device itself stays for the next one. */
import { MountletError } from '../../base/errors.ts';
import { inlineSpec } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { deviceDirectory } from '../../kube/values/node-layout.ts';
import type { UnmountAction } from '../volume-actions.ts';
import type { BlockMapper } from './block-mapper.ts';
import { OperationError, step, subjectOfUnmount } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';

export function unmapVolume(deps: OperationDeps, mapper: BlockMapper): OperationKind<UnmountAction> {
  const { root, plugins, actual, notify } = deps;
  return {
    name: 'unmap_volume',
    key: ({ volume, podUid }) => ({ volume, podUid, node: '' }),
    async run(action, signal) {
      const { volume, podUid, pluginName, volumeName, gid, spec = inlineSpec({ name: volumeName }) } = action;
      const subject = subjectOfUnmount(action);
      const plugin = await step('UnmapVolume.FindMapperPluginByName failed', subject, () =>
        plugins.findByName(pluginName),
      );
      const { block } = plugin;
      if (block === undefined) {
        const prefix =
          'UnmapVolume.FindMapperPluginByName failed to find BlockVolumeMapper plugin. Volume plugin is nil.';
        throw new OperationError(prefix, subject);
      }
      const link = await step('UnmapVolume.NewUnmapper failed', subject, () =>
        deviceDirectory(root, podUid, pluginName, volumeName),
      );
      const mapPath = await step('UnmapVolume.GetGlobalMapPath failed', subject, () =>
        block.globalMapPathOf(plugin.sourceOf(spec), spec),
      );
      // Whichever step fails, it is not the pod's to use any more and still to be cleaned up.
      const { revision = 0 } = actual.mount(action) ?? {};
      await step('UnmapVolume.MarkDeviceAsUncertain failed', subject, () =>
        actual.uncertain({ volume, podUid, spec, pluginName, gid, revision }),
      );
      await step('UnmapVolume.UnmapBlockVolume failed', subject, () => mapper.unmap({ mapPath, podUid, link }, signal));
      await step('UnmapVolume.UnmapPodDevice failed', subject, () =>
        block.unmapPodDevice?.({ podUid, volumeName }, signal),
      );
      try {
        actual.unmounted(action);
      } catch (error) {
        if (!(error instanceof MountletError)) throw error; // the volume is not listed any more; the device is gone all the same
      }
      const message =
        `UnmapVolume succeeded for volume ${goQuote(volume)} pod ${goQuote(podUid)} (UID: ${goQuote(podUid)}). ` +
        `InnerVolumeSpecName ${goQuote(volumeName)}. PluginName ${goQuote(pluginName)}, VolumeGIDValue ${goQuote(gid)}`;
      notify({ kind: 'VolumeUnmounted', volume, podUid, plugin: pluginName, message });
    },
  };
}
