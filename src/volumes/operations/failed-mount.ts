/**
 * What is known of the node after a set-up or a device mount failed:
 *
 * | before                      | uncertain failure | transient | final                                        |
 * |-----------------------------|-------------------|-----------|----------------------------------------------|
 * | not mounted                 | uncertain         | the same  | the same                                     |
 * | uncertain                   | the same          | the same  | not mounted                                  |
 * | uncertain, found on disk    | the same          | the same  | the same, so that it is unmounted one day    |
 * | mounted                     | the same          | the same  | the same: containers keep what they have     |
 */
import { failureClassOf } from '../../plugins/plugin.ts';
import type { FailureClass } from '../../plugins/plugin.ts';
import type { ActualState, MountRecord } from '../actual-state.ts';
import type { VolumeName } from '../mount-id.ts';

export function recordFailedMount(
  actual: ActualState,
  record: MountRecord,
  thrown: unknown,
  signal: AbortSignal,
): void {
  const state = actual.mountState(record);
  const failure = classOf(thrown, signal);
  if (state === 'not-mounted' && failure === 'uncertain') actual.uncertain(record);
  if (state === 'uncertain' && failure === 'final' && !actual.isReconstructed(record)) actual.unmounted(record);
}

interface FailedDevice {
  readonly volume: VolumeName;
  readonly devicePath: string;
  readonly deviceMountPath: string;
}

export function recordFailedDevice(
  actual: ActualState,
  { volume, devicePath, deviceMountPath }: FailedDevice,
  thrown: unknown,
  signal: AbortSignal,
): void {
  const state = actual.deviceState(volume);
  const failure = classOf(thrown, signal);
  if (state === 'not-mounted' && failure === 'uncertain') actual.deviceUncertain(volume, devicePath, deviceMountPath);
  if (state === 'uncertain' && failure === 'final' && !actual.isDeviceReconstructed(volume)) {
    actual.deviceUnmounted(volume);
  }
}

/** A plugin that was told to stop and did may have been in the middle of anything. */
export function classOf(thrown: unknown, signal: AbortSignal): FailureClass {
  return signal.aborted && thrown === signal.reason ? 'uncertain' : failureClassOf(thrown);
}
