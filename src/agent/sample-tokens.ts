/**
 * Service account tokens where there is no API server to ask: of the right form and with the right claims, signed by a
 * key that is thrown away, so that no server accepts them.
 */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import type { Clock } from '../base/clock.ts';

interface TokenWish {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly audience?: string | undefined;
  readonly expirationSeconds: number;
  readonly pod: { readonly name: string; readonly uid: string };
}

const issuer = 'https://kubernetes.default.svc.cluster.local';

export function sampleTokens({ now }: Pick<Clock, 'now'>): (wish: TokenWish) => string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return ({ namespace, serviceAccount, audience, expirationSeconds, pod }) => {
    const issuedAt = Math.floor(now() / 1000);
    const claims = {
      aud: [audience ?? issuer],
      exp: issuedAt + expirationSeconds,
      iat: issuedAt,
      iss: issuer,
      jti: randomUUID(),
      'kubernetes.io': { namespace, pod, serviceaccount: { name: serviceAccount } },
      nbf: issuedAt,
      sub: `system:serviceaccount:${namespace}:${serviceAccount}`,
    };
    const content = `${encode({ alg: 'ES256', kid: 'mountlet-sample', typ: 'JWT' })}.${encode(claims)}`;
    const signature = sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return `${content}.${signature.toString('base64url')}`;
  };
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}
