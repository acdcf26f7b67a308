/** The content of an image, read-only. The container runtime pulls and mounts it: on the node's disk there is nothing. */
import type { Volume } from '../kube/kinds/pod/volume.ts';
import type { VolumePlugin } from './plugin.ts';

export function imagePlugin(): VolumePlugin<NonNullable<Volume['image']>> {
  return {
    name: 'kubernetes.io/image',
    sourceOf: ({ volume }) => volume?.image,
    supportsMountOptions: false,
    attributes: () => ({ readOnly: true }),
    hostPathOf: () => undefined,
    setUp: async () => ({ changed: false, files: 0, hidden: [] }),
    async tearDown() {
      // Nothing was made.
    },
    reconstruct: () => undefined,
  };
}
