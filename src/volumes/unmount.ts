/** Takes a volume away from a pod: first what containers had bound of it, then the volume itself, then what pods shared. */
import { MountletError } from '../base/errors.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { volumeDirectory } from '../kube/values/node-layout.ts';
import type { ActualState, ActualVolume } from './actual-state.ts';
import { podRef } from './notices.ts';
import {
  type OperationDeps,
  type OperationKind,
  type Step,
  stepsOf,
  subjectOfDevice,
  subjectOfUnmount,
} from './operation.ts';
import type { UnmountAction, UnmountDeviceAction } from './plan.ts';
import { VolumeError } from '../plugins/plugin.ts';
import { contentPathOf } from './volume-name.ts';

export function unmountVolume(deps: OperationDeps): OperationKind<UnmountAction> {
  const { root, plugins, actual, subPaths, mountHolders } = deps;
  return {
    name: 'volume_unmount',
    key: ({ volume, podUid }) => ({ volume, podUid }),
    holders: ({ podUid, pluginName, volumeName }) => {
      const directory = volumeDirectory(root, podUid, pluginName, volumeName);
      return mountHolders(contentPathOf(plugins.findByName(pluginName), directory));
    },
    async run(action, signal) {
      const { volume, podUid, pluginName, volumeName } = action;
      const step = stepsOf(subjectOfUnmount(action));
      const plugin = await step('UnmountVolume.FindPluginByName failed', () => plugins.findByName(pluginName));
      const directory = await step('UnmountVolume.NewUnmounter failed', () =>
        volumeDirectory(root, podUid, pluginName, volumeName),
      );
      await step('error cleaning subPath mounts', () => subPaths.clean(podUid, volumeName, signal));
      await step(
        'UnmountVolume.TearDown failed',
        () => plugin.tearDown({ podUid, volumeName, directory }, signal),
        // Half torn down: a pod that wants it again must have it set up again.
        { failed: () => actual.volume(volume) !== undefined && recordHalfUnmounted(actual, action) },
      );
      recordUnmounted(actual, action);
      reportUnmounted(deps, action, `UnmountVolume.TearDown succeeded ${detailsOf(action)}`);
    },
  };
}

/** The pod may not use it any more, and it is still to be cleaned up. */
export function recordHalfUnmounted(actual: ActualState, action: UnmountAction): void {
  const { volume, podUid, pluginName, volumeName, gid, spec = inlineSpec({ name: volumeName }) } = action;
  const { revision = 0 } = actual.mount(action) ?? {};
  actual.uncertain({ volume, podUid, spec, pluginName, gid, revision });
}

export function recordUnmounted(actual: ActualState, action: UnmountAction): void {
  try {
    actual.unmounted(action);
  } catch (error) {
    // It was not listed, as what reconstruction could not identify; it is gone all the same.
    if (!(error instanceof MountletError)) throw error;
  }
}

export function reportUnmounted({ notify, pods }: OperationDeps, action: UnmountAction, message: string): void {
  const { volume, podUid, pluginName: plugin } = action;
  const pod = pods.pod(podUid);
  notify({ kind: 'VolumeUnmounted', volume, podUid, pod: pod && podRef(pod), plugin, message });
}

export function detailsOf({ volume, podUid, volumeName, pluginName, gid }: UnmountAction): string {
  return (
    `for volume ${goQuote(volume)} pod ${goQuote(podUid)} (UID: ${goQuote(podUid)}). ` +
    `InnerVolumeSpecName ${goQuote(volumeName)}. PluginName ${goQuote(pluginName)}, VolumeGIDValue ${goQuote(gid)}`
  );
}

export function unmountDevice(deps: OperationDeps): OperationKind<UnmountDeviceAction> {
  const { plugins, actual, node, mountHolders } = deps;
  return {
    name: 'unmount_device',
    key: ({ volume: { volume } }) => ({ volume }),
    holders: ({ volume: { deviceMountPath } }) => mountHolders(deviceMountPath),
    async run({ volume: attached }, signal) {
      const { volume, devicePath } = attached;
      const step = stepsOf(subjectOfDevice(attached, node.name));
      const plugin = await step('UnmountDevice.FindDeviceMountablePluginByName failed', () =>
        plugins.findByName(attached.pluginName),
      );
      const deviceMount = await step('UnmountDevice.NewDeviceUnmounter failed', () => {
        if (plugin.deviceMount !== undefined) return plugin.deviceMount;
        throw new VolumeError('DeviceBusy', `${plugin.name} mounts no devices`);
      });
      // Where it was mounted, and not where it would be now: its storage may be gone.
      const path = await step('GetDeviceMountPath failed', () =>
        attached.deviceMountPath === ''
          ? deviceMount.pathOf(plugin.sourceOf(attached.spec), attached.spec)
          : attached.deviceMountPath,
      );
      await step('GetDeviceMountRefs check failed', async () =>
        requireUnreferenced(path, await deviceMount.referencesTo(path, signal)),
      );
      await step('UnmountDevice failed', () => deviceMount.unmount(path, signal), {
        failed: () => actual.deviceUncertain(volume, devicePath, path),
      });
      await requireClosed(deps, { attached, path, failure: 'UnmountDevice failed' }, step, signal);
      await step('MarkDeviceAsUnmounted failed', () => actual.deviceUnmounted(volume));
    },
  };
}

/** The device's own mount may be seen at another root; anything else that shows it is in use. */
function requireUnreferenced(path: string, references: readonly string[]): void {
  const start = path.indexOf('/plugins/kubernetes.io/');
  const own = start < 0 ? path : path.slice(start);
  if (references.every((reference) => reference.includes(own))) return;
  const list = references.join(' ');
  throw new VolumeError(
    'DeviceBusy',
    `the device mount path ${goQuote(path)} is still mounted by other references [${list}]`,
  );
}

interface DeviceToClose {
  readonly attached: ActualVolume;
  readonly path: string;
  /** The words before the message when it is still open. */
  readonly failure: string;
}

/** Another process may have the device open: then it must not be detached. */
export async function requireClosed(
  { actual, devices }: Pick<OperationDeps, 'actual' | 'devices'>,
  { attached: { volume, devicePath }, path, failure }: DeviceToClose,
  step: Step,
  signal: AbortSignal,
): Promise<void> {
  if (devicePath === '') return;
  if (!(await step('PathIsDevice failed', () => devices.isDevice(devicePath, signal)))) return;
  if (!(await step('DeviceOpened failed', () => devices.isOpen(devicePath, signal)))) return;
  actual.deviceUncertain(volume, devicePath, path);
  await step(failure, () => {
    throw new VolumeError('DeviceBusy', 'the device is in use when it was no longer expected to be in use');
  });
}
