/** Takes a volume away from a pod: first what containers had bound of it, then the volume itself. */
import { MountletError, messageOf } from '../base/errors.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import type { DeviceMount } from '../plugins/plugin.ts';
import type { ActualVolume } from './actual-state.ts';
import {
  type OperationDeps,
  OperationError,
  type OperationKind,
  type Subject,
  failedStep,
  step,
  subjectOfDevice,
  subjectOfUnmount,
} from './operation.ts';
import type { UnmountAction, UnmountDeviceAction } from './plan.ts';

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

/** Takes the mount of a device away that pods shared, once none of them has it any more. */
export class DeviceBusyError extends MountletError {
  readonly reason = 'DeviceBusy';
}

export function unmountDevice(deps: OperationDeps): OperationKind<UnmountDeviceAction> {
  const { plugins, actual, node } = deps;
  return {
    name: 'unmount_device',
    key: ({ volume: { volume } }) => ({ volume, podUid: '', node: '' }),
    async run({ volume: attached }, signal) {
      const { volume, devicePath } = attached;
      const subject = subjectOfDevice(attached, node.name);
      const plugin = await step('UnmountDevice.FindDeviceMountablePluginByName failed', subject, () =>
        plugins.findByName(attached.pluginName),
      );
      const { deviceMount } = plugin;
      if (deviceMount === undefined) {
        const why = new DeviceBusyError(`${plugin.name} mounts no devices`);
        throw new OperationError('UnmountDevice.NewDeviceUnmounter failed', subject, why);
      }
      const path = pathOf(deviceMount, plugin.sourceOf(attached.spec), attached, subject);
      await step('GetDeviceMountRefs check failed', subject, async () =>
        requireUnreferenced(path, await deviceMount.referencesTo(path, signal)),
      );
      try {
        await deviceMount.unmount(path, signal);
      } catch (cause) {
        actual.deviceUncertain(volume, devicePath, path);
        throw failedStep('UnmountDevice failed', subject, cause);
      }
      await requireClosed(deps, attached, path, 'UnmountDevice failed', signal);
      await step('MarkDeviceAsUnmounted failed', subject, () => actual.deviceUnmounted(volume));
    },
  };
}

/** What is gone with its storage has to be unmounted from where it was put. */
function pathOf(deviceMount: DeviceMount, source: unknown, attached: ActualVolume, subject: Subject): string {
  try {
    return deviceMount.pathOf(source, attached.spec);
  } catch (cause) {
    if (attached.deviceMountPath !== '' && messageOf(cause).includes('does not exist')) return attached.deviceMountPath;
    throw failedStep('GetDeviceMountPath failed', subject, cause);
  }
}

/** The device's own mount may be seen at another root; anything else that shows it is in use. */
function requireUnreferenced(path: string, references: readonly string[]): void {
  const start = path.indexOf('/plugins/kubernetes.io/');
  const own = start < 0 ? path : path.slice(start);
  if (references.every((reference) => reference.includes(own))) return;
  throw new DeviceBusyError(
    `the device mount path ${goQuote(path)} is still mounted by other references [${references.join(' ')}]`,
  );
}

/** Somebody else may have the device open: then it is not ours to detach. */
export async function requireClosed(
  { actual, devices, node }: Pick<OperationDeps, 'actual' | 'devices' | 'node'>,
  attached: ActualVolume,
  path: string,
  prefix: string,
  signal: AbortSignal,
): Promise<void> {
  const { volume, devicePath } = attached;
  const subject = subjectOfDevice(attached, node.name);
  if (devicePath === '') return;
  if (!(await step('PathIsDevice failed', subject, () => devices.isDevice(devicePath, signal)))) return;
  if (!(await step('DeviceOpened failed', subject, () => devices.isOpen(devicePath, signal)))) return;
  actual.deviceUncertain(volume, devicePath, path);
  const why = 'the device is in use when it was no longer expected to be in use';
  throw new OperationError(prefix, subject, new DeviceBusyError(why));
}
