/** A lease: who holds something, and until when others should believe it. A node renews its own to show that it lives. */
import { objectFields } from './metadata.ts';
import { integer, object, string } from './schema.ts';
import type { Of } from './schema.ts';

export const lease = object({
  ...objectFields,
  spec: object({
    holderIdentity: string,
    leaseDurationSeconds: integer,
    acquireTime: string,
    renewTime: string,
    leaseTransitions: integer,
    strategy: string,
    preferredHolder: string,
  }),
});
export interface Lease extends Of<typeof lease> {}
