/** Takes the mount of a device away that pods shared, once none of them has it any more. */
import { MountletError, messageOf } from '../../base/errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { DeviceMount } from '../../plugins/plugin.ts';
import type { ActualVolume } from '../actual-state.ts';
import type { UnmountDeviceAction } from '../volume-actions.ts';
import { OperationError, type Subject, failedStep, step, subjectOfDevice } from './operation-error.ts';
import type { OperationDeps, OperationKind } from './operation-kind.ts';

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
