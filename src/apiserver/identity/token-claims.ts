/** The claims of a service account token, taken out of JSON that was signed but may still be of any form. */
import { isRecord } from '../../kube/schema/equality.ts';

export interface BoundName {
  readonly name: string;
  readonly uid: string;
}

export interface TokenClaims {
  readonly id: string;
  readonly audiences: readonly string[];
  /** Seconds since the epoch. */
  readonly notBefore: number | undefined;
  readonly expires: number | undefined;
  readonly issuedAt: number | undefined;
  readonly namespace: string;
  readonly serviceAccount: BoundName;
  readonly pod: BoundName | undefined;
  readonly secret: BoundName | undefined;
  readonly node: BoundName | undefined;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Undefined when a claim has another form than it must have, or when the token names no service account. */
export function claimsOf(json: JsonObject): TokenClaims | undefined {
  const { aud = [], nbf, exp, iat, jti = '', 'kubernetes.io': own } = json;
  const audiences = typeof aud === 'string' ? [aud] : aud;
  if (!isRecord(own) || typeof own['namespace'] !== 'string' || typeof jti !== 'string') return undefined;
  if (!Array.isArray(audiences) || !audiences.every((item) => typeof item === 'string')) return undefined;
  if (![nbf, exp, iat].every((time) => time === undefined || typeof time === 'number')) return undefined;
  const bound = [own['pod'], own['secret'], own['node']];
  if (!isName(own['serviceaccount']) || !bound.every((item) => item === undefined || isName(item))) return undefined;
  return {
    id: jti,
    audiences,
    notBefore: nbf as number | undefined,
    expires: exp as number | undefined,
    issuedAt: iat as number | undefined,
    namespace: own['namespace'],
    serviceAccount: own['serviceaccount'],
    pod: own['pod'] as BoundName | undefined,
    secret: own['secret'] as BoundName | undefined,
    node: own['node'] as BoundName | undefined,
  };
}

function isName(value: unknown): value is BoundName {
  return isRecord(value) && typeof value['name'] === 'string' && typeof value['uid'] === 'string';
}
