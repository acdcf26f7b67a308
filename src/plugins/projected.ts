/** Volumes that merge several sources (objects, pod fields, tokens, trust bundles, certificates), in memory. */
import type { ProjectedVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import type { VolumePlugin } from './plugin.ts';
import { type ProjectedSources, collectProjected } from './projected-payload.ts';
import { type ProjectionVolumes, projectionAttributes } from './projection-volume.ts';

export function projectedPlugin(
  sources: ProjectedSources,
  volumes: ProjectionVolumes,
): VolumePlugin<ProjectedVolumeSource> {
  return {
    name: 'kubernetes.io/projected',
    sourceOf: ({ volume }) => volume?.projected,
    requiresRemount: true,
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp: (request, signal) =>
      volumes.setUp(request, 'memory', () => collectProjected(sources, request, signal), signal),
    async tearDown(request) {
      await volumes.tearDown(request);
      // Only once the files are gone: a failed tear-down leaves a volume that is still read.
      sources.tokens?.forgetPod(request.podUid);
    },
    reconstruct: (name) => inlineSpec({ name, projected: { sources: [] } }),
  };
}
