/** The volume manager as pod workers want it, and the effects on this machine that it asks for. */
import { readlinkSync } from 'node:fs';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import { cleanSubPaths } from '../../disk/paths/sub-path-cleaning.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { podDirectory } from '../../kube/values/node-layout.ts';
import type { MountedVolume as ContainerVolume, MountedVolumes } from '../../pods/mounted-volumes.ts';
import type { PodVolumes } from '../../pods/pod-volumes.ts';
import { asPodUid } from '../../volumes/mount-id.ts';
import type { MountedVolume } from '../../volumes/mounted-volume.ts';
import type { SubPathCleaner } from '../../volumes/operations/operation-kind.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';

export function podVolumes(manager: VolumeManager): PodVolumes {
  return {
    waitForMounted: (pod, signal) => manager.waitForMounted(pod, signal),
    waitForUnmounted: (pod, signal) => manager.waitForUnmounted(pod, signal),
    mountedVolumesOf: (pod) => containerVolumes(manager, pod),
    groupsOf: (pod) => manager.queries.extraSupplementalGroups(pod),
    podVolumesExist: (podUid) => manager.podVolumesExist(asPodUid(podUid)),
    podChanged: (podUid) => manager.podChanged(asPodUid(podUid)),
    sourcesChanged: () => manager.sourcesChanged(),
  };
}

function containerVolumes(manager: VolumeManager, { metadata: { uid = '' } }: Pod): MountedVolumes {
  const volumes = manager.queries.mountedVolumesOf(asPodUid(uid));
  return {
    get(name) {
      const volume = volumes.get(name);
      return volume === undefined ? undefined : containerVolume(volume);
    },
  };
}

function containerVolume(volume: MountedVolume): ContainerVolume {
  const { plugin, source, spec, specName, mode, path, link, readOnly } = volume;
  if (mode === 'Block') {
    return { kind: 'block', link: link !== undefined && isLink(link) ? link : undefined, readOnly };
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
