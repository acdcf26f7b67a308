/** Volumes that tell a pod about itself, in memory. */
import type { DownwardApiVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { collectDownwardApi } from './downwardapi-payload.ts';
import type { NodeReader } from './object-readers.ts';
import type { VolumePlugin } from './plugin.ts';
import { type ProjectionVolumes, projectionAttributes } from './projection-volume.ts';

export function downwardApiPlugin(
  nodes: NodeReader,
  volumes: ProjectionVolumes,
): VolumePlugin<DownwardApiVolumeSource> {
  return {
    name: 'kubernetes.io/downward-api',
    sourceOf: ({ volume }) => volume?.downwardAPI,
    requiresRemount: true,
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp(request, signal) {
      const { items = [], defaultMode, defaultUser } = request.source;
      const projection = { pod: request.pod, items, defaultMode, defaultUser };
      return volumes.setUp(request, 'memory', () => collectDownwardApi(nodes, projection, signal), signal);
    },
    tearDown: (request) => volumes.tearDown(request),
    reconstruct: (name) => inlineSpec({ name, downwardAPI: {} }),
  };
}
