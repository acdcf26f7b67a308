/** The operations that every node has. Those of raw block devices and of growing volumes are added beside them. */
import { attachVolume, detachVolume } from './attach.ts';
import { mountVolume } from './mount.ts';
import type { OperationDeps, OperationTable } from './operation-kind.ts';
import { unmountVolume } from './unmount.ts';
import { unmountDevice } from './unmount-device.ts';
import { verifyAttached } from './verify-attached.ts';

export function filesystemOperations(deps: OperationDeps): OperationTable {
  return {
    verify: verifyAttached(deps),
    attach: attachVolume(deps),
    mount: mountVolume(deps),
    unmount: unmountVolume(deps),
    unmountDevice: unmountDevice(deps),
    detach: detachVolume(deps),
  };
}
