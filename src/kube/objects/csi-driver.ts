/** What a CSI driver needs of a node: pod facts at mount, tokens, fsGroup handling. */
import { objectFields } from './metadata.ts';
import { boolean, integer, list, object, replacedByPatch, required, setOf, string } from './schema.ts';
import type { Of } from './schema.ts';

export const csiDriver = object({
  ...objectFields,
  spec: required(
    object({
      attachRequired: boolean,
      podInfoOnMount: boolean,
      volumeLifecycleModes: replacedByPatch(setOf(string)),
      storageCapacity: boolean,
      fsGroupPolicy: string,
      tokenRequests: list(object({ audience: required(string), expirationSeconds: integer })),
      requiresRepublish: boolean,
      seLinuxMount: boolean,
      nodeAllocatableUpdatePeriodSeconds: integer,
      serviceAccountTokenInSecrets: boolean,
      preventPodSchedulingIfMissing: boolean,
    }),
  ),
});
export interface CsiDriver extends Of<typeof csiDriver> {}

export function defaultCsiDriver(driver: CsiDriver): CsiDriver {
  const { spec } = driver;
  const modes = spec.volumeLifecycleModes ?? [];
  return {
    ...driver,
    spec: {
      ...spec,
      attachRequired: spec.attachRequired ?? true,
      podInfoOnMount: spec.podInfoOnMount ?? false,
      storageCapacity: spec.storageCapacity ?? false,
      fsGroupPolicy: spec.fsGroupPolicy ?? 'ReadWriteOnceWithFSType',
      volumeLifecycleModes: modes.length === 0 ? ['Persistent'] : modes,
      requiresRepublish: spec.requiresRepublish ?? false,
    },
  };
}
