/**
 * Defaults of the objects that are not pods, as the API server sets them when an object is decoded. Every function returns
 * a new object and may be applied again without effect. What admission adds (tokens, tolerations) is not defaulting.
 */
import { encodeBase64 } from './base64.ts';
import type { ConfigMap } from './config-map.ts';
import type { Secret } from './secret.ts';

export function defaultConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data === undefined ? { ...configMap, data: {} } : configMap;
}

/** Folds `stringData` into `data`, over what is there, and removes it: from here on nobody needs to know of it. */
export function defaultSecret(secret: Secret): Secret {
  const { stringData, ...rest } = secret;
  const type = secret.type === undefined || secret.type === '' ? 'Opaque' : secret.type;
  if (stringData === undefined) return { ...rest, type };
  // No prototype: `__proto__` is a key like any other here, which validation will refuse by its own rules.
  const data = Object.create(null) as Record<string, string>;
  for (const [key, value] of Object.entries(secret.data ?? {})) data[key] = value;
  for (const [key, value] of Object.entries(stringData)) data[key] = encodeBase64(value);
  return { ...rest, data, type };
}
