/** Volumes that show a ConfigMap as files, on disk. */
import type { Payload } from '../disk/writer/payload.ts';
import type { ConfigMapVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { configMapPayload } from './configmap-payload.ts';
import type { ConfigMapReader } from './object-readers.ts';
import { ObjectNotFoundError, type VolumePlugin } from './plugin.ts';
import { type ProjectionVolumes, projectionAttributes } from './projection-volume.ts';

export function configMapPlugin(
  configMaps: ConfigMapReader,
  volumes: ProjectionVolumes,
): VolumePlugin<ConfigMapVolumeSource> {
  return {
    name: 'kubernetes.io/configmap',
    sourceOf: ({ volume }) => volume?.configMap,
    requiresRemount: true,
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp(request, signal) {
      const { pod, source } = request;
      const collect = async (): Promise<Payload> => {
        const configMap = await configMaps.get(pod.metadata.namespace ?? '', source.name, signal);
        if (configMap === undefined && source.optional !== true)
          throw new ObjectNotFoundError('configmap', source.name);
        return configMapPayload(configMap ?? {}, source);
      };
      return volumes.setUp(request, 'disk', collect, signal);
    },
    tearDown: (request) => volumes.tearDown(request),
    reconstruct: (name) => inlineSpec({ name, configMap: { name: '' } }),
  };
}
