/**
 * Storage of this very node behind a PersistentVolume. A directory is bind mounted for each pod. A block device is formatted
 * when there is nothing on it, mounted once on the node, then bound for each pod. A regular file, which the kubelet refuses,
 * is attached as a loop device first and is a block device from then on.
 */
import type { Clock } from '../base/clock.ts';
import type { Turns } from '../base/turns.ts';
import type { Programs } from '../disk/devices/programs.ts';
import { readMountTable, referencesOf } from '../disk/mounts/mount-table.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { isWithin } from '../disk/paths/path-within.ts';
import type { LocalVolumeSource } from '../kube/kinds/storage/persistent-volume.ts';
import { specName } from '../kube/references/volume-spec.ts';
import { globalMapDirectory } from '../kube/values/node-layout.ts';
import { setUpLocal, tearDownLocal } from './local-set-up.ts';
import { LocalStorage, kindAt, localPluginName } from './local-storage.ts';
import type { NotifyPlugin, VolumePlugin } from './plugin.ts';

interface LocalDeps {
  readonly mounts: Mounts;
  readonly programs: Programs;
  readonly notify: NotifyPlugin;
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
  readonly clock: Clock;
  readonly turns: Turns;
}

export function localPlugin(deps: LocalDeps): VolumePlugin<LocalVolumeSource> {
  const { mounts, notify, root, clock, turns } = deps;
  const storage = new LocalStorage(deps);
  return {
    name: localPluginName,
    sourceOf: ({ persistentVolume }) => persistentVolume?.spec.local,
    requiresRemount: false,
    supportsMountOptions: true,
    attributes: (_source, { readOnly }) => ({ readOnly, managed: !readOnly, selinuxRelabel: true }),
    requireUsable: ({ path }) => void kindAt(path),
    async setUp(request, signal) {
      const nodePath = storage.nodePathOf(request.source, request.spec);
      return setUpLocal({ mounts, notify, root, turns, now: () => clock.now() }, request, nodePath, signal);
    },
    async tearDown({ directory }) {
      tearDownLocal(mounts, directory);
    },
    reconstruct: (volumeName, directory) =>
      storage.reconstruct(volumeName, 'Filesystem', deviceBehind(directory, storage.mountsDirectory)),
    attach: {
      byNodeAlone: true,
      canAttach: (source, spec) => storage.isFile(source, spec),
      attach: ({ source, spec }, signal) => storage.attach(source, spec, signal),
      // There is nobody else to wait for, and what is attached is found again.
      waitForAttach: ({ source, spec }, signal) => storage.attach(source, spec, signal),
      detach: (identity, signal) => storage.attachments.detach(identity, signal),
      leftBehind: () => storage.leftBehind(),
    },
    deviceMount: {
      identityOf: (_source, spec) => specName(spec),
      pathOf: (source, spec) => storage.nodePathOf(source, spec),
      mount: ({ source, spec, path }, signal) => storage.mount(source, spec, path, signal),
      async referencesTo(path) {
        return referencesOf(readMountTable(), path);
      },
      unmount: (path, signal) => storage.unmount(path, signal),
    },
    block: {
      globalMapPathOf: (_source, spec) => globalMapDirectory(root, localPluginName, specName(spec)),
      setUpDevice: ({ source, spec }, signal) => storage.deviceOf(source, spec, signal),
      reconstruct: (_podUid, volumeName) => storage.reconstruct(volumeName, 'Block'),
    },
    expand: {
      async expand({ source, spec }, signal) {
        await storage.expand(source, spec, signal);
        return true;
      },
    },
  };
}

/** Asked of the mount table alone: the directory itself may hang. */
function deviceBehind(directory: string, mountsDirectory: string): string | undefined {
  const table = readMountTable();
  const onNode = referencesOf(table, directory).find((reference) => isWithin(mountsDirectory, reference));
  return table.find(({ mountPoint }) => mountPoint === onNode)?.source;
}
