/** What relying parties read to verify our tokens themselves: the discovery document and the public keys. */
import type { VerificationKey } from './signing-key.ts';

export const jwksPath = '/openid/v1/jwks';

interface Issuer {
  readonly issuer: string;
  readonly keys: readonly VerificationKey[];
}

/** `serverUrl` is where this server is reached; an issuer may have another address than the server has. */
export function openIdConfiguration({ issuer, keys }: Issuer, serverUrl: string): object {
  return {
    issuer,
    jwks_uri: `${serverUrl}${jwksPath}`,
    response_types_supported: ['id_token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [...new Set(keys.map(({ algorithm }) => algorithm))].toSorted(),
  };
}

/** Its media type is `application/jwk-set+json`. */
export function jsonWebKeySet({ keys }: Issuer): object {
  return {
    keys: keys.map(({ id, algorithm, publicKey }) => ({
      use: 'sig',
      ...publicKey.export({ format: 'jwk' }),
      kid: id,
      alg: algorithm,
    })),
  };
}
