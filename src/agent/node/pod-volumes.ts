/** The volume manager as pod workers want it, and the effects on this machine that it asks for. */
import { readFileSync, readlinkSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import { cleanSubPaths } from '../../disk/paths/sub-path-cleaning.ts';
import { deviceDirectory, podDirectory } from '../../kube/node-layout.ts';
import type { Pod } from '../../kube/objects/pod.ts';
import type { MountedVolume as ContainerVolume, MountedVolumes } from '../../pods/mounted-volumes.ts';
import type { PodVolumes } from '../../pods/pod-volumes.ts';
import { asPodUid } from '../../volumes/mount-id.ts';
import type { MountedVolume } from '../../volumes/mounted-volume.ts';
import type { DeviceProbe, SubPathCleaner } from '../../volumes/operations/operation-kind.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';

export function podVolumes(manager: VolumeManager, root: string): PodVolumes {
  return {
    waitForMounted: (pod, signal) => manager.waitForMounted(pod, signal),
    waitForUnmounted: (pod, signal) => manager.waitForUnmounted(pod, signal),
    mountedVolumesOf: (pod) => containerVolumes(manager, root, pod),
    groupsOf: (pod) => manager.queries.extraSupplementalGroups(pod),
    podVolumesExist: (podUid) => manager.podVolumesExist(asPodUid(podUid)),
    podChanged: (podUid) => manager.podChanged(asPodUid(podUid)),
    sourcesChanged: () => manager.sourcesChanged(),
  };
}

function containerVolumes(manager: VolumeManager, root: string, { metadata: { uid = '' } }: Pod): MountedVolumes {
  const volumes = manager.queries.mountedVolumesOf(asPodUid(uid));
  return {
    get(name) {
      const volume = volumes.get(name);
      return volume === undefined ? undefined : containerVolume(volume, root, uid);
    },
  };
}

function containerVolume(volume: MountedVolume, root: string, podUid: string): ContainerVolume {
  const { plugin, source, spec, specName, mode, path, readOnly } = volume;
  if (mode === 'Block') {
    const link = deviceDirectory(root, podUid, plugin.name, specName);
    return { kind: 'block', link: isLink(link) ? link : undefined, readOnly };
  }
  if (path === undefined) return { kind: 'image', reference: spec.volume?.image?.reference ?? '' };
  const attributes = plugin.attributes(source, spec);
  return {
    kind: 'filesystem',
    hostPath: path,
    specName,
    readOnly: readOnly || attributes.readOnly,
    managed: attributes.managed,
    supportsSelinuxRelabel: attributes.selinuxRelabel,
    ...(attributes.replaced !== undefined && { replaced: attributes.replaced }),
  };
}

function isLink(path: string): boolean {
  try {
    readlinkSync(path);
    return true;
  } catch {
    return false;
  }
}

export function subPathCleaner(root: string, mounts: Mounts): SubPathCleaner {
  return {
    async clean(podUid, volumeName) {
      cleanSubPaths(podDirectory(root, podUid), volumeName, mounts);
    },
  };
}

/** A device is open when something but us holds it: a mount, or another device that was made of it. */
export const deviceProbe: DeviceProbe = {
  async isDevice(path) {
    return statSync(path, { throwIfNoEntry: false })?.isBlockDevice() ?? false;
  },
  async isOpen(path) {
    const { rdev } = statSync(path);
    const numbers = `${(rdev >> 8) & 0xfff}:${(rdev & 0xff) | ((rdev >> 12) & 0xfff00)}`;
    const isMounted = readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .some((line) => line.split(' ')[2] === numbers);
    if (isMounted) return true;
    try {
      return readdirSync(join('/sys/dev/block', numbers, 'holders')).length > 0;
    } catch {
      return false;
    }
  },
};
