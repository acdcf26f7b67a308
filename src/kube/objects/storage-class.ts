/** A class of storage: who provisions volumes of it, and how. */
import { objectFields } from './metadata.ts';
import { boolean, list, map, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const storageClass = object({
  ...objectFields,
  provisioner: required(string),
  parameters: map(string),
  reclaimPolicy: string,
  mountOptions: list(string),
  allowVolumeExpansion: boolean,
  volumeBindingMode: string,
  allowedTopologies: list(
    object({ matchLabelExpressions: list(object({ key: required(string), values: required(list(string)) })) }),
  ),
});
export interface StorageClass extends Of<typeof storageClass> {}

export function defaultStorageClass(given: StorageClass): StorageClass {
  return {
    ...given,
    reclaimPolicy: given.reclaimPolicy ?? 'Delete',
    volumeBindingMode: given.volumeBindingMode ?? 'Immediate',
  };
}
