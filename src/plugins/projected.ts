/** Volumes that merge several sources (objects, pod fields, tokens, trust bundles, certificates), in memory. */
import { inlineSpec } from '../kube/objects/volume-spec.ts';
import type { ProjectedVolumeSource } from '../kube/objects/volume.ts';
import type { VolumePlugin } from './plugin.ts';
import { collectProjected } from './projected-payload.ts';
import type { ProjectedSources } from './projected-payload.ts';
import { projectionAttributes } from './projection-volume.ts';
import type { ProjectionVolumes } from './projection-volume.ts';

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
