/** Mounts by system calls. */
import { closeSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { isMountPoint } from './mount-point.ts';
import type { MountEntry } from './mount-table.ts';
import type { Mounter, NewMount } from './mounter.ts';
import { mountAttributes, mountFlags, treeFlags, unmountFlags, type SystemCalls } from './system-calls.ts';

export function kernelMounter(calls: SystemCalls): Mounter {
  return {
    mount({ source, target, fileSystem, options }: NewMount) {
      calls.mount({ source, target, fileSystem, flags: 0, data: options });
    },
    bind(source, target, recursive) {
      calls.mount({ source, target, flags: mountFlags.bind | (recursive ? mountFlags.recursive : 0) });
    },
    bindReadOnly(source, target, recursive) {
      const depth = recursive ? treeFlags.recursive : 0;
      let tree: number;
      try {
        tree = calls.openTree(source, treeFlags.clone | treeFlags.closeOnExec | depth);
      } catch (thrown) {
        if (isUnknownCall(thrown)) return false;
        throw thrown;
      }
      try {
        calls.setMountAttributes(tree, { set: mountAttributes.readOnly }, depth);
        calls.moveMount(tree, target, 0);
        return true;
      } catch (thrown) {
        if (isUnknownCall(thrown)) return false;
        throw thrown;
      } finally {
        closeSync(tree); // a copy that was mounted nowhere goes with its descriptor
      }
    },
    restrict({ mountPoint, options }, more) {
      const flags = mountFlags.remount | mountFlags.bind | flagsOf([...options, ...more]);
      calls.mount({ target: mountPoint, flags });
    },
    reconfigure({ mountPoint, options }, data) {
      calls.mount({ target: mountPoint, flags: mountFlags.remount | flagsOf(options), data });
    },
    unmount(target, lazy) {
      calls.unmount(target, unmountFlags.noFollow | (lazy ? unmountFlags.detach : 0));
    },
    isMountPoint(path) {
      return calls.isMountRoot(path) ?? isMountPoint(path);
    },
  };
}

/** Before Linux 5.12 not all these calls exist; a container's filter may answer for them with EPERM. */
function isUnknownCall(thrown: unknown): boolean {
  const code = errorCode(thrown);
  return code === 'ENOSYS' || code === 'EPERM';
}

const flagOf: Readonly<Record<string, number>> = {
  ro: mountFlags.readOnly,
  nosuid: mountFlags.noSetuid,
  nodev: mountFlags.noDevices,
  noexec: mountFlags.noExec,
  noatime: mountFlags.noAccessTime,
  nodiratime: mountFlags.noDirectoryAccessTime,
  relatime: mountFlags.relativeAccessTime,
  nosymfollow: mountFlags.noSymlinkFollow,
};

/** A remount sets all flags anew: those that are not repeated are lost (or refused, in a user namespace). */
function flagsOf(options: MountEntry['options']): number {
  const flags = options.reduce((all, option) => all | (flagOf[option] ?? 0), 0);
  const accessTime = mountFlags.noAccessTime | mountFlags.relativeAccessTime;
  return (flags & accessTime) === 0 ? flags | mountFlags.strictAccessTime : flags; // the table shows no word for strict
}
