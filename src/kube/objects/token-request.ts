/** A request for a token of a service account, with what it is for and how long. */
import { objectFields } from './metadata.ts';
import { integer, list, map, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const tokenRequest = object({
  ...objectFields,
  spec: required(
    object({
      audiences: required(list(string)),
      expirationSeconds: integer,
      boundObjectRef: object({ kind: string, apiVersion: string, name: string, uid: string }),
      attestations: map(list(string)),
    }),
  ),
  status: object({ token: required(string), expirationTimestamp: string }),
});
export interface TokenRequest extends Of<typeof tokenRequest> {}

const hourSeconds = 60 * 60;

/** The kubelet plans its refresh by the time in the answer, so it is always there. */
export function defaultTokenRequest(request: TokenRequest): TokenRequest {
  const { spec } = request;
  return { ...request, spec: { ...spec, expirationSeconds: spec.expirationSeconds ?? hourSeconds } };
}
