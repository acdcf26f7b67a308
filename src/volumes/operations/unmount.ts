/** Takes a volume away from a pod: first what containers had bound of it, then the volume itself. */
import { MountletError } from '../../base/errors.ts';
import { inlineSpec } from '../../kube/references/volume-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { volumeDirectory } from '../../kube/values/node-layout.ts';
import type { UnmountAction } from '../volume-actions.ts';
import { failedStep, step, subjectOfUnmount } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';

export function unmountVolume({
  root,
  plugins,
  actual,
  subPaths,
  notify,
}: OperationDeps): OperationKind<UnmountAction> {
  return {
    name: 'volume_unmount',
    key: ({ volume, podUid }) => ({ volume, podUid, node: '' }),
    async run(action, signal) {
      const { volume, podUid, pluginName, volumeName, gid, spec = inlineSpec({ name: volumeName }) } = action;
      const subject = subjectOfUnmount(action);
      const plugin = await step('UnmountVolume.FindPluginByName failed', subject, () => plugins.findByName(pluginName));
      const directory = await step('UnmountVolume.NewUnmounter failed', subject, () =>
        volumeDirectory(root, podUid, pluginName, volumeName),
      );
      await step('error cleaning subPath mounts', subject, () => subPaths.clean(podUid, volumeName, signal));
      try {
        await plugin.tearDown({ podUid, volumeName, directory }, signal);
      } catch (cause) {
        // Half torn down: whoever wants it again must set it up again.
        const { revision = 0 } = actual.mount(action) ?? {};
        if (actual.volume(volume) !== undefined) {
          actual.uncertain({ volume, podUid, spec, pluginName, gid, revision });
        }
        throw failedStep('UnmountVolume.TearDown failed', subject, cause);
      }
      try {
        actual.unmounted(action);
      } catch (error) {
        // It was never listed, as what nobody could make sense of after a restart; it is gone all the same.
        if (!(error instanceof MountletError)) throw error;
      }
      const message =
        `UnmountVolume.TearDown succeeded for volume ${goQuote(volume)} pod ${goQuote(podUid)} (UID: ${goQuote(podUid)}). ` +
        `InnerVolumeSpecName ${goQuote(volumeName)}. PluginName ${goQuote(pluginName)}, VolumeGIDValue ${goQuote(gid)}`;
      notify({ kind: 'VolumeUnmounted', volume, podUid, plugin: pluginName, message });
    },
  };
}
