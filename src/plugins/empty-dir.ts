/** Scratch space that lives exactly as long as its pod is on the node: on disk, in memory or on huge pages. */
import type { Mounts } from '../disk/mounts/mounts.ts';
import type { EmptyDirVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { Quantity } from '../kube/values/quantity.ts';
import type { EmptyDirectories } from './empty-directories.ts';
import { MediumError, mediumOf } from './empty-directory-medium.ts';
import { allocatableMemory } from './node-allocatable.ts';
import type { NodeReader } from './object-readers.ts';
import type { ResizeRequest, VolumePlugin } from './plugin.ts';

interface EmptyDirDeps {
  readonly nodes: NodeReader;
  readonly emptyDirectories: EmptyDirectories;
  readonly mounts: Mounts;
}

export function emptyDirPlugin(deps: EmptyDirDeps): VolumePlugin<EmptyDirVolumeSource> {
  const { nodes, emptyDirectories } = deps;
  return {
    name: 'kubernetes.io/empty-dir',
    sourceOf: ({ volume }) => volume?.emptyDir,
    requiresRemount: false,
    supportsMountOptions: false,
    attributes: () => ({ readOnly: false, managed: true, selinuxRelabel: true }),
    async setUp({ pod, source, volumeName, directory, fsGroup }, signal) {
      const memory = source.medium === 'Memory' ? await allocatableMemory(nodes, signal) : Quantity.zero();
      const { made } = await emptyDirectories.setUp(
        {
          podUid: pod.metadata.uid ?? '',
          directory,
          markerName: volumeName,
          medium: mediumOf(source, pod, memory),
          mode: source.mode,
          fsGroup,
        },
        signal,
      );
      return { changed: made, files: 0, hidden: [] };
    },
    tearDown: ({ podUid, directory, volumeName }) =>
      emptyDirectories.tearDown({ podUid, directory, markerName: volumeName }),
    // Which medium it has is not known and need not be: tear-down looks at the directory.
    reconstruct: (name) => inlineSpec({ name, emptyDir: {} }),
    resize: { resize: async (request) => resize(deps, request) },
  };
}

function resize({ mounts, emptyDirectories }: EmptyDirDeps, request: ResizeRequest<EmptyDirVolumeSource>): void {
  const { source, volumeName, directory, sizeBytes } = request;
  if (source.medium !== 'Memory') throw new MediumError('only memory-backed emptyDir volumes support direct resize');
  if (sizeBytes === undefined || sizeBytes === 0n) {
    throw new MediumError('addition or removal of size limit is not supported');
  }
  if (!emptyDirectories.isMounted(directory)) {
    throw new MediumError(`volume ${volumeName} is not yet mounted; deferring resize`);
  }
  mounts.resizeTmpfs(directory, sizeBytes);
}
