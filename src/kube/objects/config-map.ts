import { objectFields } from './metadata.ts';
import { boolean, bytes, map, object, string } from './schema.ts';
import type { Of } from './schema.ts';

export const configMap = object({ ...objectFields, immutable: boolean, data: map(string), binaryData: map(bytes) });
export interface ConfigMap extends Of<typeof configMap> {}
