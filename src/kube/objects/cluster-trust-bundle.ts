import { objectFields } from './metadata.ts';
import { object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const clusterTrustBundle = object({
  ...objectFields,
  spec: required(object({ signerName: string, trustBundle: required(string) })),
});
export interface ClusterTrustBundle extends Of<typeof clusterTrustBundle> {}
