/** The files a ConfigMap becomes. Pure; shared by configMap and projected volumes. */
import type { Payload } from '../disk/writer/payload.ts';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import { type KeyProjection, projectKeys } from './key-projection.ts';

/**
 * The API forbids a key in both maps. Should one be in both, the whole object shows the binary value and a listed key
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
