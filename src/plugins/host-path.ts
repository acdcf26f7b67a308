/** A path of the host, used as it is: checked, or made where its type asks for that, and never removed. */
import { foreignKindOf } from '../disk/devices/foreign-paths.ts';
import type { Programs } from '../disk/devices/programs.ts';
import { isForeign } from '../disk/mounts/mount-table.ts';
import { checkHostPath } from '../disk/paths/host-kind.ts';
import type { HostPathVolumeSource } from '../kube/kinds/storage/volume-sources.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import type { VolumePlugin } from './plugin.ts';

export function hostPathPlugin(programs: Programs): VolumePlugin<HostPathVolumeSource> {
  return {
    name: 'kubernetes.io/host-path',
    sourceOf: ({ volume, persistentVolume }) => volume?.hostPath ?? persistentVolume?.spec.hostPath,
    supportsMountOptions: false,
    attributes: (_source, { readOnly }) => ({ readOnly }),
    hostPathOf: ({ path }) => path,
    async setUp({ source: { path, type = '' } }, signal) {
      if (type !== '' && isForeign(path)) await foreignKindOf(programs, path, signal);
      checkHostPath(path, type);
      return { changed: false, files: 0, hidden: [] };
    },
    async tearDown() {
      // The path is the host's; nothing was made below the pod.
    },
    reconstruct: (name) => inlineSpec({ name, hostPath: { path: name } }),
  };
}
