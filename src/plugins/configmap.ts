/** Volumes that show a ConfigMap as files, on disk. */
import type { Payload } from '../disk/writer/payload.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { ConfigMapVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { ObjectNotFoundError, type VolumePlugin } from './plugin.ts';
import { type KeyProjection, type ProjectionVolumes, projectKeys, projectionAttributes } from './projection.ts';

export interface ConfigMapReader {
  get(namespace: string, name: string, signal: AbortSignal): Promise<ConfigMap | undefined>;
}

export function configMapPlugin(
  configMaps: ConfigMapReader,
  volumes: ProjectionVolumes,
): VolumePlugin<ConfigMapVolumeSource> {
  return {
    name: 'kubernetes.io/configmap',
    sourceOf: ({ volume }) => volume?.configMap,
    follows: ({ name }) => [{ object: { kind: 'ConfigMap', name } }],
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

/**
 * The files of a ConfigMap; projected volumes use it too. The API forbids a key in both maps. Should one be in both, the whole object shows the binary value and a listed key
 * the text, as the kubelet has it.
 */
export function configMapPayload(
  { data = {}, binaryData = {} }: Pick<ConfigMap, 'data' | 'binaryData'>,
  projection: KeyProjection,
): Payload {
  return projectKeys(
    {
      *all() {
        for (const [key, text] of Object.entries(data)) yield [key, Buffer.from(text, 'utf8')];
        for (const [key, encoded] of Object.entries(binaryData)) yield [key, Buffer.from(encoded, 'base64')];
      },
      find(key) {
        // Keys are chosen by users: `toString` is a key like any other and not to be found in a prototype.
        if (Object.hasOwn(data, key)) return Buffer.from(data[key] ?? '', 'utf8');
        return Object.hasOwn(binaryData, key) ? Buffer.from(binaryData[key] ?? '', 'base64') : undefined;
      },
      missing: (key) => `configmap references non-existent config key: ${key}`,
    },
    projection,
  );
}
