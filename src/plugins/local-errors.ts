/** Why a local volume cannot be used. Where the kubelet has words for it, the message is exactly those. */
import { MountletError, messageOf } from '../base/errors.ts';
import { failureClassOf } from './plugin.ts';
import type { FailureClass } from './plugin.ts';

export class LocalVolumeError extends MountletError {
  readonly reason = 'LocalVolumeUnusable';
}

/** Only a node that goes through attaching and device mounting has it: a single set-up, as in `render`, does not. */
export class DeviceNotMountedError extends MountletError {
  readonly reason = 'DeviceNotMounted';
  constructor(volumeName: string, path: string) {
    super(
      `Cannot set up local volume "${volumeName}": "${path}" is a device or the file of one, and is not mounted on this node; ` +
        'the agent formats and mounts devices, `mountlet render` does not',
    );
  }
}

/** Tells what the failure behind it tells: its reason, and whether anything may still be going on. */
export class LocalDeviceError extends MountletError {
  readonly reason: string;
  readonly failureClass: FailureClass;
  constructor(device: string, directory: string, fileSystem: string, cause: MountletError) {
    super(
      `local: failed to mount device ${device} at ${directory} (fstype: ${fileSystem}), error ${messageOf(cause)}`,
      { cause },
    );
    this.reason = cause.reason;
    this.failureClass = failureClassOf(cause);
  }
}
